#include "seq2seq/chrf.h"

#include <algorithm>
#include <iterator>

#include "kernels/error.h"
#include "seq2seq/ngrams.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {
namespace {

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// A line as chrF reads it.
struct Line {
  Symbols characters, words;
};

class Counter {
 public:
  explicit Counter(const ChrfOptions& options)
      : options_(options),
        characters_(static_cast<std::size_t>(options.char_order)),
        words_(static_cast<std::size_t>(options.word_order)),
        counts_(chrf_width(options)) {}

  // The counts against the reference with the best score, the first of equals.
  std::vector<i64> operator()(std::string_view hypothesis, const std::vector<std::string_view>& references) {
    const Line translation = read(hypothesis);
    std::vector<i64> best;
    double best_score = -1;
    for (const std::string_view reference : references) {
      const Line other = read(reference);
      std::fill(counts_.begin(), counts_.end(), 0);
      count(characters_, translation.characters, other.characters, options_.char_order, counts_.data());
      count(words_, translation.words, other.words, options_.word_order, counts_.data() + 3 * options_.char_order);
      const double score = chrf_from_counts(counts_.data(), options_);
      if (score > best_score) {
        best_score = score;
        best = counts_;
      }
    }
    return best;
  }

 private:
  Line read(std::string_view text) {
    std::string lower;
    if (options_.lowercase) text = lower = lowercase(text);
    Line line;
    for (std::size_t position = 0; position < text.size();) {
      const char32_t c = next_code_point(text, position);
      if (options_.whitespace || !is_whitespace(c)) line.characters.push_back(c);
    }
    if (options_.word_order > 0)
      for (const std::string& word : split_whitespace(text)) add_words(word, line.words);
    return line;
  }

  // A punctuation mark at the end of a word is a word of its own; only without one there, a mark at its start.
  void add_words(std::string_view word, Symbols& words) {
    std::size_t first = 0;
    next_code_point(word, first);  // whether the word is one character
    std::size_t cut = 0;
    if (first < word.size() && is_ascii_punctuation(word.back())) {
      cut = word.size() - 1;
    } else if (first < word.size() && is_ascii_punctuation(word.front())) {
      cut = 1;
    }
    if (cut > 0) words.push_back(numbers_(word.substr(0, cut)));
    words.push_back(numbers_(word.substr(cut)));
  }

  static void count(NgramMatcher& matcher, const Symbols& hypothesis, const Symbols& reference, int orders, i64* counts) {
    for (int n = 0; n < orders; ++n) {
      const i64 expected = ngram_count(reference.size(), static_cast<std::size_t>(n + 1));
      // An order that the reference lacks does not count against the translation.
      counts[3 * n] = expected > 0 ? ngram_count(hypothesis.size(), static_cast<std::size_t>(n + 1)) : 0;
      counts[3 * n + 1] = expected;
    }
    matcher.start(reference.size());
    matcher.add_reference(reference);
    matcher.match(hypothesis, counts + 2, 3);
  }

  const ChrfOptions& options_;
  NgramMatcher characters_, words_;
  WordNumbers numbers_;
  std::vector<i64> counts_;
};

}  // namespace

void check_options(const ChrfOptions& options) {
  const auto check = [](const char* name, int value, int least) {
    if (value < least || value > 100) throw_error("[chrf] {} is {}: it must be from {} to 100", name, value, least);
  };
  check("the order of characters", options.char_order, 1);
  check("the order of words", options.word_order, 0);
  check("beta", options.beta, 1);
}

std::string chrf_name(const ChrfOptions& options) {
  return fmt::format("chrF{}{}", options.beta, std::string(static_cast<std::size_t>(options.word_order), '+'));
}

std::string chrf_signature(const ChrfOptions& options, std::size_t references) {
  return fmt::format("nrefs:{}|case:{}|eff:yes|nc:{}|nw:{}|space:{}|version:2.6.0", references,
                     options.lowercase ? "lc" : "mixed", options.char_order, options.word_order,
                     options.whitespace ? "yes" : "no");
}

std::vector<i64> chrf_counts(const std::vector<std::string>& hypotheses,
                             const std::vector<std::vector<std::string>>& references, const ChrfOptions& options) {
  check_options(options);
  check_lines("chrf", hypotheses, references);
  Counter count(options);
  std::vector<i64> counts;
  counts.reserve(hypotheses.size() * chrf_width(options));
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    std::vector<std::string_view> lines;
    for (const auto& stream : references) lines.push_back(stream[i]);
    std::ranges::copy(count(hypotheses[i], lines), std::back_inserter(counts));
  }
  return counts;
}

double chrf_from_counts(const i64* counts, const ChrfOptions& options) {
  double precision = 0, recall = 0;
  int orders = 0;
  for (int n = 0; n < options.char_order + options.word_order; ++n) {
    const auto hypothesis = static_cast<double>(counts[3 * n]), reference = static_cast<double>(counts[3 * n + 1]),
               matches = static_cast<double>(counts[3 * n + 2]);
    if (hypothesis == 0 || reference == 0) continue;
    precision += matches / hypothesis;
    recall += matches / reference;
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  const double factor = options.beta * options.beta;
  return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

double corpus_chrf(const std::vector<std::string>& hypotheses, const std::vector<std::vector<std::string>>& references,
                   const ChrfOptions& options) {
  const std::vector<i64> counts = chrf_counts(hypotheses, references, options);
  std::vector<i64> sum(chrf_width(options));
  for (std::size_t i = 0; i < counts.size(); ++i) sum[i % sum.size()] += counts[i];
  return chrf_from_counts(sum.data(), options);
}

}  // namespace seqgrad::seq2seq
