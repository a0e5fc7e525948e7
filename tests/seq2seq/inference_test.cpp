// A model laid out for translating against the model itself, and rows that know nothing of each other.
#include "seq2seq/inference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "seq2seq/benchmark.h"
#include "seq2seq/benchmark_decode.h"
#include "tensor/matmul.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Ids = std::vector<i64>;

namespace {

const Vocabulary vocabulary = Vocabulary::build({{"a", "b", "c", "d", "e"}});
const std::vector<Ids> sources{{4, 5, 3}, {8, 7, 6, 5, 3}, {3}, {4, 4, 4, 3}};

Run make_run(const std::string& attention, const std::string& cell, const std::string& precision = "f64",
             const std::string& readout = "deep", const std::string& tied = "none") {
  Settings settings{.attention = attention, .cell = cell, .embedding = 4, .hidden = 5, .decoder_hidden = 6, .attention_dim = 3};
  if (attention == "luong_dot") settings.decoder_hidden = settings.encoder_width();
  settings.precision = precision;
  settings.layers = 2;
  settings.readout = readout;
  settings.tie_embeddings = tied;
  settings.shared_vocabulary = tied == "all";
  return {settings, vocabulary, vocabulary};
}

std::vector<Segment> segments_of(const std::vector<Ids>& all, i64 first = 0) {
  std::vector<Segment> segments;
  for (const Ids& ids : all) {
    segments.push_back({first, static_cast<i64>(ids.size())});
    first += segments.back().length;
  }
  return segments;
}

std::vector<double> row(const Tensor& x, i64 i, i64 count) {
  return x.select(0, i).slice(0, 0, count).to(DType::f64).to_vector<double>();
}

}  // namespace

TEST_CASE("steps are the decoder's, for sentences of any order") {
  using Readout = std::pair<std::string, std::string>;  // and what is tied
  for (const Readout& readout : {Readout{"hidden", "none"}, Readout{"deep", "none"}, Readout{"projected", "none"},
                                 Readout{"projected", "decoder"}, Readout{"projected", "all"}})
    for (const char* cell : {"gru", "lstm", "rnn"})
      for (const char* attention : {"none", "mean", "sdp", "bahdanau", "luong_dot", "luong_general"}) {
        CAPTURE(readout.first);
        CAPTURE(readout.second);
        CAPTURE(cell);
        CAPTURE(attention);
        const Run run = make_run(attention, cell, "f64", readout.first, readout.second);
        Inference inference(run);
        CHECK(inference.vocabulary() == 9);
        const std::vector<Segment> segments = segments_of(sources);

        NoGrad values_only;
        Tape tape;
        nn::Mode mode = nn::Mode::evaluation();
        Tensor ids = zeros({4, 5}, DType::i64);
        for (i64 b = 0; b < 4; ++b)
          for (std::size_t t = 0; t < sources[static_cast<std::size_t>(b)].size(); ++t)
            ids.mutable_data<i64>()[b * 5 + static_cast<i64>(t)] = sources[static_cast<std::size_t>(b)][t];
        const Encoded encoded = run.model.encode(tape, Source::from(ids, Tensor::from<i64>({3, 5, 1, 4}, {4})), mode);
        for (const bool shares : {false, true}) {
          inference.encode({}, sources, shares);
          inference.arrange(Ids{-1, -2, -3, -4});
          nn::RecurrentState state = encoded.state;
          for (const Ids& words : {Ids{2, 2, 2, 2}, Ids{4, 5, 6, 7}, Ids{8, 3, 1, 0}}) {
            const DecoderStep expected = run.model.decoder.step(encoded, Tensor::from<i64>(words, {4}), state);
            state = expected.state;
            const Inference::Step step = inference.step(words, segments);
            for (i64 b = 0; b < 4; ++b) {
              const auto got = row(step.logits, b, 9), want = row(expected.logits.value(), b, 9);
              for (std::size_t v = 0; v < 9; ++v) CHECK(got[v] == doctest::Approx(want[v]).epsilon(1e-12));
              if (!expected.weights.defined()) {
                CHECK_FALSE(step.weights.defined());
                continue;
              }
              const i64 length = segments[static_cast<std::size_t>(b)].length;
              const auto look = row(step.weights, b, length), wanted = row(expected.weights.value(), b, length);
              for (std::size_t s = 0; s < look.size(); ++s) CHECK(look[s] == doctest::Approx(wanted[s]).epsilon(1e-12));
            }
            inference.arrange(Ids{0, 1, 2, 3});
          }
        }
      }
}

TEST_CASE("rows go on in any order, twice or not at all, beside new sentences, with the same bits") {
  for (const std::string precision : {"f32", "f64", "bf16"})
    for (const bool shares : {false, true}) {
      const MatmulPrecisionScope products(precision == "bf16" ? MatmulPrecision::medium : MatmulPrecision::highest);
      const Run run = make_run("bahdanau", shares ? "gru" : "lstm", precision.c_str());
      // Alone: <s>, 4, 5.
      std::vector<std::vector<double>> alone;
      for (const Ids& source : sources) {
        Inference inference(run);
        inference.encode({}, std::vector<Ids>{source}, shares);
        inference.arrange(Ids{-1});
        Tensor logits;
        for (const i64 word : {2, 4, 5}) {
          logits = inference.step({word}, segments_of({source})).logits;
          inference.arrange(Ids{0});
        }
        alone.push_back(row(logits, 0, 9));
      }
      // Sentences 0 and 1 first; 2 and 3 join them after a step, when 1 has moved to the front and stands there twice.
      Inference inference(run);
      inference.encode({}, std::vector<Ids>{sources[0], sources[1]}, shares);
      inference.arrange(Ids{-1, -2});
      inference.step({2, 2}, segments_of({sources[0], sources[1]}));
      const std::vector<Segment> kept{{3, 5}, {0, 3}};
      CHECK(message_of([&] { inference.encode(kept, std::vector<Ids>{sources[2]}, !shares); }) ==
            "[inference] positions with shares and without do not go together");
      inference.encode(kept, std::vector<Ids>{sources[2], sources[3]}, shares);
      const std::vector<Segment> segments{{0, 5}, {9, 4}, {0, 5}, {5, 3}, {8, 1}};
      inference.arrange(Ids{1, -2, 1, 0, -1});
      inference.step({4, 2, 4, 4, 2}, segments);
      inference.arrange(Ids{0, 1, 2, 3, 4});
      const Tensor second = inference.step({5, 4, 5, 5, 4}, segments).logits;
      CHECK(row(second, 0, 9) == alone[1]);
      CHECK(row(second, 2, 9) == alone[1]);
      CHECK(row(second, 3, 9) == alone[0]);
      inference.arrange(Ids{4, 1});
      const Tensor third = inference.step({5, 5}, std::vector<Segment>{segments[4], segments[1]}).logits;
      CHECK(row(third, 0, 9) == alone[2]);
      CHECK(row(third, 1, 9) == alone[3]);
    }
}

TEST_CASE("at medium precision the logits are f32's up to bf16's rounding, those of f64 are not rounded") {
  for (const char* precision : {"f32", "f64"})
    for (const char* cell : {"gru", "lstm", "rnn"}) {
      const Run run = make_run("sdp", cell, precision, "projected");
      const auto logits = [&](MatmulPrecision products) {
        const MatmulPrecisionScope scope(products);
        Inference inference(run);
        inference.encode({}, sources, false);
        inference.arrange(Ids{-1, -2, -3, -4});
        return inference.step({2, 2, 2, 2}, segments_of(sources)).logits.to(DType::f64).to_vector<double>();
      };
      const auto exact = logits(MatmulPrecision::highest), rounded = logits(MatmulPrecision::medium);
      double largest = 0, difference = 0;
      for (std::size_t i = 0; i < exact.size(); ++i) {
        largest = std::max(largest, std::abs(exact[i]));
        difference = std::max(difference, std::abs(exact[i] - rounded[i]));
      }
      CHECK(difference < 0.02 * largest);
      CHECK((difference > 0) == (precision == std::string("f32")));
    }
}

TEST_CASE("a table of words gives the product's bits, with room for all words, for some and for none") {
  Generator generator(3);
  const Tensor embedding = randn({9, 4}, DType::f32, generator), weight = randn({35, 4}, DType::f32, generator),
               bias = randn({35}, DType::f32, generator);
  for (const i64 rows : {0, 3, 100}) {
    WordTable table(embedding, weight, bias, rows * 35 * 4);
    for (const Ids& words : {Ids{5}, Ids{5, 2, 5, 8}, Ids{0, 1, 2, 3, 4, 5}, Ids{8, 8}, Ids{}}) {
      const Tensor gates = table(words);
      REQUIRE(gates.shape() == Dims{static_cast<i64>(words.size()), 35});
      for (std::size_t i = 0; i < words.size(); ++i) {
        const Tensor expected = PackedLinear(weight, bias)(embedding.slice(0, words[i], words[i] + 1));
        CHECK(row(gates, static_cast<i64>(i), 35) == row(expected, 0, 35));
      }
    }
    CHECK(message_of([&] { table({4, 9}); }) == "[embedding] id 9 at position 1 is outside a table of 9 rows");
    CHECK(message_of([&] { table({-1}); }) == "[embedding] id -1 at position 0 is outside a table of 9 rows");
  }
}

TEST_CASE("operations of a search, counted by hand") {
  Settings settings{.attention = "sdp", .embedding = 2, .hidden = 3, .decoder_hidden = 4, .attention_dim = 5};
  SearchWork work;
  work.sentences = 1;
  work.source_tokens = 10;
  work.extended = 7;
  work.looks = 70;
  // Encoder 10 (2 directions) 3 gates 3x3, bridge 6x4, keys 10 6x5, queries 7 4x5, scores 70x5, contexts 70x6, gates 7 (12 (6 +
  // 4)), output 7 (11 (4 + 6)).
  const i64 before = 540 + 24 + 300 + 140 + 350;
  CHECK(decoding_flops(settings, 11, work) == 2 * (before + 420 + 840 + 770));
  // Of sentences with 4 tokens, 3 hypotheses and 12 looks each position's gates and output are made once, and summed at each
  // look: 12 + 11 numbers.
  work.shared_tokens = 4;
  work.shared_extended = 3;
  work.shared_looks = 12;
  CHECK(decoding_flops(settings, 11, work) == 2 * (before + 58 * 6 + 12 * 23 + 4 * 23 * 6 + 4 * 23 * 6 + 7 * 23 * 4));
  settings.readout = "projected";  // to 2 numbers, and 11x2 from there
  CHECK(decoding_flops(settings, 11, work) == 2 * (before + 58 * 6 + 12 * 14 + 4 * 14 * 6 + 4 * 14 * 6 + 7 * 14 * 4 + 7 * 22));
  work.shared_tokens = work.shared_extended = work.shared_looks = 0;
  settings.attention = "none";
  settings.cell = "rnn";
  settings.readout = "hidden";
  settings.bidirectional = false;
  settings.bridge = "none";
  settings.layers = 2;
  CHECK(decoding_flops(settings, 11, work) == 2 * (10 * (9 + 9 + 9) + 7 * 16 + 7 * 44));
}

TEST_CASE("made-up sentences are translated into as many words as they have") {
  Settings settings{.attention = "sdp", .embedding = 4, .hidden = 5};
  const auto run = made_up_run(settings);
  const auto sentences = made_up_sentences(*run, 20);
  const SearchOptions options = made_up_lengths(*run, {});
  const std::vector<Translation> all = Translator(*run, options).translate(sentences);
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    CHECK(sentences[i].size() >= 5);
    CHECK(all[i].ids.size() == sentences[i].size() + 1);
    CHECK(all[i].cut_off);
  }
}
