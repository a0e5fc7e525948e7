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
    const auto run = make_run(attention);
    const std::vector<Translation> one = translate(*run, sentences, 1);
    REQUIRE(one.size() == sentences.size());
    for (i64 batch : {3, 7, 100}) {
      const std::vector<Translation> other = translate(*run, sentences, batch);
      REQUIRE(other.size() == one.size());
      for (std::size_t i = 0; i < one.size(); ++i) {
        CHECK(other[i].ids == one[i].ids);
        CHECK(other[i].cut_off == one[i].cut_off);
        CHECK(other[i].log_probability == doctest::Approx(one[i].log_probability).epsilon(1e-12));
        REQUIRE(other[i].weights.size() == one[i].weights.size());
        for (std::size_t t = 0; t < one[i].weights.size(); ++t) {
          REQUIRE(other[i].weights[t].size() == one[i].weights[t].size());
          for (std::size_t s = 0; s < one[i].weights[t].size(); ++s)
            CHECK(other[i].weights[t][s] == doctest::Approx(one[i].weights[t][s]).epsilon(1e-6));
        }
      }
    }
    bool any_differ = false;
    for (const Translation& translation : one) any_differ |= translation.ids != one[0].ids && !translation.ids.empty();
    CHECK(any_differ);
  }
}

TEST_CASE("an empty sentence stays empty") {
  const auto run = make_run("sdp");
  for (const Translation& translation : {translate(*run, sentences, 2)[2], translate(*run, {{}}, 1)[0]}) {
    CHECK(translation.ids.empty());
    CHECK(translation.weights.empty());
    CHECK(translation.log_probability == 0);
    CHECK(!translation.cut_off);
  }
  CHECK(translate(*run, {}, 4).empty());
  CHECK(greedy(run->model, {}).empty());
}

TEST_CASE("the log-probability is the teacher-forced score of the same words") {
  for (const std::string& attention : attentions) {
    const auto run = make_run(attention);
    const std::vector<Translation> all = translate(*run, sentences, 4);
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
    const std::vector<Translation> all = translate(*run, sentences, 4);
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
    const std::vector<Translation> all = translate(*run, sentences, 5);
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      if (sentences[i].empty()) continue;
      CHECK(all[i].cut_off);
      CHECK(static_cast<i64>(all[i].ids.size()) == length_limit(static_cast<i64>(sentences[i].size()) + 1));
      for (i64 id : all[i].ids) CHECK(id != Vocabulary::end);
      CHECK(std::isfinite(all[i].log_probability));
    }
  }
  CHECK(length_limit(4) == 18);
}

TEST_CASE("a translation may be </s> alone") {
  const auto run = make_run("bahdanau", 1e9);
  for (const Translation& translation : greedy(run->model, {{4, 5, 3}, {3}})) {
    CHECK(translation.ids.empty());
    CHECK(!translation.cut_off);
    CHECK(translation.weights.size() == 1);
    CHECK(translation.log_probability == doctest::Approx(0));
  }
}

TEST_CASE("wrong arguments") {
  const auto run = make_run("sdp");
  CHECK(message_of([&] { greedy(run->model, {{4, 3}, {}}); }) == "source row 1 has length 0: it must be 1..2");
  CHECK(message_of([&] {
          greedy(run->model, {{4, 99, 3}});
        }) == "[embedding] id 99 at position 1 is outside a table of 10 rows");
  for (i64 batch : {0, -1})
    CHECK(message_of([&] { translate(*run, sentences, batch); }) ==
          fmt::format("[translate] the batch size must be at least 1, not {}", batch));
}
