// Conformance: every routine of ops.def, at every CPU level and on every device, against the plain loops of v1 on awkward
// input.
//
//   CONFORMANCE(softmax) {                       // body of a template over T, with `tested`: the routines on trial
//     const auto x = random<T>(12);
//     agree(tested, [&](const Routines<T>& r, Outputs<T>& out) { r.softmax(x.data(), out.fresh(12), 3, 4); });
//   }
//
// agree() runs the lambda with v1, then with the tested routines on one thread and on two (on a device: with v1 in double, then
// in several orders of its threads). Values must be close, bits must not depend on the number of threads or their order, "="
// outputs start as NaN, and the memory around each output must stay as it was.
// Not thread-safe.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/threads.h"

namespace seqgrad::kernels::test {

// One level's routines as a table of functions.
template <class T>
struct Routines {
#define SEQGRAD_KERNEL(name, parameters, arguments) void(*name) parameters;
#include "kernels/ops.def"
#undef SEQGRAD_KERNEL
};

template <class T>
const Routines<T>& v1_routines();

struct Level {
  std::string name;
  Routines<float> floats;
  Routines<double> doubles;
};
const std::vector<Level>& levels();  // those that this CPU has, or the device

// What must not change a bit: vary(0) to vary(variations() - 1) set the number of threads, or the order in which they run.
int variations();
void vary(int variation);
void vary_no_more();

template <class T>
constexpr T nan = std::numeric_limits<T>::quiet_NaN();

inline std::mt19937& generator() {
  static std::mt19937 state(7);
  return state;
}

// n normal numbers times `scale`.
template <class T>
std::vector<T> random(i64 n, double scale = 1) {
  std::normal_distribution<double> normal(0, scale);
  std::vector<T> x(static_cast<size_t>(n));
  for (T& value : x) value = static_cast<T>(normal(generator()));
  return x;
}
inline std::vector<i64> random_ids(i64 n, i64 count) {
  std::vector<i64> ids(static_cast<size_t>(n));
  for (i64& id : ids) id = std::uniform_int_distribution<i64>(0, count - 1)(generator());
  return ids;
}

// The outputs of one run, in the order in which it asked for them.
template <class T>
class Outputs {
 public:
  T* fresh(i64 n) { return copy(std::vector<T>(static_cast<size_t>(n), nan<T>)); }  // for "="
  T* copy(const std::vector<T>& x) {                                                // for "+=" and for work in place
    Guarded guarded{std::vector<T>(x.size() + 2 * margin, sentinel), x.size()};
    std::copy(x.begin(), x.end(), guarded.memory.begin() + margin);
    all_.push_back(std::move(guarded));
    return all_.back().memory.data() + margin;
  }
  i64* ids(i64 n) { return ids_.emplace_back(static_cast<size_t>(n), -7).data(); }

  // What is wrong with this run, or "".
  std::string overrun() const {
    for (const Guarded& output : all_) {
      for (size_t i = 0; i < margin; ++i) {
        if (output.memory[i] != sentinel || output.memory[margin + output.size + i] != sentinel) return "wrote out of bounds";
      }
    }
    return "";
  }
  std::string other_bits(const Outputs& other) const {
    auto theirs = other.all_.begin();
    for (const Guarded& ours : all_) {
      if (std::memcmp(ours.memory.data(), theirs->memory.data(), ours.memory.size() * sizeof(T)))
        return "bits vary with threads";
      ++theirs;
    }
    return ids_ == other.ids_ ? "" : "ids vary with threads";
  }
  std::string difference(const Outputs& expected, double tolerance) const {
    auto theirs = expected.all_.begin();
    int output = 0;
    for (const Guarded& ours : all_) {
      for (size_t i = margin; i < margin + ours.size; ++i) {
        const double got = ours.memory[i], want = theirs->memory[i];
        const bool close =
            got == want || (std::isnan(got) && std::isnan(want)) || std::abs(got - want) <= tolerance * (1 + std::abs(want));
        if (!close) {
          return fmt::format("output {}, element {} of {}: {}, v1 has {}", output, i - margin, ours.size, got, want);
        }
      }
      ++output;
      ++theirs;
    }
    return ids_ == expected.ids_ ? "" : "other ids than v1";
  }

 private:
  static constexpr size_t margin = 16;
  static constexpr T sentinel = T(-12345.5);
  struct Guarded {
    std::vector<T> memory;
    size_t size;
  };
  std::list<Guarded> all_;
  std::list<std::vector<i64>> ids_;
};

template <class T>
double default_tolerance() {
  return std::is_same_v<T, float> ? 1e-5 : 1e-13;
}

inline i64 inputs_compared = 0;  // so far

// What is wrong with the routines on trial, or "". `factor` widens the tolerance where long sums are rounded;
// same_bits = false where BLAS splits sums among its threads.
template <class T, class Run>
std::string disagreement(const Routines<T>& tested, const Run& run, double factor = 1, bool same_bits = true) {
  const double tolerance = factor * default_tolerance<T>();
  ++inputs_compared;
  Outputs<T> expected, first;
  vary(0);
  run(v1_routines<T>(), expected);
  run(tested, first);
  std::string fault = first.overrun();
  if (fault.empty()) fault = first.difference(expected, tolerance);
  for (int i = 1; fault.empty() && i < variations(); ++i) {
    Outputs<T> again;
    vary(i);
    run(tested, again);
    fault = again.overrun();
    if (fault.empty()) fault = same_bits ? again.other_bits(first) : again.difference(expected, tolerance);
  }
  vary_no_more();
  return fault;
}

template <class T, class Run>
void agree(const Routines<T>& tested, const Run& run, double factor = 1, bool same_bits = true) {
  REQUIRE(disagreement(tested, run, factor, same_bits) == "");
}

struct Case {
  std::string name;
  void (*floats)(const Routines<float>&);
  void (*doubles)(const Routines<double>&);
};
std::vector<Case>& cases();

#define CONFORMANCE(routine)                                                                          \
  struct routine##_case {                                                                             \
    template <class T>                                                                                \
    static void run(const Routines<T>& tested);                                                       \
  };                                                                                                  \
  static const auto routine##_registered =                                                            \
      &cases().emplace_back(Case{#routine, routine##_case::run<float>, routine##_case::run<double>}); \
  template <class T>                                                                                  \
  void routine##_case::run([[maybe_unused]] const Routines<T>& tested)

// The lengths at which loops over vectors go wrong.
inline const std::vector<i64> lengths = {0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 65, 127, 1023, 1025};
constexpr i64 large = 70001;  // more than one thread's share

}  // namespace seqgrad::kernels::test
