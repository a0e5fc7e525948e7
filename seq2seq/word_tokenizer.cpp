// Words, numbers and punctuation, in any script: Unicode's word boundaries (UAX 29, by ICU, with its dictionaries for Chinese,
// Japanese, Thai, Khmer, Lao and Burmese) in text that was brought into the normal form NFC.
//
// Where no space stood between two tokens, a joiner '￭' (U+FFED) on one of them says so, as in OpenNMT's tokenizer. So the
// tokens keep all of the text but the widths of its gaps, and a translation's tokens say themselves how they are to be written:
//
//   "Don't!", he said.  ->  "￭  Don  ￭'t  ￭!  ￭",  he  said  ￭.       (whitespace and NFC apart, join(split(x)) is x)
//
// The joiner stands on the mark, not on the word, so that a word is one entry of the vocabulary wherever it stands; between two
// words or two marks it stands on the second, but on an opening bracket or quote rather than on what follows it. A run of one
// mark ("...") is one token. English clitics ('s 't 'm 'd 're 've 'll) and Romance elisions (l' d' qu' ...) are tokens of their
// own. A '￭' in the text itself becomes '■'.
#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <array>

#include "kernels/error.h"
#include "seq2seq/text.h"
#include "seq2seq/tokenizer.h"

namespace seqgrad::seq2seq {
namespace {

constexpr std::string_view joiner = "￭", replacement = "■";

void check(UErrorCode status, const char* what) {
  if (U_FAILURE(status)) throw_failure("ICU cannot {}: {}", what, u_errorName(status));
}

struct Piece {
  std::string_view text;
  bool word = false;
  std::size_t unit = 0;  // bytes of the mark that text repeats
};

char32_t first_code_point(std::string_view text) {
  std::size_t position = 0;
  return next_code_point(text, position);
}

bool opens(std::string_view mark) {
  const int8_t type = u_charType(static_cast<UChar32>(first_code_point(mark)));
  return type == U_START_PUNCTUATION || type == U_INITIAL_PUNCTUATION;
}

bool is_apostrophe(char32_t c) { return c == U'\'' || c == U'’'; }

// Where the word's first or last apostrophe begins and ends; npos if it has none inside.
struct Apostrophe {
  std::size_t begin, end;
};
Apostrophe find_apostrophe(std::string_view word, bool last) {
  Apostrophe found{word.npos, word.npos};
  for (const std::string_view one : {"'", "’"}) {
    const std::size_t at = last ? word.rfind(one) : word.find(one);
    if (at == word.npos || at == 0 || at + one.size() == word.size()) continue;
    if (found.begin == word.npos || (last ? at > found.begin : at < found.begin)) found = {at, at + one.size()};
  }
  return found;
}

// Where to cut a word at an apostrophe: before English clitics, behind Romance elisions; 0 for nowhere.
std::size_t cut_at_apostrophe(std::string_view word) {
  constexpr std::array<std::string_view, 7> clitics{"s", "t", "m", "d", "re", "ve", "ll"};
  const Apostrophe last = find_apostrophe(word, true);
  if (last.begin == word.npos) return 0;
  if (std::find(clitics.begin(), clitics.end(), lowercase(word.substr(last.end))) != clitics.end()) return last.begin;
  const Apostrophe first = find_apostrophe(word, false);
  const std::string before = lowercase(word.substr(0, first.begin));
  const bool letter = before.size() == 1 && before[0] >= 'a' && before[0] <= 'z';
  return letter || before.ends_with("qu") ? first.end : 0;
}

class WordTokenizer : public Tokenizer {
 public:
  explicit WordTokenizer(bool lowercase) : Tokenizer(lowercase) {
    UErrorCode status = U_ZERO_ERROR;
    normal_form_ = icu::Normalizer2::getNFCInstance(status);
    check(status, "normalise text");
    boundaries_.reset(icu::BreakIterator::createWordInstance(icu::Locale::getRoot(), status));
    check(status, "find word boundaries");
  }

  std::string join(const std::vector<std::string>& tokens, std::vector<WordRange>* words) const override {
    std::string text;
    std::vector<Span> spans;
    bool glued = true;  // to what stands before
    for (std::string_view token : tokens) {
      if (token.starts_with(joiner)) {
        token.remove_prefix(joiner.size());
        glued = true;
      }
      const bool glues = token.ends_with(joiner);
      if (glues) token.remove_suffix(joiner.size());
      if (!glued && !token.empty()) text += ' ';
      spans.push_back({text.size(), text.size() + token.size()});
      text += token;
      glued = glues || (glued && token.empty());
    }
    if (words) *words = words_at(text, spans);
    return text;
  }

 private:
  std::vector<std::string> cut(std::string_view line, std::vector<WordRange>* words) const override {
    std::string text;
    icu::StringByteSink<std::string> sink(&text);
    UErrorCode status = U_ZERO_ERROR;
    normal_form_->normalizeUTF8(0, {line.data(), static_cast<int32_t>(line.size())}, sink, nullptr, status);
    check(status, "normalise text");
    const std::unique_ptr<icu::BreakIterator> boundaries(boundaries_->clone());
    std::vector<std::string> tokens;
    if (words) words->clear();
    i64 word = 0;
    for (const std::string& chunk : split_whitespace(text)) {
      append_tokens(chunk, *boundaries, tokens);
      if (words) words->resize(tokens.size(), {word, word + 1});
      ++word;
    }
    return tokens;
  }

  // The tokens of a text without whitespace.
  static void append_tokens(std::string_view chunk, icu::BreakIterator& boundaries, std::vector<std::string>& tokens) {
    UErrorCode status = U_ZERO_ERROR;
    UText text = UTEXT_INITIALIZER;
    utext_openUTF8(&text, chunk.data(), static_cast<int64_t>(chunk.size()), &status);
    boundaries.setText(&text, status);
    std::vector<Piece> pieces;
    for (int32_t begin = boundaries.first(), end = boundaries.next(); end != icu::BreakIterator::DONE;
         begin = end, end = boundaries.next()) {
      const std::string_view piece = chunk.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
      const bool word = boundaries.getRuleStatus() >= UBRK_WORD_NONE_LIMIT;
      const std::size_t apostrophe = word ? cut_at_apostrophe(piece) : 0;
      if (!word && !pieces.empty() && !pieces.back().word && pieces.back().text.substr(0, pieces.back().unit) == piece) {
        pieces.back().text = {pieces.back().text.data(), pieces.back().text.size() + piece.size()};
      } else if (apostrophe > 0) {
        const bool clitic = is_apostrophe(first_code_point(piece.substr(apostrophe)));
        pieces.push_back({piece.substr(0, apostrophe), clitic});
        pieces.push_back({piece.substr(apostrophe), !clitic});
      } else {
        pieces.push_back({piece, word, piece.size()});
      }
    }
    utext_close(&text);
    check(status, "find word boundaries");

    bool glued = false;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::string token(glued ? joiner : "");
      for (std::size_t at = 0; at < pieces[i].text.size();) {
        const std::size_t begin = at;
        const bool special = next_code_point(pieces[i].text, at) == 0xFFED;
        token += special ? replacement : pieces[i].text.substr(begin, at - begin);
      }
      // Which of this piece and the next one has the joiner between them.
      const bool here = i + 1 < pieces.size() && !pieces[i].word && (pieces[i + 1].word || opens(pieces[i].text));
      if (here) token += joiner;
      glued = i + 1 < pieces.size() && !here;
      tokens.push_back(std::move(token));
    }
  }

  const icu::Normalizer2* normal_form_ = nullptr;  // ICU's own
  std::unique_ptr<icu::BreakIterator> boundaries_;
};

}  // namespace

TokenizerPointer word_tokenizer(bool lowercase) { return std::make_shared<WordTokenizer>(lowercase); }

}  // namespace seqgrad::seq2seq
