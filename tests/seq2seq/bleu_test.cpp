#include "seq2seq/bleu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "seq2seq/text.h"
#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Strings = std::vector<std::string>;

TEST_CASE("BLEU equals what sacreBLEU recorded") {
  const auto recorded = nlohmann::json::parse(read_file(SEQGRAD_FIXTURES "/sacrebleu_cases.json"));
  int compared = 0;
  for (const auto& entry : recorded["cases"]) {
    for (const auto& expected : entry["bleu"]) {
      const std::string tokenizer = expected["tokenize"];
      CAPTURE(entry["name"].get<std::string>());
      CAPTURE(expected["signature"].get<std::string>());
      BleuOptions options;
      options.tokenize = bleu_tokenizer(tokenizer);
      options.lowercase = expected["lowercase"];
      const BleuScore bleu = corpus_bleu(entry["hypotheses"], entry["references"], options);
      CHECK(std::abs(bleu.score - expected["score"].get<double>()) < 1e-9);
      CHECK(std::abs(bleu.brevity_penalty - expected["bp"].get<double>()) < 1e-9);
      CHECK(bleu.hypothesis_length == expected["sys_len"].get<i64>());
      CHECK(bleu.reference_length == expected["ref_len"].get<i64>());
      CHECK(bleu.signature == expected["signature"].get<std::string>());
      for (std::size_t n = 0; n < 4; ++n) {
        CHECK(std::abs(bleu.precisions[n] - expected["precisions"][n].get<double>()) < 1e-9);
      }
      ++compared;
    }
  }
  CHECK(compared == 9 * 4 * 2);
}

TEST_CASE("13a separates punctuation but not numbers, apostrophes and hyphens") {
  const auto words = [](std::string_view line) { return join(bleu_words(line, {})); };
  CHECK(words("It costs $1,234.56, or 3.5% of U.S. GDP.") == "It costs $ 1,234.56 , or 3.5 % of U . S . GDP .");
  CHECK(words("Lee's e-mail: 2-3 (a/b) &quot;x&quot; &lt;tag&gt; &amp;") == "Lee's e-mail : 2 - 3 ( a / b ) \" x \" < tag > &");
  CHECK(words("a..b ,,") == "a . . b , ,");
  CHECK(words("\u00fc.\u00fc 1.\u00fc \u00fc.1 5.") == "\u00fc . \u00fc 1 . \u00fc \u00fc . 1 5 .");
  CHECK(words("a<skipped>b\u00a0c \u2009") == "ab c");
  CHECK(words("ein-\nfach\nso") == "einfach so");
  CHECK(words("") == "");
}

TEST_CASE("intl separates the punctuation and symbols of all scripts, but not within numbers") {
  BleuOptions options;
  options.tokenize = BleuTokenizer::international;
  const auto words = [&](std::string_view line) { return join(bleu_words(line, options)); };
  CHECK(words("«Oui», dit-il…") == "« Oui » , dit - il …");
  CHECK(words("$1,234.56 = 3.5% ± ٣٫٥٪") == "$ 1,234.56 = 3.5 % ± ٣٫٥٪");
  CHECK(words("你好，世界。Это «да»؟ ①.② Ⅷ.") == "你好 ， 世界 。 Это « да » ؟ ①.② Ⅷ.");
  CHECK(words("in 2016. in 2016.") == "in 2016 . in 2016.");  // as in mteval-v14
  CHECK(words("a..b ...") == "a . . b . . .");
  CHECK(words("😀x\u0301+&amp;") == "😀 x\u0301 + & amp ;");
  CHECK(words("") == "");
}

TEST_CASE("n-grams match as often as in the reference that has them most often") {
  BleuOptions options;
  options.tokenize = BleuTokenizer::none;
  const std::vector<BleuCounts> counts =
      bleu_counts({"the the the the", "a b a b a", "x y"}, {{"the cat the", "a b", "y x"}, {"the", "b a b a", "y"}}, options);
  CHECK(counts[0].correct == std::array<i64, 4>{2, 0, 0, 0});
  CHECK(counts[1].correct == std::array<i64, 4>{4, 3, 2, 1});  // "a b" may match once, "b a" twice
  CHECK(counts[1].total == std::array<i64, 4>{5, 4, 3, 2});
  CHECK(counts[1].reference_length == 4);
  CHECK(counts[2].correct == std::array<i64, 4>{2, 0, 0, 0});
}

TEST_CASE("characters are words of one code point each, without whitespace") {
  BleuOptions options;
  options.tokenize = BleuTokenizer::character;
  options.lowercase = true;
  CHECK(bleu_words("\u00c4 b\u00a0\u20ac", options) == Strings{"\u00e4", "b", "\u20ac"});
}

TEST_CASE("smoothing and effective order follow their formulas") {
  // 2-grams: none of one matches; no 3-gram at all.
  const Strings hypotheses = {"a b"};
  const std::vector<Strings> references = {{"b a"}};
  BleuOptions options;
  options.effective_order = true;
  CHECK(corpus_bleu(hypotheses, references, options).score == doctest::Approx(100 * std::sqrt(0.5)));
  CHECK(corpus_bleu(hypotheses, references, options).signature ==
        "nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp|version:2.6.0");
  options.smoothing = BleuSmoothing::floor;
  CHECK(corpus_bleu(hypotheses, references, options).score == doctest::Approx(100 * std::sqrt(0.1)));
  CHECK(corpus_bleu(hypotheses, references, options).signature.find("smooth:floor[0.10]|") != std::string::npos);
  options.smoothing = BleuSmoothing::add_k;
  options.smoothing_value = 2;
  CHECK(corpus_bleu(hypotheses, references, options).score == doctest::Approx(100 * std::pow(2. / 3, 0.25)));
  CHECK(corpus_bleu(hypotheses, references, options).signature.find("smooth:add-k[2.00]|") != std::string::npos);
  options.smoothing = BleuSmoothing::none;
  CHECK(corpus_bleu(hypotheses, references, options).score == 0);
}

TEST_CASE("what cannot be scored is refused") {
  CHECK(message_of([] {
          corpus_bleu({"a"}, {{"a", "b"}});
        }) == "[bleu] 1 hypotheses but 2 references: they must match line by line");
  CHECK(message_of([] { corpus_bleu({}, {{}}); }) == "[bleu] there are no hypotheses");
  CHECK(message_of([] { corpus_bleu({"a"}, {}); }) == "[bleu] there are no references");
  CHECK(message_of([] { bleu_tokenizer("zh"); }) == "[bleu] unknown tokenizer 'zh': choose none, 13a, intl or char");
}

TEST_CASE("counts of sentences add up to those of the corpus") {
  const Strings hypotheses = {"a b c d e", "a b x", ""};
  const std::vector<Strings> references = {{"a b c d", "a b y z", "q"}};
  const std::vector<BleuCounts> counts = bleu_counts(hypotheses, references);
  REQUIRE(counts.size() == 3);
  CHECK(counts[0].correct == std::array<i64, 4>{4, 3, 2, 1});
  CHECK(counts[1].total == std::array<i64, 4>{3, 2, 1, 0});
  CHECK(counts[2].reference_length == 1);
  BleuCounts sum;
  for (const BleuCounts& sentence : counts) sum += sentence;
  CHECK(bleu_from_counts(sum, 1).score == corpus_bleu(hypotheses, references).score);
}

TEST_CASE("a score is written as sacreBLEU writes it") {
  CHECK(corpus_bleu({"a b c d"}, {{"a b c d e"}}).format() ==
        "BLEU = 77.88 100.0/100.0/100.0/100.0 (BP = 0.779 ratio = 0.800 hyp_len = 4 ref_len = 5)");
}
