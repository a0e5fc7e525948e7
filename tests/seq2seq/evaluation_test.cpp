// What `evaluate` measures: the losses against the model's own functions, and how the parts fit together.
#include "seq2seq/evaluation.h"

#include <doctest/doctest.h>

#include <cmath>

#include "seq2seq/random.h"
#include "seq2seq/search.h"
#include "seq2seq/text.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Strings = std::vector<std::string>;

namespace {

const Vocabulary words = Vocabulary::build({{"a", "b", "c", "d", "e", "f"}});

// A fresh model: its words are as good as random, but not all the same. `end` is added to the score of </s>.
std::unique_ptr<Run> make_run(const std::string& attention, double end) {
  Settings settings{.attention = attention, .embedding = 12, .hidden = 14, .attention_dim = 8, .dropout = 0.3};
  settings.precision = "f64";
  auto run = std::make_unique<Run>(settings, words, words);
  for (Parameter* parameter : run->block.parameters())
    if (parameter->name == "decoder.out.bias") {
      const Tensor place = parameter->value.slice(0, Vocabulary::end, Vocabulary::end + 1);
      place.fill(place.item() + end);
    }
  return run;
}

std::vector<EncodedPair> random_pairs(std::size_t count) {
  SplitMix64 random(3);
  std::vector<EncodedPair> pairs(count);
  const auto fill = [&](std::vector<i64>& ids, u64 most) {
    for (u64 length = random.below(most + 1); ids.size() < length;)
      ids.push_back(Vocabulary::specials + static_cast<i64>(random.below(6)));
  };
  for (EncodedPair& pair : pairs) {
    fill(pair.source, 6);
    pair.source.push_back(Vocabulary::end);
    fill(pair.target, 9);
  }
  return pairs;
}

}  // namespace

TEST_CASE("the free-running loss is that of the references after the model's own words") {
  for (const char* attention : {"none", "mean", "sdp", "bahdanau"}) {
    CAPTURE(attention);
    const auto run = make_run(attention, -50);  // never </s>, so that greedy search gives words for every step
    double expected = 0;
    const std::vector<EncodedPair> pairs = random_pairs(20);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      Batch batch = make_batch(pairs, {i});
      const std::vector<i64> own = Translator(*run).search({pairs[i].source}).at(0).at(0).ids;
      REQUIRE(own.size() + 1 >= batch.target_in.size());
      std::copy_n(own.begin(), batch.target_in.size() - 1, batch.target_in.begin() + 1);
      expected += run->model.negative_log_likelihood(batch);
    }
    for (const i64 batch : {1, 7, 64}) {
      const FreeRunning result = free_running(*run, pairs, batch);
      CHECK(result.negative_log_likelihood == doctest::Approx(expected).epsilon(1e-12));
      CHECK(result.tokens == perplexity(*run, pairs, batch).tokens);
      CHECK(result.loss() == doctest::Approx(expected / static_cast<double>(result.tokens)));
    }
  }
}

TEST_CASE("before the first word of its own a model runs free as it does with a teacher") {
  const auto run = make_run("sdp", 0);
  const std::vector<EncodedPair> empty{{{4, 5, 3}, {}}, {{6, 3}, {}}};
  CHECK(free_running(*run, empty, 2).negative_log_likelihood ==
        doctest::Approx(perplexity(*run, empty, 2).negative_log_likelihood).epsilon(1e-12));
  CHECK(free_running(*run, {}, 2).loss() == 0);
}

TEST_CASE("a model that says the reference runs free as it does with a teacher") {
  const auto run = make_run("bahdanau", -50);
  std::vector<EncodedPair> pairs{{{4, 5, 3}, {}}};
  pairs[0].target = Translator(*run).search({pairs[0].source}).at(0).at(0).ids;
  REQUIRE(pairs[0].target.size() > 3);
  CHECK(free_running(*run, pairs, 1).negative_log_likelihood ==
        doctest::Approx(perplexity(*run, pairs, 1).negative_log_likelihood).epsilon(1e-12));
}

TEST_CASE("an evaluation is the sum of its parts") {
  const auto run = make_run("sdp", 0);
  const Strings sources{"a b c", "", "d e f a b", "unknown"}, references{"a b", "a", "d zebra f", "b"};
  const Evaluation evaluation =
      evaluate(*run, sources, references, {.search = {.batch = 2}, .free_running = true, .length_edges = {2}});
  std::vector<EncodedPair> pairs;
  for (const std::size_t i : {0, 2, 3})
    pairs.push_back(encode_pair({split_whitespace(sources[i]), split_whitespace(references[i])}, words, words));
  CHECK(evaluation.pairs == 3);
  CHECK(evaluation.teacher_forced.value() == doctest::Approx(perplexity(*run, pairs, 8).value()));
  CHECK(evaluation.free_running.value().loss() == doctest::Approx(free_running(*run, pairs, 8).loss()));
  CHECK(evaluation.reference_words == 7);
  CHECK(evaluation.unknown_reference_words == 1);
  REQUIRE(evaluation.hypotheses.size() == 4);
  CHECK(evaluation.hypotheses[1] == "");
  CHECK(evaluation.bleu.score == corpus_bleu(evaluation.hypotheses, {references}, {.tokenize = BleuTokenizer::none}).score);
  REQUIRE(evaluation.measures.size() == 3);
  CHECK(evaluation.measures[0].score() == evaluation.bleu.score);
  CHECK(evaluation.measures[1].score() == corpus_chrf(evaluation.hypotheses, {references}));
  CHECK(evaluation.measures[2].score() == corpus_chrf(evaluation.hypotheses, {references}, {.word_order = 2}));
  REQUIRE(evaluation.by_length.size() == 2);
  CHECK(evaluation.by_length[0].sentences == std::vector<std::size_t>{1, 3});
  CHECK(evaluation.by_length[1].sentences == std::vector<std::size_t>{0, 2});
  CHECK(!evaluate(*run, sources, references).free_running);
}

TEST_CASE("an evaluation needs sentences on both sides") {
  const auto run = make_run("sdp", 0);
  CHECK(message_of([&] { evaluate(*run, {"a"}, {}); }) ==
        "[evaluate] 1 sources but 0 references: they must match line by line");
  CHECK(message_of([&] { evaluate(*run, {}, {}); }) == "[evaluate] there are no sentences");
}
