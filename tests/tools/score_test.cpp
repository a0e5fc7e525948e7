// seqgrad bleu and seqgrad chrf, as their users call them.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "seq2seq/significance.h"
#include "tests/tools/program.h"

using namespace seqgrad;
using nlohmann::json;

namespace {

struct Texts {
  TemporaryFolder folder;
  std::string reference = folder.file("ref", "The cat sat on the mat.\nIt was the best of times.\n\n");
  std::string other = folder.file("ref2", "A cat was sitting on the mat.\nThose were the best of times.\nNothing.\n");
  std::string one = folder.file("one", "the cat sat on a mat.\nIt was the worst of times.\n\n");
  std::string two = folder.file("two", "The cat sat on the mat.\nIt was best of all times.\n\n");
};

std::string text(const std::vector<std::string>& arguments) {
  const Outcome outcome = seqgrad_program(arguments);
  CHECK(outcome.err == "");
  REQUIRE(outcome.status == 0);
  return outcome.out;
}

json parsed(std::vector<std::string> arguments) {
  arguments.push_back("--json");
  return json::parse(text(arguments));
}

}  // namespace

TEST_CASE("BLEU, chrF and chrF++ of a file, as sacreBLEU computes them") {
  const Texts texts;
  CHECK(text({"bleu", texts.reference, texts.one, "--chrf", "--chrf++"}) ==
        "BLEU = 31.12 85.7/58.3/30.0/6.2 (BP = 1.000 ratio = 1.000 hyp_len = 14 ref_len = 14)\n"
        "signature: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0\n"
        "chrF2 = 67.60\n"
        "signature: nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0\n"
        "chrF2++ = 68.71\n"
        "signature: nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.6.0\n");
  CHECK(text({"chrf", texts.reference, texts.one, "--char-order", "4", "--word-order", "1", "--beta", "3", "--whitespace",
              "--lowercase"}) == "chrF3+ = 82.83\nsignature: nrefs:1|case:lc|eff:yes|nc:4|nw:1|space:yes|version:2.6.0\n");
  const json both = parsed({"bleu", texts.reference, texts.one, "--chrf", "--chrf++"});
  CHECK(both["bleu"].get<double>() == doctest::Approx(31.12).epsilon(1e-3));
  CHECK(both["chrf"].get<double>() == doctest::Approx(67.6032097403807).epsilon(1e-12));
  CHECK(both["chrf++"].get<double>() == doctest::Approx(68.71029999294531).epsilon(1e-12));
  CHECK(both["chrf++_signature"] == "nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.6.0");
  const json chrf = parsed({"chrf", texts.reference, texts.one});
  CHECK(chrf["chrf"] == both["chrf"]);
  CHECK(chrf["signature"] == both["chrf_signature"]);
}

TEST_CASE("all files but the last are references") {
  const Texts texts;
  CHECK(text({"bleu", texts.reference, texts.other, texts.one, "--tokenize", "intl", "--lowercase"}) ==
        "BLEU = 41.94 92.9/66.7/40.0/12.5 (BP = 1.000 ratio = 1.000 hyp_len = 14 ref_len = 14)\n"
        "signature: nrefs:2|case:lc|eff:no|tok:intl|smooth:exp|version:2.6.0\n");
  CHECK(seqgrad_program({"bleu", texts.reference, texts.other, "-"}, read_file(texts.one)).out ==
        text({"bleu", texts.reference, texts.other, texts.one}));
}

TEST_CASE("a line for each sentence, with effective order") {
  const Texts texts;
  CHECK(text({"bleu", texts.reference, texts.other, texts.one, "--sentence-level", "--chrf"}) ==
        "BLEU = 32.17 85.7/50.0/20.0/12.5 (BP = 1.000 ratio = 1.000 hyp_len = 7 ref_len = 7)\tchrF2 = 62.11\n"
        "BLEU = 41.11 85.7/66.7/40.0/12.5 (BP = 1.000 ratio = 1.000 hyp_len = 7 ref_len = 7)\tchrF2 = 72.25\n"
        "BLEU = 0.00 0.0/0.0/0.0/0.0 (BP = 1.000 ratio = 0.000 hyp_len = 0 ref_len = 0)\tchrF2 = 0.00\n");
  const std::string lines = text({"bleu", texts.reference, texts.one, "--sentence-level", "--json"});
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 3);
  CHECK(json::parse(lines.substr(0, lines.find('\n')))["signature"] ==
        "nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp|version:2.6.0");
}

TEST_CASE("two systems are compared as the library compares them") {
  const Texts texts;
  const std::vector<std::vector<std::string>> references{seq2seq::read_lines(texts.reference),
                                                         seq2seq::read_lines(texts.other)};
  const auto one = seq2seq::read_lines(texts.one), two = seq2seq::read_lines(texts.two);
  const auto a = seq2seq::measure_bleu(one, references), b = seq2seq::measure_bleu(two, references);
  const seq2seq::Comparison bootstrap = seq2seq::paired_bootstrap(a, b, 50, 3),
                            randomization = seq2seq::paired_randomization(a, b);
  const json result = parsed(
      {"bleu", texts.reference, texts.other, texts.one, texts.two, "--paired-bs", "--trials", "50", "--seed", "3", "--chrf"});
  CHECK(result["test"] == "paired bootstrap resampling");
  CHECK(result["trials"] == 50);
  CHECK(result["seed"] == 3);
  REQUIRE(result["results"].size() == 2);
  const json& bleu = result["results"][0];
  CHECK(bleu["metric"] == "BLEU");
  CHECK(bleu["baseline"]["file"] == texts.one);
  CHECK(bleu["baseline"]["score"] == bootstrap.baseline);
  CHECK(bleu["system"]["mean"] == bootstrap.system_confidence.mean);
  CHECK(bleu["system"]["interval"] == bootstrap.system_confidence.interval);
  CHECK(bleu["difference"] == bootstrap.difference());
  CHECK(bleu["difference_interval"] == json{bootstrap.difference_low, bootstrap.difference_high});
  CHECK(bleu["p_value"] == bootstrap.p_value);
  CHECK(bleu["signature"] == "nrefs:2|bs:50|seed:3|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0");
  CHECK(result["results"][1]["metric"] == "chrF2");
  const json other = parsed({"bleu", texts.reference, texts.other, texts.one, texts.two, "--paired-ar"});
  CHECK(other["trials"] == 10000);
  CHECK(other["results"][0]["p_value"] == randomization.p_value);
  CHECK(!other["results"][0]["baseline"].contains("mean"));
}

TEST_CASE("a comparison reads") {
  const Texts texts;
  CHECK(text({"chrf", texts.reference, texts.one, texts.one, "--paired-bs"}).find("  p = 1.0000\n") != std::string::npos);
  const std::string all = text({"bleu", texts.reference, texts.one, texts.two, "--paired-ar", "--trials", "9"});
  CHECK(all.starts_with("paired approximate randomisation: 9 trials, seed 12345, 3 sentences\n\nBLEU\n  baseline     31.12  " +
                        texts.one + "\n  system  "));
  CHECK(all.ends_with("  signature   nrefs:1|ar:9|seed:12345|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0\n"));
  const std::string drawn = text({"bleu", texts.reference, texts.one, texts.two, "--paired-bs"});
  CHECK(drawn.find("  mean ") != std::string::npos);
  CHECK(drawn.find("  95% from ") != std::string::npos);
}

TEST_CASE("text in two forms is warned of, and scored") {
  const Texts texts;
  const std::string tokenised = texts.folder.file("tok", "The cat sat on the mat .\nIt was the best of times .\n\n");
  const Outcome outcome = seqgrad_program({"bleu", texts.reference, tokenised, "--tokenize", "none"});
  CHECK(outcome.status == 0);
  CHECK(outcome.err == "warning: " + tokenised +
                           ": the translations are tokenised but the references are not: 100% of the full stops and commas "
                           "stand alone in the translations, 0% in the references; score both in the same form, detokenised "
                           "if you can\n");
  CHECK(outcome.out.starts_with("BLEU = "));
  CHECK(seqgrad_program({"chrf", texts.reference, tokenised}).err == outcome.err);
}

TEST_CASE("bad calls of bleu and chrf") {
  const Texts texts;
  const auto complaint = [](const std::vector<std::string>& arguments) {
    const Outcome outcome = seqgrad_program(arguments);
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    return outcome.err;
  };
  const std::string empty = texts.folder.file("empty", ""), two = texts.folder.file("lines", "a\nb\n");
  CHECK(complaint({"bleu"}) == "seqgrad: FILE is required\n");
  CHECK(complaint({"bleu", texts.one}) == "seqgrad: 1 file is too few: seqgrad bleu REF... HYP\n");
  CHECK(complaint({"chrf", texts.one, texts.two, "--paired-bs"}) ==
        "seqgrad: 2 files are too few: seqgrad chrf REF... HYP HYP2 --paired-bs\n");
  CHECK(complaint({"bleu", texts.reference, two, texts.one}) ==
        "seqgrad: " + two + " has 2 lines but " + texts.one + " has 3: references and translations must match line by line\n");
  CHECK(complaint({"bleu", texts.reference, texts.one, two, "--paired-ar"}) ==
        "seqgrad: " + texts.reference + " has 3 lines but " + two +
            " has 2: references and translations must match line by line\n");
  CHECK(complaint({"bleu", empty, empty}) == "seqgrad: " + empty + " and " + empty + " are empty\n");
  CHECK(complaint({"bleu", texts.reference, texts.one, "--tokenize", "zh"}) ==
        "seqgrad: [bleu] unknown tokenizer 'zh': choose none, 13a, intl or char\n");
  CHECK(complaint({"chrf", texts.reference, texts.one, "--char-order", "0"}) ==
        "seqgrad: [chrf] the order of characters is 0: it must be from 1 to 100\n");
  CHECK(complaint({"bleu", texts.reference, texts.one, texts.two, "--paired-bs", "--trials", "-1"}) ==
        "seqgrad: trials is -1: it must be at least 1\n");
  CHECK(complaint({"bleu", texts.reference, texts.one, texts.two, "--paired-bs", "--seed", "-1"}) ==
        "seqgrad: seed is -1: it must not be negative\n");
  CHECK(complaint({"bleu", texts.reference, texts.one, texts.two, "--paired-bs", "--paired-ar"}) ==
        "seqgrad: --paired-bs excludes --paired-ar\n");
  CHECK(complaint({"bleu", texts.reference, texts.one, "--trials", "5"}) ==
        "seqgrad: --trials requires --paired-bs or --paired-ar\n");
}
