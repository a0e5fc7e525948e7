#include "seq2seq/chrf.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Strings = std::vector<std::string>;
using Counts = std::vector<i64>;

TEST_CASE("chrF equals what sacreBLEU recorded") {
  const auto recorded = nlohmann::json::parse(read_file(SEQGRAD_FIXTURES "/sacrebleu_cases.json"));
  int compared = 0;
  for (const auto& entry : recorded["cases"]) {
    for (const auto& expected : entry["chrf"]) {
      CAPTURE(entry["name"].get<std::string>());
      ChrfOptions options;
      options.word_order = expected["word_order"];
      const std::vector<Strings> references = entry["references"];
      CHECK(std::abs(corpus_chrf(entry["hypotheses"], references, options) - expected["score"].get<double>()) < 1e-9);
      CHECK(chrf_signature(options, references.size()) == expected["signature"].get<std::string>());
      ++compared;
    }
  }
  CHECK(compared == 9 * 2);
}

TEST_CASE("chrF follows its formula") {
  // abc against abd: 2 of 3 characters and 1 of 2 pairs match, the triple does not; there are no longer n-grams.
  const double mean = (2. / 3 + 1. / 2 + 0) / 3;
  CHECK(corpus_chrf({"abc"}, {{"abd"}}) == doctest::Approx(100 * mean));
  // ab against abd: precision 1, 1; recall 2/3, 1/2. The triple is the reference's alone, so it counts for neither.
  const double recall = (2. / 3 + 1. / 2) / 2;
  CHECK(corpus_chrf({"ab"}, {{"abd"}}) == doctest::Approx(100 * 5 * recall / (4 + recall)));
  CHECK(corpus_chrf({"ab"}, {{"abd"}}, {.beta = 1}) == doctest::Approx(100 * 2 * recall / (1 + recall)));
  CHECK(corpus_chrf({"x"}, {{"abd"}}) == 0);
  CHECK(corpus_chrf({""}, {{""}}) == 0);
  CHECK(corpus_chrf({"a", ""}, {{"a", "b"}}) == doctest::Approx(100 * 5 * 0.5 / (4 + 0.5)));
}

TEST_CASE("an n-gram matches as often as the reference has it") {
  CHECK(chrf_counts({"aaab"}, {{"aab"}}, {.char_order = 2}) == Counts{4, 3, 3, 3, 2, 2});
  CHECK(chrf_counts({"aab"}, {{"aaab"}}, {.char_order = 3}) == Counts{3, 4, 3, 2, 3, 2, 1, 2, 1});
  CHECK(chrf_counts({"abc"}, {{"a"}}, {.char_order = 2}) == Counts{3, 1, 1, 0, 0, 0});  // no pair in the reference
}

TEST_CASE("a sentence takes the reference with the best score of its own, the first of equals") {
  const ChrfOptions options{.char_order = 1};
  CHECK(chrf_counts({"abcd"}, {{"abxxxx"}, {"abcx"}, {"ab"}}, options) == Counts{4, 2, 2});  // recall counts more
  CHECK(chrf_counts({"ab"}, {{"xy"}, {"xyz"}}, options) == Counts{2, 2, 0});
  CHECK(chrf_counts({"ab"}, {{""}, {"ab"}}, options) == Counts{2, 2, 2});
}

TEST_CASE("characters are code points, and whitespace none of them unless asked for") {
  CHECK(chrf_counts({"ä\u00a0b\t€😀"}, {{"äb€"}}, {.char_order = 2}) == Counts{4, 3, 3, 3, 2, 2});
  CHECK(chrf_counts({"a b"}, {{"a b"}}, {.char_order = 2, .whitespace = true}) == Counts{3, 3, 3, 2, 2, 2});
  CHECK(chrf_counts({"ÄΣ"}, {{"äς"}}, {.char_order = 1, .lowercase = true}) == Counts{2, 2, 2});
  CHECK(chrf_counts({"ÄΣ"}, {{"äς"}}, {.char_order = 1}) == Counts{2, 2, 0});
}

TEST_CASE("chrF++ cuts one mark of punctuation off a word") {
  const auto words = [](const std::string& hypothesis, const std::string& reference) {
    const Counts counts = chrf_counts({hypothesis}, {{reference}}, {.char_order = 1, .word_order = 1});
    return Counts(counts.begin() + 3, counts.end());
  };
  CHECK(words("dog.", "dog") == Counts{2, 1, 1});
  CHECK(words("(dog", "dog (") == Counts{2, 2, 2});
  CHECK(words("(dog)", "( dog )") == Counts{2, 3, 1});  // (dog and ): the mark at the end goes first, and alone
  CHECK(words("dog...", "dog...") == Counts{2, 2, 2});
  CHECK(words("! ü. 。x", "! ü . 。x") == Counts{4, 4, 4});  // the marks of ASCII alone
  CHECK(chrf_counts({"a b c"}, {{"a b d c"}}, {.char_order = 1, .word_order = 2}) == Counts{3, 4, 3, 3, 4, 3, 2, 3, 1});
}

TEST_CASE("names and signatures say the options") {
  CHECK(chrf_name({}) == "chrF2");
  CHECK(chrf_name({.word_order = 2, .beta = 3}) == "chrF3++");
  CHECK(chrf_signature({.char_order = 4, .word_order = 1, .lowercase = true, .whitespace = true}, 3) ==
        "nrefs:3|case:lc|eff:yes|nc:4|nw:1|space:yes|version:2.6.0");
}

TEST_CASE("what chrF cannot score is refused") {
  CHECK(message_of([] {
          corpus_chrf({"a"}, {{"a", "b"}});
        }) == "[chrf] 1 hypotheses but 2 references: they must match line by line");
  CHECK(message_of([] { corpus_chrf({}, {{}}); }) == "[chrf] there are no hypotheses");
  CHECK(message_of([] { corpus_chrf({"a"}, {}); }) == "[chrf] there are no references");
  CHECK(message_of([] { corpus_chrf({"a"}, {{"a"}}, {.char_order = 0}); }) ==
        "[chrf] the order of characters is 0: it must be from 1 to 100");
  CHECK(message_of([] { corpus_chrf({"a"}, {{"a"}}, {.word_order = -1}); }) ==
        "[chrf] the order of words is -1: it must be from 0 to 100");
  CHECK(message_of([] { corpus_chrf({"a"}, {{"a"}}, {.beta = 0}); }) == "[chrf] beta is 0: it must be from 1 to 100");
}
