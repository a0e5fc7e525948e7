#include "seq2seq/study.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/threads.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

// The row whose name starts so.
StudyRow row(const Study& study, const std::string& what) {
  for (const StudyTable& table : study.tables)
    for (const StudyRow& one : table.rows)
      if (one.what.starts_with(what)) return one;
  FAIL("no row ", what);
  return {};
}

}  // namespace

TEST_CASE("every study holds, at several sizes and seeds") {
  for (const StudyEntry& entry : studies())
    for (const i64 m : {3, 4, 8})
      for (const u64 seed : {1u, 2u}) {
        StudyOptions options;
        options.m = m;
        options.d = m == 4 ? 4 : 16;
        options.samples = 4000;
        options.seed = seed;
        options.sweep = {0, 1, 7, 30};
        options.c = 12;
        const Study study = entry.run(options);
        CAPTURE(to_text(study));
        CHECK(study.name == entry.name);
        CHECK(study.holds());
        CHECK(!study.tables.empty());
      }
}

TEST_CASE("the closed forms, by numbers worked out apart") {
  StudyOptions options;
  options.m = 6;
  options.d = 16;
  options.sweep = {4 * std::log(10.0)};  // e = 10
  options.c = options.sweep[0];
  CHECK(row(selection_study(options), "alpha_j at c").measured == doctest::Approx(10.0 / 15).epsilon(1e-12));
  const Study averaging = averaging_study(options);
  CHECK(row(averaging, "alpha_a at c").measured == doctest::Approx(10.0 / 24).epsilon(1e-12));
  CHECK(row(averaging, "each other weight").measured == doctest::Approx(1.0 / 24).epsilon(1e-12));
  CHECK(row(two_heads_study(options), "first head's weight").measured == doctest::Approx(10.0 / 15).epsilon(1e-12));
  CHECK(row(self_attention_study(options), "of a position on itself").measured == doctest::Approx(10.0 / 15).epsilon(1e-12));
}

TEST_CASE("noise of variance 0 is no noise: the sampled studies meet the exact ones") {
  StudyOptions options;
  options.beta = 0;
  options.samples = 300;
  options.sweep = {8 * std::log(10.0)};
  options.c = options.sweep[0];
  const Study noisy = noisy_keys_study(options);
  CHECK(noisy.holds());
  CHECK(row(noisy, "E[alpha_a]").measured == doctest::Approx(10.0 / 26).epsilon(1e-12));
  CHECK(noisy.beliefs.empty());
}

TEST_CASE("the longest query whose expectations are exact is held to the samples too") {
  StudyOptions options;
  options.c = 843;
  options.sweep = {843};
  CHECK(noisy_keys_study(options).holds());
  CHECK(two_heads_study(options).holds());
}

TEST_CASE("a comparison that is off, or not a number, does not hold") {
  CHECK(StudyRow{"", 1, 1 + 5e-13}.holds());
  CHECK_FALSE(StudyRow{"", 1, 1 + 2e-12}.holds());
  CHECK(StudyRow{"", 1, 1.29, 0.1}.holds());
  CHECK_FALSE(StudyRow{"", 1, 1.31, 0.1}.holds());
  CHECK_FALSE(StudyRow{"", 0, std::numeric_limits<double>::quiet_NaN(), 0.1}.holds());
  Study study{"x", "t", "c", {}};
  study.tables.push_back({"caption", {{"row", 1, 2}}});
  CHECK_FALSE(study.holds());
  CHECK(to_text(study).find("TOO LARGE") != std::string::npos);
  CHECK(to_json(study).find("\"holds\":false") != std::string::npos);
  study.tables.clear();
  CHECK(study.holds());
  study.beliefs.push_back({"b", "f", false});
  CHECK_FALSE(study.holds());
}

TEST_CASE("the same seed gives the same study, another seed other samples") {
  StudyOptions options;
  options.samples = 500;
  const std::string once = to_json(noisy_keys_study(options));
  CHECK(once == to_json(noisy_keys_study(options)));
  options.seed = 2;
  CHECK(once != to_json(noisy_keys_study(options)));
}

TEST_CASE("the gradients stand side by side, from the equations, the tape and differences") {
  const Study study = gradient_study({});
  REQUIRE(study.measurements.size() == 1);
  const Table& table = study.measurements[0].table;
  CHECK(table.columns == std::vector<std::string>{"", "equations", "tape", "finite differences"});
  REQUIRE(table.rows.size() == 43);  // g of 3, alpha, s and q of 4, k of 16, v of 12
  for (const auto& entry : table.rows) {
    CAPTURE(entry[0]);
    CHECK(std::fabs(std::stod(entry[1]) - std::stod(entry[2])) < 2e-12);
    CHECK(std::fabs(std::stod(entry[1]) - std::stod(entry[3])) < 1e-9);
  }
}

TEST_CASE("the page opens from the file alone and escapes what it shows") {
  StudyOptions options;
  options.samples = 500;
  for (const StudyEntry& entry : studies()) {
    const std::string html = to_html(entry.run(options));
    CHECK(html.starts_with("<!DOCTYPE html>"));
    CHECK(html.ends_with("</html>\n"));
    for (const char* from_elsewhere : {"src=", "href=", "url(", "<script"})
      CHECK(html.find(from_elsewhere) == std::string::npos);
    CHECK((html.find("<svg") != std::string::npos) == (std::string(entry.name) != "gradient"));
  }
}

TEST_CASE("sizes that make no sense are refused") {
  const auto with = [](auto change) {
    StudyOptions options;
    change(options);
    return options;
  };
  CHECK(message_of([&] { selection_study(with([](auto& o) { o.m = 2; })); }) == "m is 2: it must be at least 3");
  CHECK(message_of([&] { selection_study(with([](auto& o) { o.m = 65; })); }) ==
        "m is 65 but d is 64: more than d keys cannot be orthogonal");
  CHECK(message_of([&] { selection_study(with([](auto& o) { o.d = 5000; })); }) == "d is 5000: it must be at most 4096");
  CHECK(message_of([&] { selection_study(with([](auto& o) { o.c = -1; })); }) == "c is -1: it must be between 0 and 1e6");
  CHECK(message_of([&] { selection_study(with([](auto& o) { o.c = std::nan(""); })); }) ==
        "c is nan: it must be between 0 and 1e6");
  CHECK(message_of([&] { selection_study(with([](auto& o) { o.sweep = {}; })); }) == "the sweep has no value of c");
  CHECK(message_of([&] { noisy_keys_study(with([](auto& o) { o.beta = 2; })); }) == "beta is 2: it must be between 0 and 1");
  CHECK(message_of([&] { noisy_keys_study(with([](auto& o) { o.samples = 5; })); }) ==
        "samples is 5: it must be between 100 and 100000000");
  for (const auto study : {noisy_keys_study, two_heads_study})
    CHECK(message_of([&] {
            study(with([](auto& o) { o.sweep = {1, 900}; }));
          }) == "c is 900: with d 64 and beta 0.1 it must be at most 843, or the expectations are not exact");
}

TEST_CASE("the bottleneck's gradients are those of the Jacobians, and its numbers do not depend on the threads") {
  BottleneckOptions options;
  options.longest = 6;
  options.hidden = 8;
  options.steps = 30;
  options.sentences = 6;
  const auto study = [&](int threads) {
    set_threads(threads);
    return bottleneck_study(options);
  };
  const Study one = study(1), two = study(2);
  set_threads(0);
  CHECK(to_json(one) == to_json(two));
  REQUIRE(one.tables.size() == 2);
  CHECK(one.tables[0].rows.size() == 12);  // losses of every cell and attention
  CHECK(one.tables[1].rows.size() == 24);  // three distances of the four rnn, before and after
  for (const StudyTable& table : one.tables)
    for (const StudyRow& row : table.rows) {
      CAPTURE(row.what);
      CHECK(row.holds());
      CHECK(row.theory > 0);
    }
  REQUIRE(one.measurements.size() == 6);
  CHECK(one.measurements[0].table.columns.size() == 9);
  CHECK(one.measurements[0].table.rows.size() == 5);  // 2 to 6 symbols
  CHECK(one.measurements[1].table.rows.size() == 8);  // the marker, 6 symbols, </s>
  CHECK(one.beliefs.size() == 2);
  CHECK(one.plots.size() == 12);  // of each cell two of scores and two of gradients

  options.seed = 2;
  options.cells = {"gru"};
  options.attentions = {"none", "sdp"};
  std::vector<std::string> lines;
  options.progress = [&](const std::string& line) { lines.push_back(line); };
  const Study other = bottleneck_study(options);
  CHECK(lines.size() == 2);
  CHECK(other.tables.size() == 1);  // no rnn, no Jacobian by hand
  CHECK(other.beliefs.size() == 1);
}

TEST_CASE("a bottleneck that makes no sense is refused") {
  const auto refused = [](auto change) {
    BottleneckOptions options;
    change(options);
    return message_of([&] { bottleneck_study(options); });
  };
  CHECK(refused([](auto& o) { o.longest = 2; }) == "longest is 2: it must be between 3 and 100");
  CHECK(refused([](auto& o) { o.symbols = 1; }) == "symbols is 1: it must be between 2 and 1000");
  CHECK(refused([](auto& o) { o.hidden = 0; }) == "hidden is 0: it must be between 1 and 1024");
  CHECK(refused([](auto& o) { o.steps = 0; }) == "steps is 0: it must be between 1 and 1000000");
  CHECK(refused([](auto& o) { o.sentences = 1; }) == "sentences is 1: it must be between 2 and 10000");
  CHECK(refused([](auto& o) { o.cells = {}; }) == "cells is empty");
  CHECK(refused([](auto& o) { o.cells = {"gru", "gru"}; }) == "cells names gru twice: once is enough");
  CHECK(refused([](auto& o) { o.cells = {"tru"}; }) == "cell is 'tru': it must be one of gru|lstm|rnn");
  CHECK(refused([](auto& o) { o.attentions = {"dot"}; }) ==
        "attention is 'dot': it must be one of none|mean|sdp|bahdanau|luong_dot|luong_general");
}
