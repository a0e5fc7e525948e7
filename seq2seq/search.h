// From a source sentence to its translation. Thread-safe on different models.
#pragma once

#include <string>
#include <vector>

#include "seq2seq/run.h"

namespace seqgrad::seq2seq {

struct Translation {
  std::vector<i64> ids;  // without </s>
  std::vector<std::vector<float>>
      weights;                 // [target token][source token incl. </s>]; </s>'s own row is last; empty for attention none
  double log_probability = 0;  // of the tokens and of </s>
  bool cut_off = false;        // the length limit came before </s>
};

// The longest translation that is tried for a source of n tokens.
inline i64 length_limit(i64 source_length) { return 2 * source_length + 10; }

// The most probable next word at every step, for a whole batch at once. sources: ids ending in </s>, none empty.
std::vector<Translation> greedy(const Seq2Seq& model, const std::vector<std::vector<i64>>& sources);

// Sentences of words in, sentences of words out; sorted by length into batches inside. An empty sentence stays empty.
std::vector<Translation> translate(const Run& run, const std::vector<std::vector<std::string>>& sentences, i64 batch);

}  // namespace seqgrad::seq2seq
