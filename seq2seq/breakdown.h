// Where the time of training steps goes: the profile of the kernels (kernels/profile.h) sorted by kinds of work. Value types; a
// Breakdown belongs to one thread at a time.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "kernels/profile.h"

namespace seqgrad::seq2seq {

// Means over the steps; rates while it runs.
struct TimeShare {
  std::string name;
  double calls = 0, milliseconds = 0;  // a step
  double share = 0;                    // of the step
  double gflops = 0, gigabytes_per_second = 0;
};

class Breakdown {
 public:
  // fixed_sizes: those that products have in every step, such as the model's. Products that differ in others only are one
  // shape.
  explicit Breakdown(std::set<i64> fixed_sizes = {}) : fixed_(std::move(fixed_sizes)) {}

  void add_step(const std::vector<kernels::RoutineProfile>& routines, double seconds, double data_seconds);

  i64 steps() const { return steps_; }
  double milliseconds() const;  // a step

  // Every kind, always in the same order, ending with "data" (the making of batches) and "rest" (the tape, and all that no
  // routine of ops.def does); the shares sum to 1.
  std::vector<TimeShare> kinds() const;
  // Longest first: matrix products as "128x1536x512 nt" (m, n, k; t: an operand that lies transposed; ~: the mean of sizes that
  // vary), and the other routines by name.
  std::vector<TimeShare> products() const;
  std::vector<TimeShare> routines() const;

 private:
  struct Sum {
    double calls = 0, seconds = 0, flops = 0, bytes = 0, m = 0, n = 0, k = 0;  // m, n, k: times calls
  };
  TimeShare share_of(const std::string& name, const Sum& sum) const;

  std::set<i64> fixed_;
  i64 steps_ = 0;
  double seconds_ = 0, data_seconds_ = 0;
  std::map<std::string, Sum> kinds_, routines_;
  std::map<kernels::ProductShape, Sum> products_;  // sizes that vary are 0
};

// The kind of work that a routine of ops.def does: "matrix products", "gates", "attention" ...
const char* kind_of(const std::string& routine);

}  // namespace seqgrad::seq2seq
