// Whether one system's translations of a test set are better than another's by more than chance: sacreBLEU's two paired tests,
// with the same draws for the same seed.
//   - Bootstrap: Koehn, "Statistical significance tests for machine translation evaluation", EMNLP 2004. The test set is drawn
//     anew, with replacement, many times.
//   - Approximate randomisation: Riezler, Maxwell, "On some pitfalls in automatic evaluation and significance testing for MT",
//     ACL workshop 2005. The two translations of each sentence change places or not, at random.
// The p-value is (c + 1) / (trials + 1), c counting the trials in which chance makes at least the difference that was found.
// (sacreBLEU counts the larger ones alone. That matters for ties: two equal systems have p = 1 here and the smallest possible
// p there.) For the bootstrap, what chance makes is |difference| in a drawn test set less its mean over all of them:
// sacreBLEU's way, which looks at one side. So p may be below 0.05 while the interval of 95% of the differences just holds 0.
// Thread-safe: functions without state.
#pragma once

#include <vector>

#include "seq2seq/measure.h"

namespace seqgrad::seq2seq {

// A score over the drawn test sets: their mean, and half the width of the interval that holds 95% of them.
struct Confidence {
  double mean = 0, interval = 0;
};

struct Comparison {
  std::string name, signature;      // the signature says test, trials and seed
  double baseline = 0, system = 0;  // scores
  double p_value = 1;
  // Of the bootstrap only:
  Confidence baseline_confidence, system_confidence;
  double difference_low = 0, difference_high = 0;  // 95% of the differences system - baseline lie between

  double difference() const { return system - baseline; }
};

// Both measured in the same way on the same test set. Errors: they were not; fewer than 1 trial.
Comparison paired_bootstrap(const Measured& baseline, const Measured& system, i64 trials = 1000, u64 seed = 12345);
Comparison paired_randomization(const Measured& baseline, const Measured& system, i64 trials = 10000, u64 seed = 12345);

struct Spread {
  double mean = 0, deviation = 0;  // the deviation that of a sample: of one value it is not a number
};
Spread spread(const std::vector<double>& values);

// Student's t-test of pairs, such as two systems trained from the same seeds: whether the differences' mean is other than 0,
// the differences being taken as normal. Two-sided.
struct PairedTest {
  i64 pairs = 0;
  double mean = 0, deviation = 0;  // of the differences; the deviation that of a sample
  double t = 0, p_value = 1;       // fewer than two pairs: not a number
};
PairedTest paired_t_test(const std::vector<double>& baseline, const std::vector<double>& system);

// The probability that |t| of so many degrees of freedom is at least this large by chance.
double student_p_value(double t, i64 degrees_of_freedom);

}  // namespace seqgrad::seq2seq
