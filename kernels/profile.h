// Where time goes: calls, seconds, floating-point operations and bytes of every routine of ops.def, of matrix products by
// shape. Off at first: each call then pays one relaxed load and a branch.
//
//   kernels::start_profile();
//   train_step(...);
//   kernels::stop_profile();
//   for (const kernels::RoutineProfile& one : kernels::profile()) ...
//
// Seconds are shares of the time on the clock: while threads of the caller are inside n routines at once, each of the n is
// given 1/n of what passes. So the seconds of all routines add up to the time in which any ran, and the rest of the time that
// passed was spent in none of them. OpenMP's threads within a routine belong to it. Of a routine that calls another, only the
// time outside the other counts.
// Thread-safe; there is one profile for the whole process.
#pragma once

#include <atomic>
#include <compare>
#include <string>
#include <vector>

#include "kernels/types.h"

namespace seqgrad::kernels {

// op(a) (m,k) times op(b) (k,n), `batch` times.
struct ProductShape {
  i64 m = 0, n = 0, k = 0, batch = 0;
  bool transpose_a = false, transpose_b = false;

  auto operator<=>(const ProductShape&) const = default;
};

// What one call does at the least: operations of its equation (+ - * / and each function count one), and bytes read and written
// if every operand passed once between memory and processor. All 0 where nobody counted (work.h).
struct Work {
  double flops = 0, bytes = 0;
  ProductShape product;  // of gemm and gemm_batched
};

struct RoutineProfile {
  std::string name;  // "gru_gates", "tanh_backward", "gemm"
  ProductShape product;
  i64 calls = 0;
  double seconds = 0, flops = 0, bytes = 0;
};

void start_profile();  // forgets what was recorded before
void stop_profile();
std::vector<RoutineProfile> profile();  // since start_profile(), those that took longest first

inline std::atomic<bool> profiling_is_on{false};
inline bool profiling() { return profiling_is_on.load(std::memory_order_relaxed); }

// Records what passes between its making and its end as one call. `routine` lives forever.
class ProfileScope {
 public:
  ProfileScope(const char* routine, const Work& work);
  ~ProfileScope();
  ProfileScope(const ProfileScope&) = delete;
  ProfileScope& operator=(const ProfileScope&) = delete;

 private:
  const char* routine_;
  Work work_;
  u64 recording_;         // which start_profile() this belongs to
  ProfileScope* around_;  // the routine that called this one
  double start_, inside_ = 0;
};

}  // namespace seqgrad::kernels
