// What the studies share: keys, one attention step on the tape, Monte-Carlo means.
#pragma once

#include <cmath>

#include "autograd/ops.h"
#include "seq2seq/study.h"
#include "tensor/random.h"

namespace seqgrad::seq2seq {

void check_study_options(const StudyOptions& options, i64 fewest_keys);

// (m, d) with orthonormal rows: a random matrix through Gram and Schmidt's procedure, twice for the rounding.
Tensor orthonormal_rows(i64 m, i64 d, Generator& generator);

struct Attended {
  std::vector<double> weights;  // m
  Tensor context;               // (1, dv)
};
// q (1, d), k (m, d), v (m, dv)
Attended attend(const Tensor& q, const Tensor& k, const Tensor& v);

// sum_i factor_i rows_i as a (1, d) row.
Tensor combine(const std::vector<double>& factors, const Tensor& rows);

double distance(const Tensor& a, const Tensor& b);  // Euclidean

class MonteCarlo {
 public:
  void add(double x) {
    ++count_;
    const double step = x - mean_;
    mean_ += step / static_cast<double>(count_);
    squares_ += step * (x - mean_);
  }
  double mean() const { return mean_; }
  double variance() const { return squares_ / static_cast<double>(count_ - 1); }
  double standard_error() const { return std::sqrt(variance() / static_cast<double>(count_)); }

 private:
  i64 count_ = 0;
  double mean_ = 0, squares_ = 0;  // Welford 1962
};

}  // namespace seqgrad::seq2seq
