#include "seq2seq/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <unordered_map>

#include "kernels/error.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {
namespace {

using Ngrams = std::array<std::unordered_map<std::string, i64>, bleu_orders>;

const char* name(BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::none:
      return "none";
    case BleuTokenizer::character:
      return "char";
    default:
      return "13a";
  }
}

double smoothing_value(const BleuOptions& options) {
  return options.smoothing_value.value_or(options.smoothing == BleuSmoothing::floor ? 0.1 : 1.0);
}

std::string smoothing_name(const BleuOptions& options) {
  switch (options.smoothing) {
    case BleuSmoothing::none:
      return "none";
    case BleuSmoothing::floor:
      return fmt::format("floor[{:.2f}]", smoothing_value(options));
    case BleuSmoothing::add_k:
      return fmt::format("add-k[{:.2f}]", smoothing_value(options));
    default:
      return "exp";
  }
}

std::string signature(std::size_t reference_count, const BleuOptions& options) {
  return fmt::format("nrefs:{}|case:{}|eff:{}|tok:{}|smooth:{}|version:2.6.0", reference_count,
                     options.lowercase ? "lc" : "mixed", options.effective_order ? "yes" : "no", name(options.tokenize),
                     smoothing_name(options));
}

void replace_all(std::string& text, std::string_view old, std::string_view with) {
  for (std::size_t at = text.find(old); at != text.npos; at = text.find(old, at + with.size())) {
    text.replace(at, old.size(), with);
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }

// All ASCII punctuation but the apostrophe, the hyphen, '.' and ','.
bool stands_alone(char c) {
  return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
         (c >= '{' && c <= '~');
}

// The four rewriting rules of mteval-v13a, one pass each as in the original, for a match of one rule consumes its
// characters. They look at bytes: those of a multi-byte character are neither digits nor punctuation.
std::string tokenize_13a(std::string text) {
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  text = ' ' + text + ' ';

  std::string out;
  const auto pass = [&](auto&& rule) {
    out.clear();
    for (std::size_t i = 0; i < text.size();) i += rule(text[i], i + 1 < text.size() ? text[i + 1] : '\0', i + 1 < text.size());
    text.swap(out);
  };
  const auto put = [&](auto... characters) { (out.push_back(characters), ...); };
  pass([&](char a, char, bool) {
    stands_alone(a) ? put(' ', a, ' ') : put(a);
    return 1;
  });
  pass([&](char a, char b, bool) {  // '.' and ',' unless a digit precedes
    if (is_digit(a) || !is_stop(b)) return put(a), 1;
    return put(a, ' ', b, ' '), 2;
  });
  pass([&](char a, char b, bool pair) {  // '.' and ',' unless a digit follows
    if (!is_stop(a) || is_digit(b) || !pair) return put(a), 1;
    return put(' ', a, ' ', b), 2;
  });
  pass([&](char a, char b, bool) {  // a hyphen after a digit
    if (!is_digit(a) || b != '-') return put(a), 1;
    return put(a, ' ', b, ' '), 2;
  });
  return text;
}

std::string_view without_trailing_whitespace(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t position = 0; position < text.size();) {
    if (!is_whitespace(next_code_point(text, position))) end = position;
  }
  return text.substr(0, end);
}

Ngrams count_ngrams(const std::vector<std::string>& words) {
  Ngrams ngrams;
  for (std::size_t begin = 0; begin < words.size(); ++begin) {
    std::string ngram;
    for (std::size_t n = 0; n < bleu_orders && begin + n < words.size(); ++n) {
      if (n > 0) ngram += ' ';  // no word holds a space
      ngram += words[begin + n];
      ++ngrams[n][ngram];
    }
  }
  return ngrams;
}

BleuCounts count_sentence(const std::string& hypothesis, const std::vector<std::string_view>& references,
                          const BleuOptions& options) {
  const std::vector<std::string> words = bleu_words(hypothesis, options);
  BleuCounts counts;
  counts.hypothesis_length = static_cast<i64>(words.size());

  // An n-gram may match as often as the reference that has it most often.
  Ngrams allowed;
  i64 closest = -1;
  for (const std::string_view reference : references) {
    const std::vector<std::string> reference_words = bleu_words(reference, options);
    const auto length = static_cast<i64>(reference_words.size());
    const i64 distance = std::abs(length - counts.hypothesis_length);
    if (closest < 0 || distance < closest || (distance == closest && length < counts.reference_length)) {
      closest = distance;
      counts.reference_length = length;
    }
    Ngrams ngrams = count_ngrams(reference_words);
    for (std::size_t n = 0; n < bleu_orders; ++n) {
      for (const auto& [ngram, count] : ngrams[n]) {
        i64& most = allowed[n][ngram];
        most = std::max(most, count);
      }
    }
  }
  const Ngrams ngrams = count_ngrams(words);
  for (std::size_t n = 0; n < bleu_orders; ++n) {
    for (const auto& [ngram, count] : ngrams[n]) {
      const auto found = allowed[n].find(ngram);
      counts.total[n] += count;
      if (found != allowed[n].end()) counts.correct[n] += std::min(count, found->second);
    }
  }
  return counts;
}

}  // namespace

BleuTokenizer bleu_tokenizer(std::string_view text) {
  for (const BleuTokenizer tokenizer : {BleuTokenizer::none, BleuTokenizer::mteval13a, BleuTokenizer::character}) {
    if (text == name(tokenizer)) return tokenizer;
  }
  throw_error("[bleu] unknown tokenizer '{}': choose none, 13a or char", text);
}

std::vector<std::string> bleu_words(std::string_view line, const BleuOptions& options) {
  std::string text(line);
  if (options.lowercase) text = lowercase(text);
  text = without_trailing_whitespace(text);
  if (options.tokenize == BleuTokenizer::none) return split_whitespace(text);
  if (options.tokenize == BleuTokenizer::mteval13a) return split_whitespace(tokenize_13a(std::move(text)));
  std::vector<std::string> characters;
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t begin = position;
    if (!is_whitespace(next_code_point(text, position))) characters.push_back(text.substr(begin, position - begin));
  }
  return characters;
}

BleuCounts& BleuCounts::operator+=(const BleuCounts& other) {
  for (std::size_t n = 0; n < bleu_orders; ++n) {
    correct[n] += other.correct[n];
    total[n] += other.total[n];
  }
  hypothesis_length += other.hypothesis_length;
  reference_length += other.reference_length;
  return *this;
}

std::vector<BleuCounts> bleu_counts(const std::vector<std::string>& hypotheses,
                                    const std::vector<std::vector<std::string>>& references, const BleuOptions& options) {
  if (hypotheses.empty()) throw_error("[bleu] there are no hypotheses");
  if (references.empty()) throw_error("[bleu] there are no references");
  for (const auto& stream : references) {
    if (stream.size() != hypotheses.size()) {
      throw_error("[bleu] {} hypotheses but {} references: they must match line by line", hypotheses.size(), stream.size());
    }
  }
  std::vector<BleuCounts> counts;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    std::vector<std::string_view> lines;
    for (const auto& stream : references) lines.push_back(stream[i]);
    counts.push_back(count_sentence(hypotheses[i], lines, options));
  }
  return counts;
}

BleuScore bleu_from_counts(const BleuCounts& counts, std::size_t reference_count, const BleuOptions& options) {
  BleuScore result;
  result.hypothesis_length = counts.hypothesis_length;
  result.reference_length = counts.reference_length;
  result.signature = signature(reference_count, options);
  const auto hypothesis = static_cast<double>(counts.hypothesis_length);
  const auto reference = static_cast<double>(counts.reference_length);
  result.brevity_penalty = 1;
  if (hypothesis < reference) result.brevity_penalty = hypothesis > 0 ? std::exp(1 - reference / hypothesis) : 0;
  if (std::all_of(counts.correct.begin(), counts.correct.end(), [](i64 count) { return count == 0; })) return result;

  const double value = smoothing_value(options);
  double share = 1;
  int orders = bleu_orders;
  for (int order = 1; order <= bleu_orders; ++order) {
    const auto n = static_cast<std::size_t>(order - 1);
    auto correct = static_cast<double>(counts.correct[n]), total = static_cast<double>(counts.total[n]);
    if (options.smoothing == BleuSmoothing::add_k && order > 1) {
      correct += value;
      total += value;
    }
    if (total == 0) break;
    if (options.effective_order) orders = order;
    if (correct == 0 && options.smoothing == BleuSmoothing::exp) correct = share /= 2;
    if (correct == 0 && options.smoothing == BleuSmoothing::floor) correct = value;
    result.precisions[n] = 100 * correct / total;
  }
  double sum = 0;
  for (int n = 0; n < orders; ++n) sum += std::log(result.precisions[static_cast<std::size_t>(n)]);  // -inf makes the score 0
  result.score = result.brevity_penalty * std::exp(sum / orders);
  return result;
}

BleuScore corpus_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::vector<std::string>>& references,
                      const BleuOptions& options) {
  BleuCounts sum;
  for (const BleuCounts& sentence : bleu_counts(hypotheses, references, options)) sum += sentence;
  return bleu_from_counts(sum, references.size(), options);
}

std::string BleuScore::format() const {
  const double ratio =
      reference_length > 0 ? static_cast<double>(hypothesis_length) / static_cast<double>(reference_length) : 0;
  return fmt::format("BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})", score,
                     precisions[0], precisions[1], precisions[2], precisions[3], brevity_penalty, ratio, hypothesis_length,
                     reference_length);
}

}  // namespace seqgrad::seq2seq
