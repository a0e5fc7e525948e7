// BLEU of a whole corpus, equal to sacreBLEU 2.6: Papineni et al., "BLEU: a method for automatic evaluation of machine
// translation", ACL 2002; Post, "A call for clarity in reporting BLEU scores", WMT 2018.
//
//   BLEU = 100 * BP * exp(1/4 sum_n log p_n),  p_n = matched n-grams / hypothesis n-grams, n = 1 ... 4
//   BP   = 1 if the hypotheses are at least as long as the references, else exp(1 - reference length / hypothesis length)
//
// It is made of counts per sentence that only have to be added, so a test that draws sentences anew (a paired bootstrap)
// counts once. Thread-safe: functions without state.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/types.h"

namespace seqgrad::seq2seq {

enum class BleuTokenizer {
  none,           // words are what whitespace separates: for text that is tokenised already
  mteval13a,      // "13a", as the WMT script mteval-v13a.pl
  international,  // "intl", as mteval-v14.pl: Unicode's punctuation and symbols stand alone
  character       // "char"
};

// What an order without any match counts as. Chen, Cherry, "A systematic comparison of smoothing techniques for
// sentence-level BLEU", WMT 2014.
enum class BleuSmoothing {
  none,   // nothing
  floor,  // `smoothing_value` matches (0.1)
  add_k,  // all orders above 1 have `smoothing_value` (1) matches and n-grams more
  exp     // 1/2 match, the next such order 1/4, ...
};

struct BleuOptions {
  BleuTokenizer tokenize = BleuTokenizer::mteval13a;
  bool lowercase = false;
  BleuSmoothing smoothing = BleuSmoothing::exp;
  std::optional<double> smoothing_value = {};  // by default as said above
  bool effective_order = false;                // leave out orders of which the hypotheses have no n-gram
};

// "none", "13a", "intl" or "char"; Error otherwise.
BleuTokenizer bleu_tokenizer(std::string_view name);

constexpr int bleu_orders = 4;

struct BleuCounts {
  std::array<i64, bleu_orders> correct{}, total{};  // n-grams that match, n-grams of the hypothesis
  i64 hypothesis_length = 0, reference_length = 0;  // words; of several references the closest, then the shortest

  BleuCounts& operator+=(const BleuCounts& other);
};

struct BleuScore {
  double score = 0;                              // 0 ... 100
  std::array<double, bleu_orders> precisions{};  // 0 ... 100
  double brevity_penalty = 0;                    // 0 ... 1
  i64 hypothesis_length = 0, reference_length = 0;
  std::string signature;  // "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"

  // "BLEU = 64.63 89.7/71.8/60.1/50.5 (BP = 0.971 ratio = 0.972 hyp_len = 484 ref_len = 498)"
  std::string format() const;
};

// references: a list of streams, each with one line for each hypothesis; an empty line is a reference of no words.
// Errors: no hypotheses, no references, a stream of another length.
BleuScore corpus_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::vector<std::string>>& references,
                      const BleuOptions& options = {});

// Its parts, for those who add counts themselves.
std::vector<BleuCounts> bleu_counts(const std::vector<std::string>& hypotheses,
                                    const std::vector<std::vector<std::string>>& references, const BleuOptions& options = {});
BleuScore bleu_from_counts(const BleuCounts& counts, std::size_t reference_count, const BleuOptions& options = {});

// The words that n-grams are made of.
std::vector<std::string> bleu_words(std::string_view line, const BleuOptions& options);

}  // namespace seqgrad::seq2seq
