// From source sentences to their translations: greedy and beam search, sampling, the score of a given translation; with one
// model or several. Translations are the same to the bit whatever the batch, its order and its other sentences.
// Thread-safe on different Translators.
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
  double score = 0;            // log_probability / penalty(tokens, with </s>)
  bool cut_off = false;        // the length limit came before </s>
};

struct SearchOptions {
  i64 batch = 64;  // sentences at a time
  i64 beam = 1;    // hypotheses of a sentence that are followed at once; 1: greedy
  i64 nbest = 1;   // translations of a sentence
  // Wu et al. 2016, "Google's neural machine translation system", equation 14 without coverage: hypotheses of n tokens compare
  // by log p / ((5 + n) / 6)^A. 0: by log p, which favours short ones.
  double length_penalty = 0;
  i64 min_length = 0;  // words before </s> may come
  // A translation that has not ended after longest(words of the source and </s>) words is cut off.
  double length_factor = 2;
  i64 length_more = 10;
  // Above 0: words are drawn from softmax(logits / temperature), of the top_k likeliest (0: of all). What is drawn follows from
  // the seed and the sentence's number in all that the Translator was given.
  double temperature = 0;
  i64 top_k = 0;
  u64 seed = 1;
  bool weights = true;  // whether Translation::weights are wanted

  double penalty(i64 tokens) const;
  i64 longest(i64 source_length) const {
    return std::max<i64>(1, static_cast<i64>(length_factor * static_cast<double>(source_length)) + length_more);
  }
};

// Error: the first option outside its domain, "beam is 0: it must be at least 1".
void check_search(const SearchOptions& options);

// What a search has done so far, for those who measure.
struct SearchWork {
  i64 sentences = 0, source_tokens = 0;  // with </s>
  i64 steps = 0, extended = 0;           // of the decoder; hypotheses that they extended by a word
  i64 looks = 0;                         // source positions looked at: the sum of the extended hypotheses' source lengths
  i64 shared_tokens = 0, shared_extended = 0, shared_looks = 0;  // of these, those of positions with shares (Inference::encode)
};

// Runs laid out for translating, which costs as much as a few sentences: one Translator for many calls. Of several runs, an
// ensemble, the mean of the log-probabilities counts, and of those that have an attention the mean of the weights.
//
// Beam search: of all extensions of a sentence's hypotheses by a word the best go on, as many as the beam is wide less the
// hypotheses that ended; one that takes </s> has ended. A sentence is done when no hypothesis that goes on can come to a better
// score than the nbest-th of those that ended, at whatever length within the limit; such a hypothesis is dropped before. So a
// beam of 1 is greedy search. Those that are cut off come after all that ended. No two translations of a sentence are the same.
class Translator {
 public:
  explicit Translator(const Run& run, const SearchOptions& options = {});
  // Error: runs that know different words.
  explicit Translator(const std::vector<const Run*>& runs, const SearchOptions& options = {});

  // Up to nbest translations of each sentence, best first. Sources are ids ending in </s>, none empty. At most `batch`
  // sentences at a time: the place of one that is done is taken by the next.
  std::vector<std::vector<Translation>> search(const std::vector<std::vector<i64>>& sources);

  // Sentences of words in, the longest first; results in their order. An empty sentence has one translation, the empty one.
  std::vector<std::vector<Translation>> nbest(const std::vector<std::vector<std::string>>& sentences);
  std::vector<Translation> translate(const std::vector<std::vector<std::string>>& sentences);  // the best alone

  // log p(target, </s> | source) of each pair, without any search. An empty sentence has the empty translation for certain.
  std::vector<double> score(const std::vector<std::vector<std::string>>& sources,
                            const std::vector<std::vector<std::string>>& targets);

  const SearchWork& work() const { return work_; }

 private:
  struct Job;
  class Scores;
  class Choice;
  class Best;
  class Drawn;
  class Given;

  std::vector<std::vector<Translation>> find(const std::vector<std::vector<i64>>& sources,
                                             const std::vector<std::size_t>& order);
  void run(const std::vector<std::vector<i64>>& sources, const std::vector<std::size_t>& order, Choice& choice,
           std::vector<std::vector<Translation>>& results);
  void run_alike(const std::vector<std::vector<i64>>& sources, std::span<const std::size_t> order, bool shares, Choice& choice,
                 std::vector<std::vector<Translation>>& results);
  std::vector<std::vector<i64>> encoded(const std::vector<std::vector<std::string>>& sentences) const;

  std::vector<const Run*> runs_;
  SearchOptions options_;
  std::vector<Inference> models_;
  SearchWork work_;
  u64 numbered_ = 0;  // sentences so far, the empty ones too
};

}  // namespace seqgrad::seq2seq
