// chrF and chrF++ of a whole corpus, equal to sacreBLEU 2.6: Popović, "chrF: character n-gram F-score for automatic MT
// evaluation", WMT 2015, and "chrF++: words helping character n-grams", WMT 2017.
//
//   chrF = 100 (1 + beta^2) P R / (beta^2 P + R)
//
// P and R are the means, over n-grams of 1 to 6 characters and in chrF++ of 1 and 2 words, of the share of the
// translations' n-grams that match the references', and of the references' that are matched. Orders of which either side has
// no n-gram are left out. Of several references a sentence takes the one with the best score of its own.
//
// Thread-safe: functions without state.
#pragma once

#include <string>
#include <vector>

#include "kernels/types.h"

namespace seqgrad::seq2seq {

struct ChrfOptions {
  int char_order = 6;
  int word_order = 0;  // 2: chrF++
  int beta = 2;        // how many times as much recall counts
  bool lowercase = false;
  bool whitespace = false;  // count whitespace among the characters
};

// Error: an order or beta that is out of range.
void check_options(const ChrfOptions& options);

std::string chrf_name(const ChrfOptions& options);                               // "chrF2", "chrF2++"
std::string chrf_signature(const ChrfOptions& options, std::size_t references);  // "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|..."

// For each sentence and, in turn, each order, characters first: the translation's n-grams, the reference's, the matches.
// references as for corpus_bleu().
std::vector<i64> chrf_counts(const std::vector<std::string>& hypotheses,
                             const std::vector<std::vector<std::string>>& references, const ChrfOptions& options = {});
inline std::size_t chrf_width(const ChrfOptions& options) {
  return 3 * static_cast<std::size_t>(options.char_order + options.word_order);
}
double chrf_from_counts(const i64* counts, const ChrfOptions& options);  // 0 ... 100; of a sentence or of a sum of sentences

double corpus_chrf(const std::vector<std::string>& hypotheses, const std::vector<std::vector<std::string>>& references,
                   const ChrfOptions& options = {});

}  // namespace seqgrad::seq2seq
