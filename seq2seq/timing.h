// Times taken and what is said of several: for training's reports and the benchmarks. Thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace seqgrad::seq2seq {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The value at place q (n - 1) of n sorted values, rounded; of at least one.
inline double quantile(std::vector<double> values, double q) {
  const auto place = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}
inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

}  // namespace seqgrad::seq2seq
