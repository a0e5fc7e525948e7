// Greedy search: what it does not depend on, its score, and its ends.
#include "seq2seq/search.h"

#include <doctest/doctest.h>

#include <cmath>

#include "seq2seq/random.h"
#include "seq2seq/train.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Ids = std::vector<i64>;
using Sentences = std::vector<std::vector<std::string>>;

namespace {

const Vocabulary words = Vocabulary::build({{"a", "b", "c", "d", "e", "f"}});

// Trained a little on copying words, so that different sentences get different translations. `end` is then added to the score
// of </s>.
std::unique_ptr<Run> make_run(const std::string& attention, double end = 0, const std::string& precision = "f64") {
  Settings settings{.attention = attention, .embedding = 12, .hidden = 14, .attention_dim = 8, .dropout = 0};
  settings.precision = precision;
  settings.learning_rate = 0.02;
  auto run = std::make_unique<Run>(settings, words, words);
  SplitMix64 random(1);
  nn::Adam adam(run->block);
  Tape tape;
  for (i64 step = 0; step < 60; ++step) {
    std::vector<EncodedPair> pairs(16);
    std::vector<std::size_t> rows;
    for (EncodedPair& pair : pairs) {
      for (u64 length = 1 + random.below(4); pair.target.size() < length;)
        pair.target.push_back(Vocabulary::specials + static_cast<i64>(random.below(6)));
      pair.source = pair.target;
      pair.source.push_back(Vocabulary::end);
      rows.push_back(rows.size());
    }
    train_step(*run, adam, tape, make_batch(pairs, rows), step);
  }
  for (Parameter* parameter : run->block.parameters())
    if (parameter->name == "decoder.out.bias") {
      const Tensor place = parameter->value.slice(0, Vocabulary::end, Vocabulary::end + 1);
      place.fill(place.item() + end);
    }
  return run;
}

const Sentences sentences{{"a", "b", "c"}, {"d"}, {}, {"f", "e", "d", "c", "b", "a"}, {"b", "unknown", "b"}, {"a", "c"}, {},
                          {"e", "e"},      {"c"}};
const std::vector<std::string> attentions{"none", "mean", "sdp", "bahdanau"};

}  // namespace

TEST_CASE("translations depend neither on the batch nor on their neighbours") {
  for (const std::string& attention : attentions) {
    CAPTURE(attention);
    const auto run = make_run(attention, 0, attention == "sdp" ? "f32" : "f64");
    const std::vector<Translation> one = Translator(*run, {.batch = 1}).translate(sentences);
    REQUIRE(one.size() == sentences.size());
    for (i64 batch : {3, 7, 100}) {
      const std::vector<Translation> other = Translator(*run, {.batch = batch}).translate(sentences);
      REQUIRE(other.size() == one.size());
      for (std::size_t i = 0; i < one.size(); ++i) {
        CHECK(other[i].ids == one[i].ids);
        CHECK(other[i].cut_off == one[i].cut_off);
        CHECK(other[i].log_probability == one[i].log_probability);  // to the bit
        CHECK(other[i].weights == one[i].weights);
      }
    }
    bool any_differ = false;
    for (const Translation& translation : one) any_differ |= translation.ids != one[0].ids && !translation.ids.empty();
    CHECK(any_differ);
  }
}

TEST_CASE("a translator's second text is translated as its first would be") {
  const auto run = make_run("sdp");
  Translator translator(*run, {.batch = 3});
  const std::vector<Translation> first = translator.translate(sentences);
  translator.translate({{"f", "f"}, {"b"}});
  const std::vector<Translation> again = translator.translate(sentences);
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    CHECK(again[i].ids == first[i].ids);
    CHECK(again[i].log_probability == first[i].log_probability);
    CHECK(again[i].weights == first[i].weights);
  }
}

TEST_CASE("the work of a search counts what is real") {
  const auto run = make_run("sdp");
  Translator translator(*run, {.batch = 3});
  i64 tokens = 0, looks = 0, source = 0;
  const std::vector<Translation> all = translator.translate(sentences);
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    if (sentences[i].empty()) continue;
    const i64 length = static_cast<i64>(sentences[i].size()) + 1, words = static_cast<i64>(all[i].ids.size()) + !all[i].cut_off;
    source += length;
    tokens += words;
    looks += words * length;
  }
  CHECK(translator.work().sentences == 7);
  CHECK(translator.work().source_tokens == source);
  CHECK(translator.work().extended == tokens);
  CHECK(translator.work().looks == looks);
  CHECK(translator.work().steps >= (tokens + 2) / 3);
  CHECK(translator.work().steps < tokens);
}

TEST_CASE("an empty sentence stays empty") {
  const auto run = make_run("sdp");
  for (const Translation& translation :
       {Translator(*run, {.batch = 2}).translate(sentences)[2], Translator(*run, {.batch = 1}).translate({{}})[0]}) {
    CHECK(translation.ids.empty());
    CHECK(translation.weights.empty());
    CHECK(translation.log_probability == 0);
    CHECK(!translation.cut_off);
  }
  CHECK(Translator(*run, {.batch = 4}).translate({}).empty());
  CHECK(Translator(*run, {.batch = 1}).search({}).empty());
}

TEST_CASE("the log-probability is the teacher-forced score of the same words") {
  for (const std::string& attention : attentions) {
    const auto run = make_run(attention);
    const std::vector<Translation> all = Translator(*run, {.batch = 4}).translate(sentences);
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      if (sentences[i].empty()) continue;
      EncodedPair pair{words.encode(sentences[i]), all[i].ids};
      pair.source.push_back(Vocabulary::end);
      REQUIRE(!all[i].cut_off);
      const double expected = -run->model.negative_log_likelihood(make_batch({pair}, {0}));
      CHECK(all[i].log_probability == doctest::Approx(expected).epsilon(1e-12));
    }
  }
}

TEST_CASE("weights: a row for each word and for </s>, a column for each source word and its </s>") {
  for (const std::string& attention : attentions) {
    const auto run = make_run(attention);
    const std::vector<Translation> all = Translator(*run, {.batch = 4}).translate(sentences);
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      if (sentences[i].empty() || attention == "none") {
        CHECK(all[i].weights.empty());
        continue;
      }
      CHECK(all[i].weights.size() == all[i].ids.size() + (all[i].cut_off ? 0 : 1));
      for (const std::vector<float>& row : all[i].weights) {
        REQUIRE(row.size() == sentences[i].size() + 1);
        double sum = 0;
        for (float w : row) sum += w;
        CHECK(sum == doctest::Approx(1).epsilon(1e-6));
        if (attention == "mean") CHECK(row[0] == doctest::Approx(1 / static_cast<double>(row.size())).epsilon(1e-6));
      }
    }
  }
}

TEST_CASE("a translation without </s> is cut off at the limit, each at its own") {
  for (const char* precision : {"f32", "f64"}) {
    const auto run = make_run("sdp", -1e9, precision);
    const std::vector<Translation> all = Translator(*run, {.batch = 5}).translate(sentences);
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      if (sentences[i].empty()) continue;
      CHECK(all[i].cut_off);
      CHECK(static_cast<i64>(all[i].ids.size()) == SearchOptions().longest(static_cast<i64>(sentences[i].size()) + 1));
      for (i64 id : all[i].ids) CHECK(id != Vocabulary::end);
      CHECK(std::isfinite(all[i].log_probability));
    }
  }
  CHECK(SearchOptions().longest(4) == 18);
}

TEST_CASE("a translation may be </s> alone") {
  const auto run = make_run("bahdanau", 1e9);
  for (const auto& found : Translator(*run, {.batch = 2}).search({{4, 5, 3}, {3}})) {
    const Translation& translation = found.at(0);
    CHECK(translation.ids.empty());
    CHECK(!translation.cut_off);
    CHECK(translation.weights.size() == 1);
    CHECK(translation.log_probability == doctest::Approx(0));
  }
}

TEST_CASE("wrong arguments") {
  const auto run = make_run("sdp");
  CHECK(message_of([&] {
          Translator(*run, {.batch = 2}).search({{4, 3}, {}});
        }) == "source row 1 has length 0: it must be at least 1");
  CHECK(message_of([&] {
          Translator(*run, {.batch = 1}).search({{4, 99, 3}});
        }) == "[embedding] id 99 at position 1 is outside a table of 10 rows");
  for (i64 batch : {0, -1})
    CHECK(message_of([&] { Translator(*run, {.batch = batch}).translate(sentences); }) ==
          fmt::format("batch is {}: it must be at least 1", batch));
}
