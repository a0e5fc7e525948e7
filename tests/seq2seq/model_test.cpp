// The model: what its loss does not depend on, and one step at a time against all steps at once.
#include "seq2seq/model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tensor/safetensors.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Values = std::vector<double>;
using Ids = std::vector<i64>;

namespace {

constexpr i64 source_words = 9, target_words = 8;  // of all tied models 9 both

struct Fixture {
  explicit Fixture(const Settings& settings, u64 seed = 1)
      : model(settings, source_words, settings.tie_embeddings == "all" ? source_words : target_words),
        generator(seed),
        block(model, DType::f64, generator) {}

  Seq2Seq model;
  Generator generator;
  nn::ParameterBlock block;
};

// All attentions, readouts and bridges, one and two directions, tied embeddings.
std::vector<Settings> variants() {
  std::vector<Settings> all;
  for (const char* attention : {"none", "mean", "sdp", "bahdanau"})
    for (const char* readout : {"deep", "hidden"})
      for (bool copied : {false, true}) {
        Settings settings{.attention = attention, .readout = readout, .embedding = 4, .hidden = 5, .attention_dim = 3};
        settings.bridge = copied ? "none" : "tanh-linear";
        settings.bidirectional = !copied || settings.readout == "deep";
        settings.decoder_hidden = copied ? settings.bidirectional ? 10 : 5 : 6;
        settings.layers = copied ? 2 : 1;
        all.push_back(settings);
      }
  for (const char* attention : {"none", "mean", "sdp", "bahdanau"})
    for (const char* tied : {"none", "decoder", "all"}) {
      Settings settings{.attention = attention, .readout = "projected", .embedding = 4, .hidden = 5, .decoder_hidden = 6};
      settings.tie_embeddings = tied;
      settings.shared_vocabulary = settings.tie_embeddings == "all";
      all.push_back(settings);
    }
  all.push_back({.attention = "sdp", .readout = "hidden", .tie_embeddings = "decoder", .embedding = 4, .hidden = 4});
  return all;
}

std::string name(const Settings& s) {
  return fmt::format("{} {} {} {} tied {}", s.attention, s.readout, s.bridge, s.bidirectional, s.tie_embeddings);
}

const std::vector<EncodedPair> pairs{
    {{4, 5, 6, 7, 3}, {4, 5}}, {{8, 3}, {6, 4, 5, 7, 1}}, {{4, 4, 3}, {}}, {{1, 6, 5, 3}, {7, 7, 7, 6}}, {{3}, {5}}};
const std::vector<std::size_t> all_rows{0, 1, 2, 3, 4};

// The same batch with more columns of padding.
Batch widened(const Batch& batch, i64 source, i64 target) {
  Batch wide = batch;
  wide.source_length += source;
  wide.target_length += target;
  const auto widen = [&](const Ids& ids, i64 from, i64 to) {
    Ids result(static_cast<std::size_t>(batch.size * to), Vocabulary::pad);
    for (i64 b = 0; b < batch.size; ++b) std::copy_n(ids.begin() + b * from, from, result.begin() + b * to);
    return result;
  };
  wide.source = widen(batch.source, batch.source_length, wide.source_length);
  wide.target_in = widen(batch.target_in, batch.target_length, wide.target_length);
  wide.target_out = widen(batch.target_out, batch.target_length, wide.target_length);
  return wide;
}

struct LossAndGradient {
  double loss;
  Values gradient;
};
LossAndGradient loss_of(Fixture& f, const Batch& batch, double smoothing = 0) {
  f.block.zero_grad();
  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  const Var loss = f.model.loss(tape, batch, mode, smoothing);
  tape.backward(loss);
  return {loss.value().item(), f.block.gradients().to_vector<double>()};
}

double difference(const Values& a, const Values& b) {
  REQUIRE(a.size() == b.size());
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double error = std::fabs(a[i] - b[i]) / std::max(1.0, std::fabs(b[i]));
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

}  // namespace

TEST_CASE("the reference setting has about 19.9 million parameters") {
  const std::pair<const char*, i64> all[] = {{"sdp", 19888289}, {"bahdanau", 20577826}, {"mean", 19789857}, {"none", 12153889}};
  for (const auto& [attention, count] : all) {
    Settings settings;
    settings.attention = attention;
    CHECK(Seq2Seq(settings, 7859, 5921).parameter_count() == count);
  }
}

TEST_CASE("parameters are those of the recordings by name and shape") {
  for (const char* attention : {"none", "mean", "sdp", "bahdanau", "uni"}) {
    Settings settings{.attention = attention, .embedding = 5, .hidden = 6, .decoder_hidden = 7, .attention_dim = 4};
    const bool uni = settings.attention == "uni";
    if (uni)
      settings = {.attention = "bahdanau",
                  .bridge = "none",
                  .readout = "hidden",
                  .bidirectional = false,
                  .embedding = 8,
                  .hidden = 8,
                  .attention_dim = 8};
    Seq2Seq model(settings, uni ? 20 : 13, uni ? 30 : 11);
    Generator generator;
    nn::ParameterBlock block(model, DType::f32, generator);
    std::map<std::string, std::vector<i64>> ours, theirs;
    for (const Parameter* parameter : block.parameters())
      ours[parameter->name] = {parameter->value.shape().begin(), parameter->value.shape().end()};
    const std::string file = fmt::format("{}/torch/seq2seq_gru_{}.safetensors", SEQGRAD_FIXTURES,
                                         uni ? "uni_bahdanau" : std::string("bi_") + attention);
    for (const NamedTensor& tensor : read_safetensors(file).tensors)
      if (tensor.name.starts_with("param/"))
        theirs[tensor.name.substr(6)] = {tensor.value.shape().begin(), tensor.value.shape().end()};
    CHECK(ours.size() == block.parameters().size());
    CHECK(ours == theirs);
  }
}

TEST_CASE("loss and gradient depend neither on padding nor on the order of rows") {
  for (const Settings& settings : variants()) {
    const std::string variant = name(settings);
    CAPTURE(variant);
    Fixture f(settings);
    const Batch batch = make_batch(pairs, all_rows);
    const LossAndGradient plain = loss_of(f, batch, 0.1);
    for (const Batch& other :
         {make_batch(pairs, {4, 2, 0, 3, 1}), widened(batch, 3, 0), widened(batch, 0, 2), widened(batch, 1, 4)}) {
      const LossAndGradient same = loss_of(f, other, 0.1);
      CHECK(std::fabs(same.loss - plain.loss) <= 1e-12);
      CHECK(difference(same.gradient, plain.gradient) <= 1e-12);
    }
    // Row by row: the mean over tokens is the sum over rows by the number of tokens.
    double sum = 0;
    for (std::size_t row : all_rows) sum += f.model.negative_log_likelihood(make_batch(pairs, {row}));
    CHECK(std::fabs(f.model.negative_log_likelihood(batch) - sum) <= 1e-12);
    CHECK(std::fabs(loss_of(f, batch).loss - sum / static_cast<double>(batch.target_tokens)) <= 1e-12);
  }
}

TEST_CASE("padding's embeddings are 0 and get no gradient, not even amid a sentence; real words' and tied ones' do") {
  std::vector<EncodedPair> with_padding = pairs;
  with_padding.push_back({{4, 0, 5, 3}, {4, 0, 5}});
  for (const Settings& settings : variants()) {
    Fixture f(settings);
    loss_of(f, widened(make_batch(with_padding, {0, 1, 2, 3, 4, 5}), 2, 2));
    for (const Parameter* parameter : f.block.parameters()) {
      if (!parameter->name.ends_with("embedding.weight")) continue;
      CHECK(parameter->value.select(0, 0).to_vector<double>() == Values(4, 0));
      for (i64 word = 0; word < parameter->grad.size(0); ++word) {
        // Target embeddings never see </s>; source sentences never <s>; the output layer sees all.
        const bool source = parameter->name.starts_with("encoder");
        const bool tied = settings.tie_embeddings == "all" || (settings.tie_embeddings == "decoder" && !source);
        const bool seen = tied || (word != 0 && word != (source ? 2 : 3));
        bool any = false;
        for (double g : parameter->grad.select(0, word).to_vector<double>()) any |= g != 0;
        CHECK(any == seen);
      }
    }
  }
}

TEST_CASE("step by step is all steps at once") {
  for (const Settings& settings : variants()) {
    const std::string variant = name(settings);
    CAPTURE(variant);
    Fixture f(settings);
    const Batch batch = make_batch(pairs, all_rows);
    Tape tape;
    nn::Mode mode = nn::Mode::evaluation();
    const Encoded encoded = f.model.encode(tape, Source::from(batch), mode);
    const Tensor target = Tensor::from<i64>(batch.target_in, {batch.size, batch.target_length});
    const DecoderOutput out = f.model.decoder(tape, encoded, target, mode);
    const Var logits = f.model.decoder.logits(out.features);
    CHECK(out.weights.defined() == (settings.attention != "none"));
    nn::RecurrentState state = encoded.state;
    for (i64 t = 0; t < batch.target_length; ++t) {
      const DecoderStep step = f.model.decoder.step(encoded, target.select(1, t).contiguous(), state);
      CHECK(difference(step.logits.value().to_vector<double>(), logits.value().select(1, t).to_vector<double>()) <= 1e-12);
      REQUIRE(step.weights.defined() == out.weights.defined());
      if (step.weights.defined())
        CHECK(difference(step.weights.value().to_vector<double>(), out.weights.value().select(1, t).to_vector<double>()) <=
              1e-12);
      state = step.state;
    }
  }
}

TEST_CASE("the projected readout is tanh of a linear of all three, and tied logits are products with the embeddings") {
  for (const char* tied : {"none", "decoder", "all"}) {
    Settings settings{.attention = "sdp", .readout = "projected", .embedding = 4, .hidden = 5, .decoder_hidden = 6};
    settings.tie_embeddings = tied;
    settings.shared_vocabulary = settings.tie_embeddings == "all";
    Fixture f(settings);
    std::map<std::string, Tensor> named;
    for (const Parameter* parameter : f.block.parameters()) named[parameter->name] = parameter->value;
    CHECK(named.contains("decoder.out.weight") == (settings.tie_embeddings == "none"));
    CHECK(named.contains("decoder.embedding.weight") == (settings.tie_embeddings != "all"));
    const Tensor embeddings =
        named.at(settings.tie_embeddings == "all" ? "encoder.embedding.weight" : "decoder.embedding.weight");
    const Tensor output = settings.tie_embeddings == "none" ? named.at("decoder.out.weight") : embeddings;
    const Tensor projection = named.at("decoder.readout.weight"), bias = named.at("decoder.readout.bias");
    REQUIRE(projection.shape() == Dims{4, 6 + 10 + 4});

    const Batch batch = make_batch(pairs, {1});
    Tape tape;
    nn::Mode mode = nn::Mode::evaluation();
    const Encoded encoded = f.model.encode(tape, Source::from(batch), mode);
    const DecoderOutput out =
        f.model.decoder(tape, encoded, Tensor::from<i64>(batch.target_in, {1, batch.target_length}), mode);
    const Tensor features = out.features.value(), logits = f.model.decoder.logits(out.features).value();
    for (i64 t = 0; t < batch.target_length; ++t) {
      double looked[10] = {};  // the context: outputs by their weights
      for (i64 s = 0; s < 2; ++s)
        for (i64 c = 0; c < 10; ++c) looked[c] += out.weights.value().at({0, t, s}) * encoded.outputs.value().at({0, s, c});
      for (i64 c = 0; c < 10; ++c) CHECK(features.at({0, t, 6 + c}) == doctest::Approx(looked[c]).epsilon(1e-12));
      const i64 word = batch.target_in[static_cast<std::size_t>(t)];
      for (i64 e = 0; e < 4; ++e) CHECK(features.at({0, t, 16 + e}) == embeddings.at({word, e}));
      for (i64 v = 0; v < output.size(0); ++v) {
        double expected = named.at("decoder.out.bias").at({v});
        for (i64 e = 0; e < 4; ++e) {
          double sum = bias.at({e});
          for (i64 i = 0; i < 20; ++i) sum += projection.at({e, i}) * features.at({0, t, i});
          expected += output.at({v, e}) * std::tanh(sum);
        }
        CHECK(logits.at({0, t, v}) == doctest::Approx(expected).epsilon(1e-12));
      }
    }
  }
}

TEST_CASE("tied embeddings save their matrices, start with small logits, and need one vocabulary to share") {
  Settings settings;
  settings.readout = "projected";
  const i64 apart = Seq2Seq(settings, 8000, 8000).parameter_count();
  settings.tie_embeddings = "decoder";
  CHECK(Seq2Seq(settings, 8000, 8000).parameter_count() == apart - 8000 * 256);
  settings.tie_embeddings = "all";
  settings.shared_vocabulary = true;
  CHECK(Seq2Seq(settings, 8000, 8000).parameter_count() == apart - 2 * 8000 * 256);
  CHECK(message_of([&] { Seq2Seq(settings, 8000, 7999); }) ==
        "tie-embeddings is 'all', but the source has 8000 words and the target 7999: they need one vocabulary");
  Seq2Seq model(settings, 2000, 2000);
  Generator generator(1);
  nn::ParameterBlock block(model, DType::f32, generator);
  double squares = 0;
  for (const float x : model.encoder.embedding().value.to_vector<float>()) squares += x * x;
  CHECK(squares / 2000 == doctest::Approx(1).epsilon(0.02));  // each row's, 1 / 256 an entry
}

TEST_CASE("label smoothing spreads its share evenly over the vocabulary") {
  Fixture f(variants()[8]);
  const Batch batch = make_batch(pairs, all_rows);
  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  const Encoded encoded = f.model.encode(tape, Source::from(batch), mode);
  const Tensor target = Tensor::from<i64>(batch.target_in, {batch.size, batch.target_length});
  const Tensor log_p = log_softmax(f.model.decoder.logits(f.model.decoder(tape, encoded, target, mode).features)).value();
  double expected = 0;
  for (i64 b = 0; b < batch.size; ++b)
    for (i64 t = 0; t < batch.target_length; ++t) {
      const i64 word = batch.target_out[static_cast<std::size_t>(b * batch.target_length + t)];
      if (word == Vocabulary::pad) continue;
      expected -= 0.8 * log_p.at({b, t, word});
      for (i64 v = 0; v < target_words; ++v) expected -= 0.2 / target_words * log_p.at({b, t, v});
    }
  CHECK(loss_of(f, batch, 0.2).loss == doctest::Approx(expected / static_cast<double>(batch.target_tokens)).epsilon(1e-13));
}

TEST_CASE("the smallest batches: one row, sentences of one word or none") {
  for (const Settings& settings : variants()) {
    Fixture f(settings);
    for (const EncodedPair& pair : {EncodedPair{{3}, {}}, EncodedPair{{5, 3}, {4}}, EncodedPair{{3}, {4, 5, 6}}}) {
      const LossAndGradient result = loss_of(f, make_batch({pair}, {0}));
      CHECK(std::isfinite(result.loss));
      CHECK(result.loss > 0);
      for (double g : result.gradient) REQUIRE(std::isfinite(g));
    }
  }
}

TEST_CASE("dropout is a pure function of seed and step, and off where it should be") {
  Settings settings = variants()[8];
  settings.dropout = 0.5;
  settings.layers = 2;
  Fixture f(settings);
  const Batch batch = make_batch(pairs, all_rows);
  const auto loss = [&](nn::Mode mode) {
    Tape tape;
    return f.model.loss(tape, batch, mode, 0).value().item();
  };
  const double plain = loss(nn::Mode::evaluation());
  CHECK(loss(nn::Mode::training_step(1, 2)) == loss(nn::Mode::training_step(1, 2)));
  CHECK(loss(nn::Mode::training_step(1, 2)) != loss(nn::Mode::training_step(1, 3)));
  CHECK(loss(nn::Mode::training_step(1, 2)) != loss(nn::Mode::training_step(2, 2)));
  CHECK(loss(nn::Mode::training_step(1, 2)) != plain);
  CHECK(f.model.negative_log_likelihood(batch) ==
        doctest::Approx(plain * static_cast<double>(batch.target_tokens)).epsilon(1e-13));
}

TEST_CASE("the encoder's outputs are 0 on padding, and its state is the last real one") {
  Settings settings = variants()[3];  // none hidden copied: unidirectional
  REQUIRE(!settings.bidirectional);
  Fixture f(settings);
  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  const Source source = Source::from(make_batch(pairs, all_rows));
  const Encoded encoded = f.model.encode(tape, source, mode);
  for (i64 b = 0; b < 5; ++b) {
    const i64 length = source.lengths.data<i64>()[b];
    for (i64 s = 0; s < 5; ++s) {
      CHECK(source.mask.select(0, b).to_vector<bool>()[static_cast<std::size_t>(s)] == (s < length));
      if (s >= length) CHECK(encoded.outputs.value().select(0, b).select(0, s).to_vector<double>() == Values(5, 0));
    }
    CHECK(encoded.state.h.value().select(0, b).to_vector<double>() ==
          encoded.outputs.value().select(0, b).select(0, length - 1).to_vector<double>());
  }
}

TEST_CASE("wrong sources are refused by row and shape") {
  const Tensor ids = Tensor::from<i64>({4, 5, 3, 6, 3, 0}, {2, 3});
  const auto refusal = [](const Tensor& ids_in, const Tensor& lengths) {
    return message_of([&] { Source::from(ids_in, lengths); });
  };
  const auto lengths = [](const Ids& values) { return Tensor::from(values, {static_cast<i64>(values.size())}); };
  CHECK(refusal(ids, lengths({3, 2})) == "");
  CHECK(refusal(ids, lengths({3, 0})) == "source row 1 has length 0: it must be 1..3");
  CHECK(refusal(ids, lengths({4, 2})) == "source row 0 has length 4: it must be 1..3");
  CHECK(refusal(ids, lengths({-1, 2})) == "source row 0 has length -1: it must be 1..3");
  CHECK(refusal(ids, lengths({3})) == "source ids i64 (2, 3) and lengths i64 (1) should be i64 (B, S) and i64 (B)");
  CHECK(refusal(ones({2, 3}), lengths({3, 2})) == "source ids f32 (2, 3) and lengths i64 (2) should be i64 (B, S) and i64 (B)");
  CHECK(refusal(ids, ones({2})) == "source ids i64 (2, 3) and lengths f32 (2) should be i64 (B, S) and i64 (B)");
  CHECK(refusal(ids.select(0, 0), lengths({3})) == "source ids i64 (3) and lengths i64 (1) should be i64 (B, S) and i64 (B)");
}
