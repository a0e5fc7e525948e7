#include "seq2seq/significance.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "seq2seq/numpy_random.h"
#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Strings = std::vector<std::string>;

TEST_CASE("numpy's generator draws numpy's numbers") {
  // numpy.random.default_rng(seed).bit_generator.random_raw(3)
  const auto raw = [](u64 seed) {
    NumpyRandom random(seed);
    return std::array{random.next64(), random.next64(), random.next64()};
  };
  CHECK(raw(0) == std::array<u64, 3>{11749869230777074271u, 4976686463289251617u, 755828109848996024u});
  CHECK(raw(12345) == std::array<u64, 3>{4193609425186963869u, 5843160025838961886u, 14708796524633321433u});
  CHECK(raw((u64{1} << 40) + 3) == std::array<u64, 3>{14271435802380633900u, 18370326226487632705u, 8728610338774297736u});
  NumpyRandom seven(12345), many(12345), one(1);
  for (const u32 expected : {4, 1, 5, 2, 1, 5, 4, 4, 6, 2, 5, 2}) CHECK(seven.below(7) == expected);
  for (const u32 expected : {2097645094u, 682008066u, 2365940964u, 950275018u, 2392096371u, 2028764011u, 2518275128u})
    CHECK(many.below(3000000000u) == expected);
  CHECK(one.below(1) == 0);
}

TEST_CASE("the paired tests equal what sacreBLEU recorded") {
  const auto recorded = nlohmann::json::parse(read_file(SEQGRAD_FIXTURES "/sacrebleu_paired.json"));
  int compared = 0;
  for (const auto& entry : recorded["cases"]) {
    const Strings baseline = entry["baseline"], system = entry["system"];
    const std::vector<Strings> references = entry["references"];
    for (const auto& expected : entry["tests"]) {
      const std::string metric = expected["metric"];
      const bool bootstrap = expected["test"] == "bs";
      CAPTURE(entry["name"].get<std::string>());
      CAPTURE(expected["signature"].get<std::string>());
      const auto measured = [&](const Strings& lines) {
        if (metric == "BLEU") return measure_bleu(lines, references);
        return measure_chrf(lines, references, {.word_order = metric == "chrF2" ? 0 : 2});
      };
      const Measured a = measured(baseline), b = measured(system);
      const Comparison comparison = bootstrap ? paired_bootstrap(a, b) : paired_randomization(a, b);
      CHECK(comparison.name == metric);
      CHECK(comparison.signature == expected["signature"].get<std::string>());
      CHECK(std::abs(comparison.baseline - expected["baseline"].get<double>()) < 1e-9);
      CHECK(std::abs(comparison.system - expected["system"].get<double>()) < 1e-9);
      CHECK(std::abs(comparison.p_value - expected["p_value"].get<double>()) < 1e-12);
      ++compared;
      if (!bootstrap) continue;
      // sacreBLEU computes the drawn scores in single precision.
      const auto near = [&](double ours, const char* theirs) { CHECK(std::abs(ours - expected[theirs].get<double>()) < 5e-5); };
      near(comparison.baseline_confidence.mean, "baseline_mean");
      near(comparison.baseline_confidence.interval, "baseline_interval");
      near(comparison.system_confidence.mean, "system_mean");
      near(comparison.system_confidence.interval, "system_interval");
      CHECK(comparison.difference_low < comparison.difference());
      CHECK(comparison.difference() < comparison.difference_high);
    }
  }
  CHECK(compared == 3 * 2 * 3);
}

TEST_CASE("equal systems do not differ by more than chance") {
  const Strings lines{"a b c d e", "f g h i j", "k l"};
  const std::vector<Strings> references{{"a b c d x", "f g h i j", "k m"}};
  const Measured measured = measure_bleu(lines, references);
  CHECK(paired_bootstrap(measured, measured).p_value == 1);
  CHECK(paired_randomization(measured, measured).p_value == 1);
  CHECK(paired_bootstrap(measured, measured).difference_low == 0);
}

TEST_CASE("with few sentences the exchanges that change nothing count") {
  // One sentence: exchanged or not, the difference is the same.
  const Measured good = measure_chrf({"abcdef"}, {{"abcdef"}}), bad = measure_chrf({"abcxef"}, {{"abcdef"}});
  CHECK(paired_randomization(bad, good).p_value == 1);
  // Two that differ: half of the exchanges keep them together.
  const Measured two_good = measure_chrf({"abcdef", "abcdef"}, {{"abcdef", "abcdef"}}),
                 two_bad = measure_chrf({"abcxef", "abcxef"}, {{"abcdef", "abcdef"}});
  CHECK(paired_randomization(two_bad, two_good).p_value == doctest::Approx(0.5).epsilon(0.05));
}

TEST_CASE("a clear difference is found whichever system is the baseline") {
  Strings references, good, bad;
  for (int i = 0; i < 60; ++i) {
    references.push_back(fmt::format("sentence number {} has a few words", i));
    good.push_back(references.back());
    bad.push_back(fmt::format("number {} has words few", i));
  }
  const Measured a = measure_bleu(bad, {references}), b = measure_bleu(good, {references});
  for (const Comparison& comparison : {paired_bootstrap(a, b, 200, 7), paired_randomization(a, b, 200, 7)}) {
    CHECK(comparison.p_value == doctest::Approx(1. / 201));
    CHECK(comparison.difference() > 50);
    CHECK(comparison.signature.starts_with(comparison.difference_high > 0 ? "nrefs:1|bs:200|seed:7|case:mixed|"
                                                                          : "nrefs:1|ar:200|seed:7|case:mixed|"));
  }
  CHECK(paired_bootstrap(b, a, 200, 7).p_value == doctest::Approx(1. / 201));
  CHECK(paired_bootstrap(b, a, 200, 7).difference_high < 0);
}

TEST_CASE("what cannot be compared is refused") {
  const Measured two = measure_bleu({"a", "b"}, {{"a", "b"}}), one = measure_bleu({"a"}, {{"a"}});
  CHECK(message_of([&] { paired_bootstrap(two, one); }) == "[significance] the baseline has 2 sentences, the system 1");
  CHECK(message_of([&] { paired_bootstrap(Measured{}, Measured{}); }) == "[significance] there are no sentences");
  CHECK(message_of([&] { paired_randomization(one, one, 0); }) ==
        "[significance] the number of trials is 0: it must be at least 1");
  CHECK(message_of([&] { paired_randomization(one, measure_bleu({"a"}, {{"a"}}, {.lowercase = true})); }) ==
        "[significance] the systems are measured differently: BLEU "
        "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0 and BLEU "
        "nrefs:1|case:lc|eff:no|tok:13a|smooth:exp|version:2.6.0");
}

TEST_CASE("Student's distribution meets the tables of its quantiles") {
  for (const auto& row : {std::pair{1, 12.7062047364},
                          {2, 4.30265272975},
                          {3, 3.18244630528},
                          {4, 2.7764451052},
                          {10, 2.22813885196},
                          {30, 2.0422724563}}) {
    const int degrees = row.first;
    const double t = row.second;
    CAPTURE(degrees);
    CHECK(student_p_value(t, degrees) == doctest::Approx(0.05).epsilon(1e-8));
    CHECK(student_p_value(-t, degrees) == student_p_value(t, degrees));
    CHECK(student_p_value(0, degrees) == 1);
    CHECK(student_p_value(INFINITY, degrees) < 1e-15);
  }
  CHECK(student_p_value(1, 1) == doctest::Approx(0.5).epsilon(1e-14));
  CHECK(message_of([] { student_p_value(1, 0); }) == "[significance] 0 degrees of freedom: at least 1 are needed");
}

TEST_CASE("a paired t-test looks at the differences alone") {
  // Differences 1, 2, 3: mean 2, deviation 1, t = 2 sqrt 3; with 2 degrees of freedom p = 1 - t / sqrt(2 + t^2).
  const PairedTest test = paired_t_test({10, 20, 30}, {11, 22, 33});
  CHECK(test.pairs == 3);
  CHECK(test.mean == 2);
  CHECK(test.deviation == 1);
  CHECK(test.t == doctest::Approx(2 * std::sqrt(3.0)));
  CHECK(test.p_value == doctest::Approx(1 - std::sqrt(12.0 / 14)).epsilon(1e-12));
  CHECK(paired_t_test({11, 22, 33}, {10, 20, 30}).mean == -2);
  CHECK(paired_t_test({1, 2}, {1, 2}).p_value == 1);
  CHECK(paired_t_test({1, 2}, {2, 3}).p_value == 0);
  CHECK(std::isnan(paired_t_test({1}, {2}).p_value));
  CHECK(message_of([] { paired_t_test({1}, {}); }) == "[significance] the baseline has 1 values, the system 0");
}

TEST_CASE("several systems count as one with the mean of their scores") {
  const std::vector<Strings> reference{{"the dog sleeps in the park .", "a man reads .", "two women laugh ."}};
  const Measured a = measure_bleu({"the dog sleeps in a park .", "a man reads .", "two women run ."}, reference),
                 b = measure_bleu({"the dog runs .", "a man reads .", "two women laugh ."}, reference);
  const Measured both = mean_of({a, b});
  CHECK(both.sentences() == 3);
  CHECK(both.score() == doctest::Approx((a.score() + b.score()) / 2).epsilon(1e-14));
  CHECK(both.score({0, 2}) == doctest::Approx((a.score({0, 2}) + b.score({0, 2})) / 2).epsilon(1e-14));
  CHECK(mean_of({a}).score() == a.score());
  // One system twice is that system, also for the bootstrap.
  const Comparison once = paired_bootstrap(a, b, 100), twice = paired_bootstrap(mean_of({a, a}), mean_of({b, b}), 100);
  CHECK(once.p_value == twice.p_value);
  CHECK(once.difference_low == doctest::Approx(twice.difference_low).epsilon(1e-12));
  CHECK(message_of([] { mean_of({}); }) == "[mean_of] there is no system");
  CHECK(message_of([&] { mean_of({a, measure_bleu({"a"}, {{"a"}})}); }).starts_with("[mean_of] the systems are measured "));
}
