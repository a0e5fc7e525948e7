// Translations measured sentence by sentence: the counts of each sentence, of whose sums every measure here is a function. So
// the score of any part of a test set, or of a drawn sample of it, needs no second look at the text.
// Thread-safe for const use.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "seq2seq/bleu.h"
#include "seq2seq/chrf.h"

namespace seqgrad::seq2seq {

struct Measured {
  std::string name;                              // "BLEU", "chrF2", "chrF2++"
  std::string signature;                         // as sacreBLEU writes it
  std::size_t width = 0;                         // numbers a sentence
  std::vector<i64> counts;                       // (sentences, width)
  std::function<double(const i64* sums)> value;  // 0 ... 100, of sums over sentences

  std::size_t sentences() const { return width ? counts.size() / width : 0; }
  const i64* sentence(std::size_t i) const { return counts.data() + i * width; }
  double score() const;
  double score(const std::vector<std::size_t>& of) const;  // of these sentences alone
};

// references as for corpus_bleu().
Measured measure_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::vector<std::string>>& references,
                      const BleuOptions& options = {});
Measured measure_chrf(const std::vector<std::string>& hypotheses, const std::vector<std::vector<std::string>>& references,
                      const ChrfOptions& options = {});

// Several systems' translations of one test set, measured alike, as one: the score is the mean of theirs.
// Error: no system, or systems that were measured differently.
Measured mean_of(const std::vector<Measured>& systems);

// Sentences sorted by length: at most edges[0] words, at most edges[1], ..., and more than the last of the edges.
struct LengthBucket {
  i64 from = 0, to = 0;  // words, both included; to 0: no limit
  std::vector<std::size_t> sentences;

  std::string name() const;  // "11-15", "51+"
};

inline const std::vector<i64> default_length_edges{5, 10, 15, 20, 25, 30, 40, 50};
// Without the buckets that would be empty. Error: edges that do not rise, or start below 1.
std::vector<LengthBucket> length_buckets(const std::vector<i64>& lengths, const std::vector<i64>& edges = default_length_edges);

// What is wrong with the text so that scores mislead, one sentence each; none if nothing is.
//   - Hypotheses are tokenised and references are not, or the other way round: in one, nearly all full stops and commas stand
//     alone, in the other, nearly none.
//   - 100 hypotheses end in " .", and yet a tokenizer other than `none` is to split them (sacreBLEU's check).
std::vector<std::string> text_warnings(const std::vector<std::string>& hypotheses,
                                       const std::vector<std::vector<std::string>>& references, BleuTokenizer tokenize);

}  // namespace seqgrad::seq2seq
