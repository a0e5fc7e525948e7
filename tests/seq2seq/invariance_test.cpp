// The check of batches passes on models that are right, and names what is wrong on those that are not.
#include "seq2seq/invariance.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "seq2seq/search.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

Vocabulary words(i64 count) {
  std::vector<std::vector<std::string>> all(1);
  for (i64 i = 0; i < count; ++i) all[0].push_back(fmt::format("w{}", i));
  return Vocabulary::build(all);
}

Settings small(const std::string& attention) {
  return {.attention = attention, .embedding = 5, .hidden = 6, .decoder_hidden = 7, .attention_dim = 4, .seed = 3};
}

std::vector<EncodedPair> some_pairs(std::size_t count) {
  std::vector<EncodedPair> pairs(count);
  Generator generator(6);
  const auto word = [&] { return Vocabulary::specials + static_cast<i64>(generator.uniform() * 8); };
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k <= i % 6; ++k) pairs[i].source.push_back(word());
    pairs[i].source.push_back(Vocabulary::end);
    for (std::size_t k = 0; k < i % 5; ++k) pairs[i].target.push_back(word());
  }
  return pairs;
}

}  // namespace

TEST_CASE("a right model changes nothing, whatever the attention") {
  const std::vector<EncodedPair> pairs = some_pairs(20);
  for (const std::string attention : {"none", "mean", "sdp", "bahdanau"}) {
    CAPTURE(attention);
    Run run(small(attention), words(8), words(8));
    // Padding with a large embedding shows wherever it arrives.
    for (Parameter* p : run.block.parameters())
      if (p->name.ends_with("embedding.weight")) p->value.select(0, Vocabulary::pad).fill(1e3);
    int seen = 0;
    const InvarianceReport report = check_invariance(run, pairs, true, {}, [&](const InvarianceVariant&) { ++seen; });
    CHECK(report.ok({}));
    REQUIRE(report.variants.size() == 7);
    CHECK(seen == 7);
    CHECK(report.variants[0].name() == "batch 1, 40 more columns");
    CHECK(report.variants[1].name() == "batch 7, sorted");
    CHECK(report.variants[6].name() == "batch 64, shuffled, 40 more columns");
    for (const InvarianceVariant& variant : report.variants) {
      CHECK(variant.sentences == 20);
      CHECK(variant.identical == 20);
      CHECK(variant.changed.empty());
    }
  }
}

TEST_CASE("a search that depends on the batch is caught, its sentence and the words named") {
  const std::vector<EncodedPair> pairs = some_pairs(8);
  Run run(small("sdp"), words(8), words(8));
  // In batches of more than three, the longest source is translated by one word, the first of the vocabulary.
  std::size_t longest = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i].source.size() > pairs[longest].source.size()) longest = i;
  InvarianceOptions options;
  options.batches = {2, 4};
  options.padding = 0;
  options.translator = [&](const std::vector<std::vector<i64>>& sources, i64) {
    std::vector<std::vector<i64>> all;
    for (const auto& one : Translator(run, {.batch = 4}).search(sources)) all.push_back(one[0].ids);
    for (std::size_t i = 0; i < sources.size() && sources.size() > 3; ++i)
      if (sources[i] == pairs[longest].source) all[i] = {Vocabulary::specials};
    return all;
  };
  const InvarianceReport report = check_invariance(run, pairs, false, options);
  CHECK_FALSE(report.ok(options));
  REQUIRE(report.variants.size() == 4);
  for (const InvarianceVariant& variant : report.variants) {
    CAPTURE(variant.name());
    CHECK(variant.identical + static_cast<i64>(variant.changed.size()) == 8);
    CHECK(variant.changed.size() == (variant.batch == 4 ? 1 : 0));
    if (variant.batch == 2) continue;
    const ChangedTranslation& one = variant.changed.at(0);
    CHECK(one.sentence == longest);
    CHECK(one.changed == std::vector<i64>{Vocabulary::specials});
    CHECK(one.alone != one.changed);
    CHECK(one.gap > 1e-5);
    CHECK_FALSE(one.tie);
  }
}

TEST_CASE("two words that are equally good are called a tie, and a change all the same") {
  const std::vector<EncodedPair> pairs = some_pairs(4);
  Run run(small("sdp"), words(8), words(8));
  for (Parameter* p : run.block.parameters())
    if (p->name.starts_with("decoder.out.")) p->value.fill(0);  // every word is as likely as any other
  InvarianceOptions options;
  options.batches = {4};
  options.padding = 0;
  options.translator = [](const std::vector<std::vector<i64>>& sources, i64) {
    return std::vector<std::vector<i64>>(sources.size(), {4, sources.size() == 1 ? 5 : 6});
  };
  const InvarianceReport report = check_invariance(run, pairs, false, options);
  CHECK_FALSE(report.ok(options));
  for (const InvarianceVariant& variant : report.variants)
    for (const ChangedTranslation& one : variant.changed) {
      CHECK(one.tie);
      CHECK(one.gap == 0);
      CHECK(one.alone_word == 5);
      CHECK(one.changed_word == 6);
    }
  CHECK(report.variants.at(0).changed.size() == 4);
}

TEST_CASE("losses that are not numbers, or off by more than rounding, fail") {
  const std::vector<EncodedPair> pairs = some_pairs(5);
  Run run(small("sdp"), words(8), words(8));
  InvarianceOptions none;
  none.f32_tolerance = -1;
  CHECK_FALSE(check_invariance(run, pairs, true, none).ok(none));
  CHECK(check_invariance(run, pairs, false, none).ok(none));
  CHECK_FALSE(check_invariance(run, {}, true).ok({}));
  run.block.parameters()[0]->value.fill(std::numeric_limits<double>::quiet_NaN());
  const InvarianceReport report = check_invariance(run, pairs, true);
  CHECK_FALSE(report.ok({}));
  CHECK(std::isnan(report.variants[0].f64_difference));
}
