#include "seq2seq/tokenizer.h"

#include <algorithm>

#include "seq2seq/text.h"

namespace seqgrad::seq2seq {
namespace {

class WhitespaceTokenizer : public Tokenizer {
 public:
  using Tokenizer::Tokenizer;

  std::string join(const std::vector<std::string>& tokens, std::vector<WordRange>* words) const override {
    number(tokens.size(), words);
    return seq2seq::join(tokens);
  }

 private:
  std::vector<std::string> cut(std::string_view line, std::vector<WordRange>* words) const override {
    std::vector<std::string> tokens = split_whitespace(line);
    number(tokens.size(), words);
    return tokens;
  }

  static void number(std::size_t count, std::vector<WordRange>* words) {
    if (!words) return;
    words->clear();
    for (i64 i = 0; i < static_cast<i64>(count); ++i) words->push_back({i, i + 1});
  }
};

}  // namespace

std::vector<std::string> Tokenizer::split(std::string_view line, std::vector<WordRange>* words) const {
  return lowercase_ ? cut(seq2seq::lowercase(line), words) : cut(line, words);
}

TokenizerPointer whitespace_tokenizer(bool lowercase) { return std::make_shared<WhitespaceTokenizer>(lowercase); }

std::vector<WordRange> words_at(std::string_view text, const std::vector<Span>& spans) {
  std::vector<Span> words;
  for (std::size_t position = 0, begin = 0; position < text.size();) {
    const std::size_t here = position;
    const bool blank = is_whitespace(next_code_point(text, position));
    if (!blank && (here == 0 || begin == here)) words.push_back({here, position});
    if (!blank) words.back().end = position;
    begin = blank ? position : begin;
  }
  std::vector<WordRange> ranges;
  for (const Span& span : spans) {
    // The first word that ends behind the span's beginning, and the first one that begins at its end or later.
    auto first = std::partition_point(words.begin(), words.end(), [&](const Span& word) { return word.end <= span.begin; });
    const auto past = std::partition_point(first, words.end(), [&](const Span& word) { return word.begin < span.end; });
    if (first == words.end() && first != words.begin()) --first;
    const i64 begin = first - words.begin();
    ranges.push_back({begin, words.empty() ? begin : std::max<i64>(past - words.begin(), begin + 1)});
  }
  return ranges;
}

}  // namespace seqgrad::seq2seq
