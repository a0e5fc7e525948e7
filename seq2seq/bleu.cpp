#include "seq2seq/bleu.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/error.h"
#include "seq2seq/ngrams.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {
namespace {

const char* name(BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::none:
      return "none";
    case BleuTokenizer::international:
      return "intl";
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

// Rewrites text from its start to its end. A rule sees a character and the one after it, if there is one (`pair`), puts what
// becomes of them behind `out` and says how many it has used up.
template <class Text, class Rule>
void rewrite(Text& text, Rule&& rule) {
  Text out;
  out.reserve(text.size() * 2);
  for (std::size_t i = 0; i < text.size();) {
    const bool pair = i + 1 < text.size();
    i += rule(out, text[i], pair ? text[i + 1] : 0, pair);
  }
  text.swap(out);
}

template <class Text, class... C>
std::size_t put(Text& out, std::size_t used, C... characters) {
  (out.push_back(characters), ...);
  return used;
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

  rewrite(text,
          [](std::string& out, char a, char, bool) { return stands_alone(a) ? put(out, 1, ' ', a, ' ') : put(out, 1, a); });
  rewrite(text, [](std::string& out, char a, char b, bool) {  // '.' and ',' unless a digit precedes
    return is_digit(a) || !is_stop(b) ? put(out, 1, a) : put(out, 2, a, ' ', b, ' ');
  });
  rewrite(text, [](std::string& out, char a, char b, bool pair) {  // '.' and ',' unless a digit follows
    return !is_stop(a) || is_digit(b) || !pair ? put(out, 1, a) : put(out, 2, ' ', a, ' ', b);
  });
  rewrite(text, [](std::string& out, char a, char b, bool) {  // a hyphen after a digit
    return !is_digit(a) || b != '-' ? put(out, 1, a) : put(out, 2, a, ' ', b, ' ');
  });
  return text;
}

bool is_of(char32_t c, uint32_t categories) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & categories) != 0; }
bool is_number(char32_t c) { return is_of(c, U_GC_N_MASK); }
bool is_punctuation(char32_t c) { return is_of(c, U_GC_P_MASK); }

// The rules of mteval-v14's --international-tokenization, as sacreBLEU has them: without a space before and behind the
// line, so that punctuation that follows a number at its end stays with it.
std::string tokenize_international(std::string_view line) {
  constexpr char32_t space = ' ';
  std::u32string text;
  for (std::size_t position = 0; position < line.size();) text.push_back(next_code_point(line, position));
  rewrite(text, [](std::u32string& out, char32_t a, char32_t b, bool pair) {  // punctuation unless a number precedes
    return !pair || is_number(a) || !is_punctuation(b) ? put(out, 1, a) : put(out, 2, a, space, b, space);
  });
  rewrite(text, [](std::u32string& out, char32_t a, char32_t b, bool pair) {  // punctuation unless a number follows
    return !pair || !is_punctuation(a) || is_number(b) ? put(out, 1, a) : put(out, 2, space, a, space, b);
  });
  rewrite(text, [](std::u32string& out, char32_t a, char32_t, bool) {
    return is_of(a, U_GC_S_MASK) ? put(out, 1, space, a, space) : put(out, 1, a);
  });
  std::string result;
  for (const char32_t c : text) append_utf8(result, c);
  return result;
}

// Counts one sentence after the other.
class Counter {
 public:
  explicit Counter(const BleuOptions& options) : options_(options) {}

  BleuCounts operator()(std::string_view hypothesis, const std::vector<std::string_view>& references) {
    const Symbols words = numbers(hypothesis);
    BleuCounts counts;
    counts.hypothesis_length = static_cast<i64>(words.size());
    std::vector<Symbols> all;
    std::size_t size = 0;
    for (const std::string_view reference : references) {
      all.push_back(numbers(reference));
      size += all.back().size();
    }
    matcher_.start(size);
    i64 closest = -1;
    for (const Symbols& reference : all) {
      matcher_.add_reference(reference);
      const auto length = static_cast<i64>(reference.size());
      const i64 distance = std::abs(length - counts.hypothesis_length);
      if (closest < 0 || distance < closest || (distance == closest && length < counts.reference_length)) {
        closest = distance;
        counts.reference_length = length;
      }
    }
    matcher_.match(words, counts.correct.data());
    for (std::size_t n = 0; n < bleu_orders; ++n) counts.total[n] = ngram_count(words.size(), n + 1);
    return counts;
  }

 private:
  Symbols numbers(std::string_view line) {
    Symbols symbols;
    for (const std::string& word : bleu_words(line, options_)) symbols.push_back(numbers_(word));
    return symbols;
  }

  const BleuOptions& options_;
  WordNumbers numbers_;
  NgramMatcher matcher_{bleu_orders};
};

}  // namespace

BleuTokenizer bleu_tokenizer(std::string_view text) {
  for (const BleuTokenizer tokenizer :
       {BleuTokenizer::none, BleuTokenizer::mteval13a, BleuTokenizer::international, BleuTokenizer::character}) {
    if (text == name(tokenizer)) return tokenizer;
  }
  throw_error("[bleu] unknown tokenizer '{}': choose none, 13a, intl or char", text);
}

std::vector<std::string> bleu_words(std::string_view line, const BleuOptions& options) {
  std::string text(line);
  if (options.lowercase) text = lowercase(text);
  text = without_trailing_whitespace(text);
  if (options.tokenize == BleuTokenizer::none) return split_whitespace(text);
  if (options.tokenize == BleuTokenizer::mteval13a) return split_whitespace(tokenize_13a(std::move(text)));
  if (options.tokenize == BleuTokenizer::international) return split_whitespace(tokenize_international(text));
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
  check_lines("bleu", hypotheses, references);
  Counter count(options);
  std::vector<BleuCounts> counts;
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    std::vector<std::string_view> lines;
    for (const auto& stream : references) lines.push_back(stream[i]);
    counts.push_back(count(hypotheses[i], lines));
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
