#include "seq2seq/measure.h"

#include <doctest/doctest.h>

#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Strings = std::vector<std::string>;
using Indices = std::vector<std::size_t>;

namespace {
const Strings hypotheses{"the cat sat on the mat", "a dog", "", "it was the best of times ."};
const std::vector<Strings> references{{"the cat sat on a mat", "a big dog", "no", "it was the best of times ."},
                                      {"the cat was on the mat", "one dog", "", "these were the best of times ."}};
}  // namespace

TEST_CASE("what is measured sentence by sentence is the measure of the corpus, and of each part") {
  const BleuOptions bleu{.tokenize = BleuTokenizer::none, .lowercase = true};
  const ChrfOptions chrf{.word_order = 2};
  for (const Measured& measured : {measure_bleu(hypotheses, references, bleu), measure_chrf(hypotheses, references, chrf)}) {
    const auto corpus = [&](const Strings& lines, const std::vector<Strings>& streams) {
      return measured.name == "BLEU" ? corpus_bleu(lines, streams, bleu).score : corpus_chrf(lines, streams, chrf);
    };
    CHECK(measured.sentences() == 4);
    CHECK(measured.score() == corpus(hypotheses, references));
    CHECK(measured.score(Indices{0, 1, 2, 3}) == measured.score());
    CHECK(measured.score(Indices{0, 3}) ==
          corpus({hypotheses[0], hypotheses[3]}, {{references[0][0], references[0][3]}, {references[1][0], references[1][3]}}));
    CHECK(measured.score(Indices{3, 3}) ==
          corpus({hypotheses[3], hypotheses[3]}, {{references[0][3], references[0][3]}, {references[1][3], references[1][3]}}));
    CHECK(measured.score(Indices{}) == 0);
  }
  CHECK(measure_bleu(hypotheses, references, bleu).signature == "nrefs:2|case:lc|eff:no|tok:none|smooth:exp|version:2.6.0");
  CHECK(measure_chrf(hypotheses, references, chrf).name == "chrF2++");
  CHECK(measure_chrf(hypotheses, references, chrf).signature == "nrefs:2|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.6.0");
}

TEST_CASE("sentences fall into buckets by length") {
  const std::vector<LengthBucket> buckets = length_buckets({10, 11, 0, 51, 20, 50, 10}, {10, 20, 30, 40, 50});
  REQUIRE(buckets.size() == 4);
  CHECK(buckets[0].name() == "0-10");
  CHECK(buckets[0].sentences == Indices{0, 2, 6});
  CHECK(buckets[1].name() == "11-20");
  CHECK(buckets[1].sentences == Indices{1, 4});
  CHECK(buckets[2].name() == "41-50");
  CHECK(buckets[2].sentences == Indices{5});
  CHECK(buckets[3].name() == "51+");
  CHECK(buckets[3].to == 0);
  CHECK(buckets[3].sentences == Indices{3});
  CHECK(length_buckets({5, 6, 90}).at(1).name() == "6-10");
  CHECK(length_buckets({}).empty());
  CHECK(length_buckets({3, 900}, {}).at(0).name() == "0+");
  CHECK(message_of([] {
          length_buckets({1}, {10, 10});
        }) == "[length_buckets] 10 stands after 10: the lengths must rise from 1 or more");
  CHECK(message_of([] { length_buckets({1}, {0}); }) ==
        "[length_buckets] 0 stands after 0: the lengths must rise from 1 or more");
}

TEST_CASE("tokenised text against raw text is noticed") {
  const Strings tokenised(5, "well , a man sleeps ."), raw(5, "Well, a man sleeps.");
  const auto warnings = [](const Strings& ours, const Strings& theirs, BleuTokenizer tokenize = BleuTokenizer::mteval13a) {
    return text_warnings(ours, {theirs}, tokenize);
  };
  CHECK(warnings(tokenised, raw) ==
        Strings{"the translations are tokenised but the references are not: 100% of the full stops and commas stand alone in "
                "the translations, 0% in the references; score both in the same form, detokenised if you can"});
  CHECK(warnings(raw, tokenised, BleuTokenizer::none) ==
        Strings{"the references are tokenised but the translations are not: 0% of the full stops and commas stand alone in "
                "the translations, 100% in the references; score both in the same form, detokenised if you can"});
  CHECK(warnings(raw, raw).empty());
  CHECK(warnings(tokenised, tokenised).empty());
  CHECK(warnings(Strings(5, "no marks"), raw).empty());
  CHECK(warnings(tokenised, Strings(5, "St. Ives , Mr. X .")).empty());  // tokenised, with abbreviations
  CHECK(text_warnings(tokenised, {raw, tokenised}, BleuTokenizer::none).empty());
}

TEST_CASE("a hundred tokenised full stops are too many for a tokenizer") {
  const Strings lines(100, "a man sleeps .");
  CHECK(text_warnings(lines, {lines}, BleuTokenizer::mteval13a) ==
        Strings{"100 of 100 translations end in ' .', so the text seems to be tokenised already: detokenise it, or compare its "
                "words as they stand with --tokenize none"});
  CHECK(text_warnings(lines, {lines}, BleuTokenizer::none).empty());
  const Strings fewer(99, "a man sleeps .");
  CHECK(text_warnings(fewer, {fewer}, BleuTokenizer::mteval13a).empty());
}
