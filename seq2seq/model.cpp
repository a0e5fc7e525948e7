#include "seq2seq/model.h"

#include <cmath>

#include "autograd/cases.h"
#include "kernels/philox.h"
#include "tensor/launch.h"

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

namespace {

nn::Cell cell_of(const Settings& settings) {
  if (settings.cell == "lstm") return nn::Cell::lstm;
  if (settings.cell == "rnn") return nn::Cell::rnn;
  return settings.gru_reset == "before" ? nn::Cell::gru_reset_before : nn::Cell::gru;
}

// Of initial embeddings. As the output layer's weights they are to give small logits, as embeddings alone they may be large.
double deviation(const Settings& settings, bool tied) {
  return tied ? 1 / std::sqrt(static_cast<double>(settings.embedding)) : 1;
}

}  // namespace

Encoder::Encoder(Module& parent, const std::string& name, const Settings& settings, i64 vocabulary)
    : Module(parent, name),
      embedding_(*this, "embedding", vocabulary, settings.embedding, Vocabulary::pad,
                 deviation(settings, settings.tie_embeddings == "all")),
      dropout_(settings.dropout),
      recurrent_(*this, nn::module_name(cell_of(settings)), cell_of(settings), settings.embedding, settings.hidden,
                 settings.layers, settings.bidirectional, settings.dropout) {
  if (settings.bridge != "tanh-linear") return;
  bridge_ = std::make_unique<nn::Linear>(*this, "bridge", settings.encoder_width(), settings.decoder_width());
  if (recurrent_.cell() == nn::Cell::lstm)
    bridge_cell_ = std::make_unique<nn::Linear>(*this, "bridge_cell", settings.encoder_width(), settings.decoder_width());
}

Encoded Encoder::operator()(Tape& tape, const Source& source, nn::Mode& mode) const {
  const Var embedded = dropout_(embedding_(tape, source.ids), mode);
  const nn::Recurrent::Output out = recurrent_(embedded, source.lengths, mode);
  const std::size_t directions = out.output.size(-1) == out.h_n.back().size(-1) ? 1 : 2;
  const auto bridged = [&](const std::vector<Var>& states, const std::unique_ptr<nn::Linear>& bridge) {
    // The last layer's final states, forward before reverse.
    const std::span<const Var> last(states.end() - static_cast<std::ptrdiff_t>(directions), directions);
    const Var state = directions == 1 ? last[0] : cat(last, -1);
    return bridge ? tanh((*bridge)(state)) : state;
  };
  return {out.output, {bridged(out.h_n, bridge_), out.c_n.empty() ? Var() : bridged(out.c_n, bridge_cell_)}, {}};
}

// ---- Decoder --------------------------------------------------------------------------------------------------------

Decoder::Decoder(Module& parent, const std::string& name, const Settings& settings, i64 vocabulary, Parameter* shared)
    : Module(parent, name),
      embedding_width_(settings.embedding),
      context_width_(settings.context_width()),
      deep_(settings.readout != "hidden"),
      embedding_(*this, "embedding", vocabulary, settings.embedding, Vocabulary::pad,
                 deviation(settings, settings.tie_embeddings != "none"), shared),
      dropout_(settings.dropout),
      attention_(nn::make_attention(*nn::attention_kind(settings.attention), *this, "attention", settings.decoder_width(),
                                    context_width_, settings.attention_width())),
      context_is_constant_(settings.attention == "none" || settings.attention == "mean"),
      recurrent_(*this, nn::module_name(cell_of(settings)), cell_of(settings), settings.embedding + context_width_,
                 settings.decoder_width()),
      readout_(settings.readout == "projected"
                   ? std::make_unique<nn::Linear>(*this, "readout", settings.feature_width(), settings.embedding)
                   : nullptr),
      out_(*this, "out", settings.readout_width(), vocabulary,
           settings.tie_embeddings == "none" ? nullptr : &embedding_.weight) {}

void Decoder::prepare(Encoded& encoded, const Tensor& mask) const {
  if (attention_) encoded.memory = attention_->prepare(encoded.outputs, mask);
}

Decoder::Weights Decoder::weights(Tape& tape) const {
  const RecurrentWeights cell = recurrent_.weights(tape);
  return {cell, slice(cell.weight_ih, 1, 0, embedding_width_),
          attention_ ? slice(cell.weight_ih, 1, embedding_width_, embedding_width_ + context_width_) : Var(),
          nn::input_bias(recurrent_.cell(), cell)};
}

Decoder::Advanced Decoder::advance(const Encoded& encoded, const Var& embedded_gates, const nn::RecurrentState& state,
                                   const Weights& w) const {
  Advanced result;
  Var gates = embedded_gates;
  if (attention_) {
    result.look = (*attention_)(state.h, encoded.memory);
    gates = linear(result.look.context, w.context, gates);
  }
  result.state = nn::step(recurrent_.cell(), gates, state, w.cell);
  return result;
}

Var Decoder::features(const Var& h, const Var& context, const Var& embedded) const {
  if (!deep_) return h;
  return context.defined() ? cat(std::vector{h, context, embedded}, -1) : cat(std::vector{h, embedded}, -1);
}

DecoderOutput Decoder::operator()(Tape& tape, const Encoded& encoded, const Tensor& target_in, nn::Mode& mode,
                                  double teacher_forcing) const {
  if (mode.training && teacher_forcing < 1) return with_own_words(tape, encoded, target_in, mode, teacher_forcing);
  const i64 batch = target_in.size(0), steps = target_in.size(1);
  const Var embedded = dropout_(embedding_(tape, target_in), mode);  // (B, T, E)
  const auto at_every_step = [&](const Var& x) { return expand(unsqueeze(x, 1), {batch, steps, x.size(1)}); };

  if (context_is_constant_) {
    Var context, looked, input = embedded;
    if (attention_) {
      context = at_every_step(encoded.memory.context);
      looked = at_every_step(encoded.memory.weights);
      input = cat(std::vector{embedded, context}, -1);
    }
    const RecurrentWeights w = recurrent_.weights(tape);
    return {features(nn::sequence(recurrent_.cell(), input, encoded.state, w, {}, false).output, context, embedded), looked};
  }

  // The embeddings' share of the gates for all steps in one product; the rest waits for each step's context.
  const Weights w = weights(tape);
  const Var gates = linear(embedded, w.embedding, w.bias);  // (B, T, G)
  std::vector<Var> states, contexts, looks;
  nn::RecurrentState state = encoded.state;
  for (i64 t = 0; t < steps; ++t) {
    const Advanced one = advance(encoded, select(gates, 1, t), state, w);
    state = one.state;
    states.push_back(state.h);
    contexts.push_back(one.look.context);
    looks.push_back(one.look.weights);
  }
  return {features(stack(states, 1), deep_ ? stack(contexts, 1) : Var(), embedded), stack(looks, 1)};
}

DecoderOutput Decoder::with_own_words(Tape& tape, const Encoded& encoded, const Tensor& target_in, nn::Mode& mode,
                                      double teacher_forcing) const {
  const i64 batch = target_in.size(0), steps = target_in.size(1);
  const u64 threshold = kernels::dropout_threshold(teacher_forcing), stream = mode.next_stream++;
  // Where word t of row b stays the reference's.
  const auto forced = [&](i64 b, i64 t) {
    const u64 index = static_cast<u64>(t * batch + b);
    return kernels::philox(mode.seed, stream, index / 4).word[index % 4] < threshold;
  };
  const Weights w = weights(tape);
  std::vector<Var> embeddings, states, contexts, looks;
  nn::RecurrentState state = encoded.state;
  std::vector<i64> words = target_in.select(1, 0).to_vector<i64>();
  for (i64 t = 0; t < steps; ++t) {
    const Var embedded = dropout_(embedding_(tape, Tensor::from<i64>(words, {batch})), mode);  // (B, E)
    const Advanced one = advance(encoded, linear(embedded, w.embedding, w.bias), state, w);
    state = one.state;
    embeddings.push_back(embedded);
    states.push_back(state.h);
    contexts.push_back(one.look.context);
    looks.push_back(one.look.weights);
    if (t + 1 == steps) break;
    words = target_in.select(1, t + 1).to_vector<i64>();
    std::vector<i64> rows;
    for (i64 b = 0; b < batch; ++b)
      if (words[static_cast<std::size_t>(b)] != Vocabulary::pad && !forced(b, t + 1)) rows.push_back(b);
    const std::vector<i64> own = best_words(one, embedded, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) words[static_cast<std::size_t>(rows[i])] = own[i];
  }
  const bool looked = attention_ != nullptr;
  return {features(stack(states, 1), looked && deep_ ? stack(contexts, 1) : Var(), stack(embeddings, 1)),
          looked ? stack(looks, 1) : Var()};
}

// The most probable next words of some rows; nothing stays on the tape.
std::vector<i64> Decoder::best_words(const Advanced& one, const Var& embedded, const std::vector<i64>& rows) const {
  if (rows.empty()) return {};
  NoGrad values_only;
  Tape& tape = embedded.tape();
  const std::size_t mark = tape.size();
  const i64 count = static_cast<i64>(rows.size());
  const Var read = features(one.state.h, one.look.context, embedded);
  const Tensor logits = this->logits(seqgrad::embedding(read, Tensor::from<i64>(rows, {count}))).value();
  const Tensor best({count}, logits.dtype(), logits.device()), index({count}, DType::i64, logits.device());
  launch(kernels::max_reduce, logits, best, index, count, logits.size(1), i64{1});
  tape.rewind(mark);
  return index.to_vector<i64>();
}

DecoderStep Decoder::step(const Encoded& encoded, const Tensor& words, const nn::RecurrentState& state) const {
  Tape& tape = state.h.tape();
  const Var embedded = embedding_(tape, words);  // (B, E)
  const Weights w = weights(tape);
  const Advanced one = advance(encoded, linear(embedded, w.embedding, w.bias), state, w);
  return {logits(features(one.state.h, one.look.context, embedded)), one.state, one.look.weights};
}

Var Decoder::loss(const Var& rows, const Tensor& target, const CrossEntropyOptions& options) const {
  Tape& tape = rows.tape();
  return linear_cross_entropy(rows, tape.parameter(out_.weight), tape.parameter(out_.bias), target, options);
}

// ---- Seq2Seq --------------------------------------------------------------------------------------------------------

Seq2Seq::Seq2Seq(const Settings& settings, i64 source_vocabulary, i64 target_vocabulary)
    : encoder(*this, "encoder", settings, source_vocabulary),
      decoder(*this, "decoder", settings, target_vocabulary, settings.tie_embeddings == "all" ? &encoder.embedding() : nullptr),
      output_dropout_(settings.output_dropout) {
  if (settings.tie_embeddings == "all" && source_vocabulary != target_vocabulary)
    throw_error("tie-embeddings is 'all', but the source has {} words and the target {}: they need one vocabulary",
                source_vocabulary, target_vocabulary);
  parameters();  // gives every parameter its full name
}

Encoded Seq2Seq::encode(Tape& tape, const Source& source, nn::Mode& mode) const {
  Encoded encoded = encoder(tape, source, mode);
  decoder.prepare(encoded, source.mask);
  return encoded;
}

Var Seq2Seq::total_loss(Tape& tape, const Batch& batch, nn::Mode& mode, const CrossEntropyOptions& options,
                        double teacher_forcing) const {
  const Encoded encoded = encode(tape, Source::from(batch), mode);
  const Tensor target_in = Tensor::from<i64>(batch.target_in, {batch.size, batch.target_length});
  const Var features = decoder(tape, encoded, target_in, mode, teacher_forcing).features;

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
  rows = output_dropout_(decoder.readout(rows), mode);
  return decoder.loss(rows, Tensor::from<i64>(target, {count}), options);
}

Var Seq2Seq::loss(Tape& tape, const Batch& batch, nn::Mode& mode, double label_smoothing, double teacher_forcing) const {
  return total_loss(tape, batch, mode, {.ignore_index = Vocabulary::pad, .label_smoothing = label_smoothing}, teacher_forcing);
}

double Seq2Seq::negative_log_likelihood(const Batch& batch) const {
  NoGrad values_only;
  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  return total_loss(tape, batch, mode, {.ignore_index = Vocabulary::pad, .reduction = Reduction::sum}, 1).value().item();
}

}  // namespace seqgrad::seq2seq

namespace seqgrad {

SEQGRAD_CASES(seq2seq_models) {
  using namespace seq2seq;
  // Whole models on a batch with padding on both sides, dropout on: every parameter, encoder to loss.
  struct Owned {
    Owned(const Settings& settings)
        : model(settings, 8, settings.tie_embeddings == "all" ? 8 : 7), generator(3), block(model, DType::f64, generator) {}
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
                            return owned->model.loss(tape, batch, mode, 0.1, settings.teacher_forcing);
                          },
                          {});
    one.parameters = owned->model.parameters();
    one.owner = owned;
  };
  for (const char* cell : {"gru", "gru reset before", "lstm", "rnn"})
    for (const char* attention : {"none", "mean", "sdp", "bahdanau", "luong_dot", "luong_general"}) {
      Settings settings{.attention = attention, .embedding = 3, .hidden = 4, .decoder_hidden = 5, .attention_dim = 3};
      settings.dropout = 0.3;
      settings.cell = std::string(cell).substr(0, std::string_view(cell).find(' '));
      if (cell != settings.cell) settings.gru_reset = "before";
      if (settings.attention == "luong_dot") settings.decoder_hidden = settings.encoder_width();
      const std::string name =
          fmt::format("model/{}{}", settings.cell == cell && settings.cell == "gru" ? "" : cell + std::string(" "), attention);
      add(name, settings);
      settings.readout = "hidden";
      settings.bidirectional = false;
      settings.bridge = "none";
      settings.decoder_hidden = settings.hidden;
      settings.layers = 2;
      add(name + " unidirectional", settings);
    }
  Settings settings{
      .attention = "sdp", .embedding = 3, .hidden = 3, .attention_dim = 2, .dropout = 0.3, .teacher_forcing = 0.3};
  add("model/scheduled sampling", settings);
  settings.readout = "projected";
  settings.output_dropout = 0.2;
  settings.embedding = 5;  // with 4 the decoder's own word is once <pad>, whose embedding gets no gradient
  add("model/projected readout, scheduled sampling", settings);
  settings.teacher_forcing = 1;
  for (const char* attention : {"none", "mean", "bahdanau"}) {
    settings.attention = attention;
    add(fmt::format("model/{}, projected readout", attention), settings);
    settings.tie_embeddings = "decoder";
    add(fmt::format("model/{}, tied decoder", attention), settings);
    settings.tie_embeddings = "all";
    settings.shared_vocabulary = true;
    add(fmt::format("model/{}, all tied", attention), settings);
    settings.tie_embeddings = "none";
  }
  settings.readout = "hidden";
  settings.tie_embeddings = "decoder";
  settings.embedding = settings.hidden;
  add("model/hidden readout, tied decoder", settings);
}

}  // namespace seqgrad
