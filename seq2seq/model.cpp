#include "seq2seq/model.h"

#include "autograd/cases.h"

namespace seqgrad::seq2seq {

// ---- Source ---------------------------------------------------------------------------------------------------------

Source Source::from(const Batch& batch) {
  return from(Tensor::from<i64>(batch.source, {batch.size, batch.source_length}),
              Tensor::from<i64>(batch.source_lengths, {batch.size}));
}

Source Source::from(const Tensor& ids, const Tensor& lengths) {
  if (ids.dim() != 2 || ids.dtype() != DType::i64 || lengths.dtype() != DType::i64 || !(lengths.shape() == Dims{ids.size(0)}))
    throw_error("source ids {} {} and lengths {} {} should be i64 (B, S) and i64 (B)", name_of(ids.dtype()), ids.shape(),
                name_of(lengths.dtype()), lengths.shape());
  const i64 batch = ids.size(0), length = ids.size(1);
  Source source{ids, lengths, Tensor({batch, length}, DType::boolean)};
  const std::vector<i64> real = lengths.to_vector<i64>();
  bool* mask = source.mask.mutable_data<bool>();
  for (i64 b = 0; b < batch; ++b) {
    const i64 n = real[static_cast<std::size_t>(b)];
    if (n < 1 || n > length) throw_error("source row {} has length {}: it must be 1..{}", b, n, length);
    for (i64 s = 0; s < length; ++s) mask[b * length + s] = s < n;
  }
  return source;
}

// ---- Encoder --------------------------------------------------------------------------------------------------------

Encoder::Encoder(Module& parent, const std::string& name, const Settings& settings, i64 vocabulary)
    : Module(parent, name),
      embedding_(*this, "embedding", vocabulary, settings.embedding, Vocabulary::pad),
      dropout_(settings.dropout),
      gru_(*this, "gru", settings.embedding, settings.hidden, settings.layers, settings.bidirectional, settings.dropout) {
  if (settings.bridge == "tanh-linear")
    bridge_ = std::make_unique<nn::Linear>(*this, "bridge", settings.hidden * (settings.bidirectional ? 2 : 1),
                                           settings.decoder_width());
}

Encoded Encoder::operator()(Tape& tape, const Source& source, nn::Mode& mode) const {
  const Var embedded = dropout_(embedding_(tape, source.ids), mode);
  const nn::GRU::Output out = gru_(embedded, source.lengths, mode);
  // The last layer's final states, forward before reverse.
  const std::size_t directions = out.output.size(-1) == out.h_n.back().size(-1) ? 1 : 2;
  const std::span<const Var> last(out.h_n.end() - static_cast<std::ptrdiff_t>(directions), directions);
  const Var state = directions == 1 ? last[0] : cat(last, -1);
  return {out.output, bridge_ ? tanh((*bridge_)(state)) : state, {}};
}

// ---- Decoder --------------------------------------------------------------------------------------------------------

namespace {

i64 context_width(const Settings& settings) {
  return settings.attention == "none" ? 0 : settings.hidden * (settings.bidirectional ? 2 : 1);
}

i64 readout_width(const Settings& settings) {
  return settings.decoder_width() + (settings.readout == "deep" ? context_width(settings) + settings.embedding : 0);
}

}  // namespace

Decoder::Decoder(Module& parent, const std::string& name, const Settings& settings, i64 vocabulary)
    : Module(parent, name),
      embedding_width_(settings.embedding),
      context_width_(context_width(settings)),
      deep_(settings.readout == "deep"),
      embedding_(*this, "embedding", vocabulary, settings.embedding, Vocabulary::pad),
      dropout_(settings.dropout),
      attention_(nn::make_attention(*nn::attention_kind(settings.attention), *this, "attention", settings.decoder_width(),
                                    context_width_, settings.attention_width())),
      context_is_constant_(settings.attention == "none" || settings.attention == "mean"),
      gru_(*this, "gru", settings.embedding + context_width_, settings.decoder_width()),
      out_(*this, "out", readout_width(settings), vocabulary) {}

void Decoder::prepare(Encoded& encoded, const Tensor& mask) const {
  if (attention_) encoded.memory = attention_->prepare(encoded.outputs, mask);
}

Var Decoder::input_gates(const Var& embedded) const {
  const RecurrentWeights w = gru_.weights(embedded.tape());
  return linear(embedded, slice(w.weight_ih, 1, 0, embedding_width_), w.bias_ih);
}

Var Decoder::context_weights(Tape& tape) const {
  return slice(gru_.weights(tape).weight_ih, 1, embedding_width_, embedding_width_ + context_width_);
}

Var Decoder::features(const Var& h, const Var& context, const Var& embedded) const {
  if (!deep_) return h;
  return context.defined() ? cat(std::vector{h, context, embedded}, -1) : cat(std::vector{h, embedded}, -1);
}

DecoderOutput Decoder::operator()(Tape& tape, const Encoded& encoded, const Tensor& target_in, nn::Mode& mode) const {
  const i64 batch = target_in.size(0), steps = target_in.size(1);
  const Var embedded = dropout_(embedding_(tape, target_in), mode);  // (B, T, E)
  const RecurrentWeights w = gru_.weights(tape);
  const auto at_every_step = [&](const Var& x) { return expand(unsqueeze(x, 1), {batch, steps, x.size(1)}); };

  if (context_is_constant_) {
    Var context, weights, input = embedded;
    if (attention_) {
      context = at_every_step(encoded.memory.context);
      weights = at_every_step(encoded.memory.weights);
      input = cat(std::vector{embedded, context}, -1);
    }
    return {features(gru(input, encoded.state, w, {}, false).output, context, embedded), weights};
  }

  // The embeddings' share of the gates for all steps in one product; the rest waits for each step's context.
  const Var gates = input_gates(embedded);  // (B, T, 3D)
  const Var w_context = context_weights(tape);
  std::vector<Var> states, contexts, weights;
  Var h = encoded.state;
  for (i64 t = 0; t < steps; ++t) {
    const nn::AttentionOutput look = (*attention_)(h, encoded.memory);
    h = nn::gru_cell(linear(look.context, w_context, select(gates, 1, t)), h, w);
    states.push_back(h);
    contexts.push_back(look.context);
    weights.push_back(look.weights);
  }
  return {features(stack(states, 1), deep_ ? stack(contexts, 1) : Var(), embedded), stack(weights, 1)};
}

DecoderStep Decoder::step(const Encoded& encoded, const Tensor& words, const Var& state) const {
  Tape& tape = state.tape();
  const Var embedded = embedding_(tape, words);  // (B, E)
  nn::AttentionOutput look;
  Var gates = input_gates(embedded);
  if (attention_) {
    look = (*attention_)(state, encoded.memory);
    gates = linear(look.context, context_weights(tape), gates);
  }
  const Var h = nn::gru_cell(gates, state, gru_.weights(tape));
  return {out_(features(h, look.context, embedded)), h, look.weights};
}

Var Decoder::loss(const Var& rows, const Tensor& target, const CrossEntropyOptions& options) const {
  Tape& tape = rows.tape();
  return linear_cross_entropy(rows, tape.parameter(out_.weight), tape.parameter(out_.bias), target, options);
}

// ---- Seq2Seq --------------------------------------------------------------------------------------------------------

Seq2Seq::Seq2Seq(const Settings& settings, i64 source_vocabulary, i64 target_vocabulary)
    : encoder(*this, "encoder", settings, source_vocabulary), decoder(*this, "decoder", settings, target_vocabulary) {
  parameters();  // gives every parameter its full name
}

Encoded Seq2Seq::encode(Tape& tape, const Source& source, nn::Mode& mode) const {
  Encoded encoded = encoder(tape, source, mode);
  decoder.prepare(encoded, source.mask);
  return encoded;
}

Var Seq2Seq::total_loss(Tape& tape, const Batch& batch, nn::Mode& mode, const CrossEntropyOptions& options) const {
  const Encoded encoded = encode(tape, Source::from(batch), mode);
  const Tensor target_in = Tensor::from<i64>(batch.target_in, {batch.size, batch.target_length});
  const Var features = decoder(tape, encoded, target_in, mode).features;

  // The output layer sees real tokens only: two thirds of all work is there, and padding would be a good part of it.
  std::vector<i64> real, target;
  for (std::size_t i = 0; i < batch.target_out.size(); ++i)
    if (batch.target_out[i] != Vocabulary::pad) {
      real.push_back(static_cast<i64>(i));
      target.push_back(batch.target_out[i]);
    }
  const i64 count = static_cast<i64>(real.size());
  Var rows = reshape(features, {-1, features.size(-1)});
  if (count != rows.size(0)) rows = embedding(rows, Tensor::from<i64>(real, {count}));
  return decoder.loss(rows, Tensor::from<i64>(target, {count}), options);
}

Var Seq2Seq::loss(Tape& tape, const Batch& batch, nn::Mode& mode, double label_smoothing) const {
  return total_loss(tape, batch, mode, {.ignore_index = Vocabulary::pad, .label_smoothing = label_smoothing});
}

double Seq2Seq::negative_log_likelihood(const Batch& batch) const {
  NoGrad values_only;
  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  return total_loss(tape, batch, mode, {.ignore_index = Vocabulary::pad, .reduction = Reduction::sum}).value().item();
}

}  // namespace seqgrad::seq2seq

namespace seqgrad {

SEQGRAD_CASES(seq2seq_models) {
  using namespace seq2seq;
  // Whole models on a batch with padding on both sides, dropout on: every parameter, encoder to loss.
  struct Owned {
    Owned(const Settings& settings) : model(settings, 8, 7), generator(3), block(model, DType::f64, generator) {}
    Seq2Seq model;
    Generator generator;
    nn::ParameterBlock block;
  };
  const Batch batch = make_batch({{{4, 5, 6, 3}, {4, 5}}, {{7, 3}, {6, 4, 5}}, {{3}, {}}}, {0, 1, 2});
  const auto add = [&](const std::string& name, const Settings& settings) {
    const auto owned = std::make_shared<Owned>(settings);
    Case& one = cases.add(name,
                          [=](Tape& tape, const std::vector<Var>&) {
                            nn::Mode mode = nn::Mode::training_step(5, 1);
                            return owned->model.loss(tape, batch, mode, 0.1);
                          },
                          {});
    one.parameters = owned->model.parameters();
    one.owner = owned;
  };
  for (const char* attention : {"none", "mean", "sdp", "bahdanau"}) {
    Settings settings{
        .attention = attention, .embedding = 3, .hidden = 4, .decoder_hidden = 5, .attention_dim = 3, .dropout = 0.3};
    add(fmt::format("model/{}", attention), settings);
    settings.readout = "hidden";
    settings.bidirectional = false;
    settings.bridge = "none";
    settings.decoder_hidden = settings.hidden;
    settings.layers = 2;
    add(fmt::format("model/{} unidirectional", attention), settings);
  }
}

}  // namespace seqgrad
