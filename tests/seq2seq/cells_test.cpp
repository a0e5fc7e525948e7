// Models on every cell and attention: names, one step against all steps, search with a cell state, and what a step costs.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "autograd/gradcheck.h"
#include "seq2seq/benchmark.h"
#include "seq2seq/search.h"
#include "tensor/safetensors.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

const Vocabulary vocabulary = Vocabulary::build({{"a", "b", "c", "d", "e"}});

std::vector<Settings> variants() {
  std::vector<Settings> all;
  for (const char* cell : {"gru", "before", "lstm", "rnn"})
    for (const char* attention : {"none", "mean", "sdp", "bahdanau", "luong_dot", "luong_general"})
      for (const bool copied : {false, true}) {
        Settings settings{.attention = attention, .cell = cell, .embedding = 4, .hidden = 5, .attention_dim = 3};
        if (settings.cell == "before") {
          settings.cell = "gru";
          settings.gru_reset = "before";
        }
        settings.bridge = copied ? "none" : "tanh-linear";
        settings.readout = copied ? "hidden" : "deep";
        settings.layers = copied ? 2 : 1;
        settings.decoder_hidden = copied || settings.attention == "luong_dot" ? settings.encoder_width() : 6;
        settings.precision = "f64";
        all.push_back(settings);
        if (copied) continue;
        for (const char* tied : {"none", "decoder", "all"}) {
          settings.readout = "projected";
          settings.tie_embeddings = tied;
          settings.shared_vocabulary = settings.tie_embeddings == "all";
          all.push_back(settings);
        }
      }
  return all;
}

std::string name(const Settings& s) {
  return fmt::format("{} {} {} {} {} {}", s.cell, s.gru_reset, s.attention, s.bridge, s.readout, s.tie_embeddings);
}

const std::vector<EncodedPair> pairs{
    {{4, 5, 6, 7, 3}, {4, 5}}, {{8, 3}, {6, 4, 5, 7, 1}}, {{4, 4, 3}, {}}, {{1, 6, 5, 3}, {7, 7, 7, 6}}, {{3}, {5}}};

}  // namespace

TEST_CASE("parameters of the other cells are those of the recordings by name and shape") {
  const Settings lstm{.attention = "sdp", .cell = "lstm", .embedding = 5, .hidden = 6, .decoder_hidden = 7, .attention_dim = 4};
  const Settings rnn{.attention = "none",
                     .cell = "rnn",
                     .bridge = "none",
                     .readout = "hidden",
                     .bidirectional = false,
                     .embedding = 5,
                     .hidden = 6};
  for (const auto& [file, settings] : {std::pair{"lstm_bi_sdp", lstm}, std::pair{"rnn_uni_none", rnn}}) {
    Seq2Seq model(settings, 13, 11);
    Generator generator;
    nn::ParameterBlock block(model, DType::f32, generator);
    std::map<std::string, std::vector<i64>> ours, theirs;
    for (const Parameter* parameter : block.parameters())
      ours[parameter->name] = {parameter->value.shape().begin(), parameter->value.shape().end()};
    const std::string path = fmt::format("{}/torch/seq2seq_{}.safetensors", SEQGRAD_FIXTURES, file);
    for (const NamedTensor& tensor : read_safetensors(path).tensors)
      if (tensor.name.starts_with("param/"))
        theirs[tensor.name.substr(6)] = {tensor.value.shape().begin(), tensor.value.shape().end()};
    CHECK(ours == theirs);
  }
}

TEST_CASE("every cell and attention: one step at a time is all steps at once, and rows are independent") {
  for (const Settings& settings : variants()) {
    const std::string variant = name(settings);
    CAPTURE(variant);
    check_settings(settings);
    const Run run(settings, vocabulary, vocabulary);
    const Batch batch = make_batch(pairs, {0, 1, 2, 3, 4});
    Tape tape;
    nn::Mode mode = nn::Mode::evaluation();
    const Encoded encoded = run.model.encode(tape, Source::from(batch), mode);
    CHECK(encoded.state.c.defined() == (settings.cell == "lstm"));
    const Tensor target = Tensor::from<i64>(batch.target_in, {batch.size, batch.target_length});
    const DecoderOutput out = run.model.decoder(tape, encoded, target, mode);
    const Tensor logits = run.model.decoder.logits(out.features).value();
    nn::RecurrentState state = encoded.state;
    double worst = 0;
    for (i64 t = 0; t < batch.target_length; ++t) {
      const DecoderStep step = run.model.decoder.step(encoded, target.select(1, t).contiguous(), state);
      state = step.state;
      for (i64 b = 0; b < batch.size; ++b)
        for (i64 v = 0; v < vocabulary.size(); ++v)
          worst = std::max(worst, std::fabs(step.logits.value().at({b, v}) - logits.at({b, t, v})));
    }
    CHECK(worst <= 1e-12);
    double sum = 0;
    for (std::size_t row = 0; row < pairs.size(); ++row) sum += run.model.negative_log_likelihood(make_batch(pairs, {row}));
    CHECK(std::fabs(run.model.negative_log_likelihood(batch) - sum) <= 1e-11);
  }
}

TEST_CASE("every cell and attention: greedy search scores its words as the model does, in any batch") {
  const std::vector<std::vector<std::string>> sentences{{"a", "b", "c"}, {"d"}, {"e", "d", "c", "b", "a"}, {"b", "b"}};
  for (const Settings& settings : variants()) {
    const std::string variant = name(settings);
    CAPTURE(variant);
    const Run run(settings, vocabulary, vocabulary);
    for (Parameter* parameter : run.block.parameters())
      if (parameter->name == "decoder.out.bias") {
        parameter->value.slice(0, Vocabulary::pad, Vocabulary::pad + 1).fill(-100);  // never a word
        parameter->value.slice(0, Vocabulary::end, Vocabulary::end + 1).fill(0.6);   // so that sentences end
      }
    const std::vector<Translation> together = Translator(run, {.batch = 4}).translate(sentences),
                                   alone = Translator(run, {.batch = 1}).translate(sentences);
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      CHECK(together[i].ids == alone[i].ids);
      if (together[i].cut_off) continue;
      EncodedPair pair{vocabulary.encode(sentences[i]), together[i].ids};
      pair.source.push_back(Vocabulary::end);
      CHECK(together[i].log_probability ==
            doctest::Approx(-run.model.negative_log_likelihood(make_batch({pair}, {0}))).epsilon(1e-12));
    }
  }
}

TEST_CASE("every cell and attention: the gradients of a single sentence of a single token are right") {
  GradcheckOptions fast;
  fast.directions = 2;
  for (const Settings& settings : variants()) {
    const std::string which = name(settings);
    CAPTURE(which);
    Seq2Seq model(settings, 8, settings.tie_embeddings == "all" ? 8 : 7);
    Generator generator(3);
    nn::ParameterBlock block(model, DType::f64, generator);
    for (const EncodedPair& pair : {EncodedPair{{3}, {}}, EncodedPair{{3}, {4}}}) {
      const Batch batch = make_batch({pair}, {0});
      const GradcheckFunction loss = [&](Tape& tape, const std::vector<Var>&) -> std::vector<Var> {
        nn::Mode mode = nn::Mode::evaluation();
        return {model.loss(tape, batch, mode, 0)};
      };
      const GradcheckReport report = gradcheck_function(loss, {}, block.parameters(), fast);
      CHECK_MESSAGE(report.ok(), to_string(report));
    }
  }
}

TEST_CASE("luong_dot needs a decoder as wide as the encoder's outputs") {
  Settings settings{.attention = "luong_dot", .hidden = 5, .decoder_hidden = 6};
  CHECK(message_of([&] { check_settings(settings); }) ==
        "attention is 'luong_dot', which multiplies the decoder's state of width 6 by the encoder's outputs of width 10: make "
        "them equal, or take luong_general");
  settings.decoder_hidden = 10;
  CHECK(message_of([&] { check_settings(settings); }) == "");
}

TEST_CASE("products of a step are counted by the cell's gates") {
  const Batch batch = make_batch(pairs, {0, 1, 2, 3, 4});
  const auto flops = [&](const char* cell, const char* attention) {
    Settings settings{
        .attention = attention, .cell = cell, .bridge = "none", .embedding = 4, .hidden = 5, .decoder_hidden = 10};
    return training_flops(settings, Run(settings, vocabulary, vocabulary), batch);
  };
  const double rnn = flops("rnn", "sdp"), gru = flops("gru", "sdp"), lstm = flops("lstm", "sdp");
  CHECK(gru - rnn > 0);
  CHECK(lstm - gru == doctest::Approx((gru - rnn) / 2));
  // Score and context of each pair of positions cost the same; W takes one product of C x D for each source position.
  double source = 0;
  for (const i64 length : batch.source_lengths) source += static_cast<double>(length);
  CHECK(flops("gru", "luong_general") - flops("gru", "luong_dot") == doctest::Approx(6 * source * 10 * 10));
}
