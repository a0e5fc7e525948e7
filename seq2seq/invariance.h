// Does a sentence's translation or loss depend on its neighbours in the batch, on its place among them, or on padding? In
// exact arithmetic it does not; a model that lets padding into a state, a score or a mean is found here. In floating point sums
// round differently in batches of other sizes, so losses agree within rounding, and a translation can change only where the
// two best words are as good as equal: such a tie is counted as a change and named as what it is.
// Not for use by two threads at once on one run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "seq2seq/run.h"

namespace seqgrad::seq2seq {

// Translations, without </s>, of a batch of sources that is padded by so many columns more than it needs.
using BatchTranslator = std::function<std::vector<std::vector<i64>>(const std::vector<std::vector<i64>>& sources, i64 padding)>;

struct InvarianceOptions {
  std::vector<i64> batches = {1, 7, 64};
  i64 padding = 40;              // columns added to some variants
  u64 seed = 1;                  // of the shuffled orders
  double f64_tolerance = 1e-12;  // on a sentence's mean loss per target token
  double f32_tolerance = 1e-5;
  double tie = 1e-5;                // words whose log-probabilities are this close are equal within f32 rounding
  BatchTranslator translator = {};  // to check a search of one\'s own; by default greedy search, as `translate` does it
};

struct ChangedTranslation {
  std::size_t sentence = 0;              // its index
  std::vector<i64> alone, changed;       // translations, without </s>
  i64 alone_word = 0, changed_word = 0;  // where the two part, </s> included
  double gap = 0;                        // between their log-probabilities there, as the sentence alone gives them
  bool tie = false;
};

struct InvarianceVariant {
  i64 batch = 1;
  bool shuffled = false;  // or sorted by length, longest first, as `translate` does
  i64 padding = 0;
  i64 sentences = 0, identical = 0;
  std::vector<ChangedTranslation> changed;
  // The largest difference of a sentence's mean loss per target token; with targets only.
  double f64_difference = 0, f32_difference = 0;
  std::size_t f64_worst = 0, f32_worst = 0;  // the sentences they were found in

  std::string name() const;  // "batch 64, shuffled, 40 more columns"
};

struct InvarianceReport {
  std::vector<InvarianceVariant> variants;
  bool with_losses = false;

  bool ok(const InvarianceOptions& options) const;
};

// Compares with each sentence alone: one row, no padding. Sources end in </s> and are not empty. Translations are made in the
// run's own precision; losses are computed in f32 and in f64 from the same weights.
// with_losses: the pairs have targets.
InvarianceReport check_invariance(const Run& run, const std::vector<EncodedPair>& pairs, bool with_losses,
                                  const InvarianceOptions& options = {},
                                  const std::function<void(const InvarianceVariant&)>& on_variant = {});

}  // namespace seqgrad::seq2seq
