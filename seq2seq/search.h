// From source sentences to their translations. Thread-safe on different Translators.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "seq2seq/inference.h"

namespace seqgrad::seq2seq {

struct Translation {
  std::vector<i64> ids;  // without </s>
  std::vector<std::vector<float>>
      weights;                 // [target token][source token incl. </s>]; </s>'s own row is last; empty for attention none
  double log_probability = 0;  // of the tokens and of </s>
  bool cut_off = false;        // the length limit came before </s>
};

struct SearchOptions {
  i64 batch = 64;  // sentences at a time
  // A translation that has not ended after longest(words of the source and </s>) words is cut off.
  double length_factor = 2;
  i64 length_more = 10;

  i64 longest(i64 source_length) const {
    return std::max<i64>(1, static_cast<i64>(length_factor * static_cast<double>(source_length)) + length_more);
  }
};

// What a search has done so far, for those who measure.
struct SearchWork {
  i64 sentences = 0, source_tokens = 0;  // with </s>
  i64 steps = 0, extended = 0;           // of the decoder; hypotheses that they extended by a word
  i64 looks = 0;                         // source positions looked at: the sum of the extended hypotheses' source lengths
};

// A run laid out for translating, which costs as much as a few sentences: one for many calls. Translations are the same to the
// bit whatever the batch, its order and its other sentences.
class Translator {
 public:
  explicit Translator(const Run& run, const SearchOptions& options = {});

  // The most probable next word at every step. sources: ids ending in </s>, none empty. At most `batch` sentences at a time:
  // the place of one that has ended is taken by the next.
  std::vector<Translation> greedy(const std::vector<std::vector<i64>>& sources);

  // Sentences of words in, sentences of words out, the longest first. An empty sentence stays empty.
  std::vector<Translation> translate(const std::vector<std::vector<std::string>>& sentences);

  const SearchWork& work() const { return work_; }

 private:
  const Run& run_;
  SearchOptions options_;
  Inference model_;
  SearchWork work_;
};

}  // namespace seqgrad::seq2seq
