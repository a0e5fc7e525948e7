// A model measured on a test set: how well it predicts the references, and how well it translates the sources.
// Not for use by two threads at once.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "seq2seq/measure.h"
#include "seq2seq/search.h"
#include "seq2seq/train.h"

namespace seqgrad::seq2seq {

// The loss of a decoder that goes on from its own words: at each step the negative log-likelihood of the reference's word
// after the source and the words that the decoder itself found most probable so far, in place of the reference's. Mean over
// the references' words and their </s>, in nats, dropout off. The steps are as many as the reference has, whatever the model
// says, and word is compared with word at the same place: a translation that is as good but has one word more is charged for
// all that follow. This is what tutorials call the validation loss without teacher forcing; its exponential is no perplexity.
struct FreeRunning {
  double negative_log_likelihood = 0;
  i64 tokens = 0;
  double loss() const { return tokens ? negative_log_likelihood / static_cast<double>(tokens) : 0; }
};
FreeRunning free_running(const Run& run, const std::vector<EncodedPair>& pairs, i64 batch);

struct EvaluationOptions {
  SearchOptions search = {.weights = false};  // how the sources are translated
  BleuOptions bleu = {.tokenize = BleuTokenizer::none};
  bool free_running = false;
  std::vector<i64> length_edges = default_length_edges;  // see length_buckets()
  i64 max_length = 0;  // tokens: of longer sources the rest is not translated, longer pairs have no loss; 0: no limit
};

struct Evaluation {
  Perplexity teacher_forced;
  std::optional<FreeRunning> free_running;
  i64 pairs = 0;                         // sentences with a word on either side and no side too long: what both losses are over
  std::vector<std::size_t> cut_sources;  // lines, from 0, of sources that were too long
  i64 reference_words = 0, unknown_reference_words = 0;  // tokens

  std::vector<std::string> hypotheses;
  i64 cut_off = 0;  // translations that had not ended at the length limit
  BleuScore bleu;
  std::vector<Measured> measures;       // BLEU, chrF, chrF++
  std::vector<LengthBucket> by_length;  // by words of the source
};

// Lines of text. Error: unequal numbers of lines, or none.
Evaluation evaluate(const Run& run, const std::vector<std::string>& sources, const std::vector<std::string>& references,
                    const EvaluationOptions& options = {});

}  // namespace seqgrad::seq2seq
