// Raw text to tokens and back, for each tokenizer: the odd lines of real corpora among it.
#include "seq2seq/tokenizer.h"

#include <doctest/doctest.h>

#include "seq2seq/random.h"
#include "seq2seq/text.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

using Strings = std::vector<std::string>;
using Ranges = std::vector<WordRange>;

// What is left of a line by the words tokenizer: one space for each gap. (The lines of these tests are in NFC.)
std::string with_single_spaces(const std::string& line) { return join(split_whitespace(line)); }

const Strings odd_lines{
    "",
    " ",
    "\u00a0\u3000\t",
    "Ein Hund läuft.",
    "  two  spaces\tand a tab ",
    "no\u00a0break, thin\u2009space, line\u2028separator",
    "carriage\rreturn",
    "\"Don't!\", he said (twice) ...",
    "l'homme qu'il a vu aujourd’hui",
    "rock'n'roll, O'Brien's y'all ‘quoted’ «dits» „so“",
    "3.5 + 10,000 = $12.50, 50%; a/b_c@d.e #tag http://a.b/c?d=e&f",
    "T-shirt state-of-the-art –dash— U.S.A.",
    "👨‍👩‍👧 family 🐶🐶🇩🇪 👍🏽!",
    "مرحبا بالعالم، كيف حالك؟",
    "我爱你。今天天气很好！",
    "今日は良い天気ですね",
    "สวัสดีชาวโลก",
    "e\u0300 is decomposed",
    "a\u200bb\ufeffc\u00adsoft",
    "￭ and x￭y",
    std::string("nul\0byte", 8),
    "...!!!???,,,--- ((())) \"\"''",
    "\u0301starts with an accent",
};

}  // namespace

TEST_CASE("whitespace: tokens are the words, and one space joins them") {
  const TokenizerPointer tokenizer = whitespace_tokenizer();
  Ranges words;
  CHECK(tokenizer->split("Ein  Hund\u00a0läuft.", &words) == Strings{"Ein", "Hund", "läuft."});
  CHECK(words == Ranges{{0, 1}, {1, 2}, {2, 3}});
  CHECK(tokenizer->join({"a", "dog", "<unk>"}, &words) == "a dog <unk>");
  CHECK(words == Ranges{{0, 1}, {1, 2}, {2, 3}});
  CHECK(tokenizer->join({}) == "");
  for (const std::string& line : odd_lines) CHECK(tokenizer->join(tokenizer->split(line)) == with_single_spaces(line));
}

TEST_CASE("words: marks apart from words, with a joiner where no space stood") {
  const TokenizerPointer tokenizer = word_tokenizer();
  const std::vector<std::pair<std::string, Strings>> cases{
      {"", {}},
      {"\u00a0\t", {}},
      {"Ein Hund läuft.", {"Ein", "Hund", "läuft", "￭."}},
      {"\"Don't!\", he said.", {"\"￭", "Don", "￭'t", "￭!", "￭\"", "￭,", "he", "said", "￭."}},
      {"A man's dogs' bones", {"A", "man", "￭'s", "dogs", "￭'", "bones"}},
      {"He’s they'LL", {"He", "￭’s", "they", "￭'LL"}},
      {"l'homme qu'il D’abord aujourd'hui", {"l'￭", "homme", "qu'￭", "il", "D’￭", "abord", "aujourd'hui"}},
      {"said(\"so\")", {"said", "￭(￭", "\"￭", "so", "￭\"", "￭)"}},
      {"«dits» „so“", {"«￭", "dits", "￭»", "„￭", "so", "￭“"}},
      {"T-shirt", {"T", "￭-￭", "shirt"}},
      {"wait... no!!", {"wait", "￭...", "no", "￭!!"}},
      {"3.5 10,000 $5 50%", {"3.5", "10,000", "$￭", "5", "50", "￭%"}},
      {"😀😀!", {"😀😀", "￭!"}},
      {"我爱你。", {"我爱你", "￭。"}},
      {"x￭y", {"x", "￭■￭", "y"}},
      {"e\u0300", {"è"}},
  };
  for (const auto& one : cases) {  // no structured binding: clang 14's lambdas cannot capture one
    const auto& line = one.first;
    const auto& tokens = one.second;
    CAPTURE(line);
    CAPTURE(join(tokenizer->split(line)));
    CHECK(tokenizer->split(line) == tokens);
  }
}

TEST_CASE("words: splitting and joining gives the text back") {
  const TokenizerPointer tokenizer = word_tokenizer();
  for (std::string line : odd_lines) {
    CAPTURE(line);
    const Strings tokens = tokenizer->split(line);
    for (const std::string& token : tokens) {
      CHECK(!token.empty());
      CHECK(split_whitespace(token) == Strings{token});
    }
    if (const std::size_t at = line.find("e\u0300"); at != line.npos) line.replace(at, 3, "è");
    for (std::size_t at = 0; (at = line.find("￭", at)) != line.npos;) line.replace(at, 3, "■");
    CHECK(tokenizer->join(tokens) == with_single_spaces(line));
  }
  // Lines of odd characters in any order.
  SplitMix64 random(7);
  const char32_t characters[] = {'a',     'b',    'S',     '1',  ' ',    ' ',  '\'',   0x2019, '.',
                                 '.',     ',',    '"',     '(',  ')',    '-',  0x4e00, 0x3042, 0x627,
                                 0x1f600, 0x200d, 0x1f3fd, 0xa0, 0x2028, 0xab, 0xbb,   0x2581, 0x25a0};
  for (int i = 0; i < 2000; ++i) {
    std::string line;
    for (u64 length = random.below(12); length > 0; --length)
      append_utf8(line, characters[random.below(std::size(characters))]);
    CAPTURE(line);
    CHECK(tokenizer->join(tokenizer->split(line)) == with_single_spaces(line));
  }
}

TEST_CASE("words: what a model may write") {
  const TokenizerPointer tokenizer = word_tokenizer();
  CHECK(tokenizer->join({}) == "");
  CHECK(tokenizer->join({"￭.", "A", "<unk>", "￭,", "<unk>"}) == ". A <unk>, <unk>");
  CHECK(tokenizer->join({"a", "￭", "b", "(￭"}) == "ab (");
  CHECK(tokenizer->join({"￭", "a"}) == "a");
}

TEST_CASE("words: each token knows the whitespace-separated words it is part of") {
  const TokenizerPointer tokenizer = word_tokenizer();
  Ranges words;
  const Strings tokens = tokenizer->split(" Don't  go (home)!", &words);
  CHECK(tokens == Strings{"Don", "￭'t", "go", "(￭", "home", "￭)", "￭!"});
  const Ranges expected{{0, 1}, {0, 1}, {1, 2}, {2, 3}, {2, 3}, {2, 3}, {2, 3}};
  CHECK(words == expected);
  CHECK(tokenizer->join(tokens, &words) == "Don't go (home)!");
  CHECK(words == expected);
}

TEST_CASE("lower case") {
  for (const TokenizerPointer& tokenizer : {whitespace_tokenizer(true), word_tokenizer(true)}) {
    CHECK(tokenizer->lowercases());
    CHECK(tokenizer->split("ÄPFEL İ") == Strings{"äpfel", "i̇"});
  }
}

TEST_CASE("words at spans of bytes") {
  CHECK(words_at("", {}) == Ranges{});
  CHECK(words_at("", {{0, 0}}) == Ranges{{0, 0}});
  CHECK(words_at("  ", {{0, 1}}) == Ranges{{0, 0}});
  const std::string text = " ab  ä c ";  // words at 1-3, 5-7, 8-9
  CHECK(words_at(text, {{0, 3}, {1, 2}, {2, 3}, {3, 5}, {3, 7}, {5, 7}, {2, 6}, {0, 10}, {9, 10}, {10, 10}, {0, 0}, {4, 4}}) ==
        Ranges{{0, 1}, {0, 1}, {0, 1}, {1, 2}, {1, 2}, {1, 2}, {0, 2}, {0, 3}, {2, 3}, {2, 3}, {0, 1}, {1, 2}});
}
