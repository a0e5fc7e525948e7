// The translator: a recurrent encoder, attention, a recurrent decoder. Names of parameters follow PyTorch's modules.
// Shapes: B batch, S source length, T target length, E embedding, H encoder hidden, C = H x directions, D decoder hidden,
// V target vocabulary. A model belongs to one thread at a time.
//
// With h' the state after a step, c the context and e the embedding of the word before, the decoder's readout makes of its
// features
//   hidden      r = h'                                   logits = W_out r + b_out
//   deep        r = [h'; c; e]                           likewise
//   projected   r = tanh(W_s h' + W_c c + W_e e + b)     likewise, r of width E (Bahdanau et al. 2015, A.2.2, with tanh in
//                                                        place of maxout; Sennrich et al. 2017, Nematus)
// where [W_s W_c W_e] is decoder.readout.weight (E, D + C + E), b its bias, and attention none has no c. Dropout on what the
// output layer sees acts on r.
//
// Tied embeddings (Press, Wolf 2017): W_out is the target's embedding matrix, so r must be E wide; with `all` the source's
// embedding matrix is the same one too. A tied matrix has one name, that of the first place it stands in: encoder.embedding,
// decoder.embedding, decoder.out. It starts normal with deviation 1 / sqrt(E) rather than 1, so that logits start small. Row 0,
// padding's, gets no gradient as an embedding, but does as a row of W_out, in the softmax's sum.
#pragma once

#include <memory>
#include <vector>

#include "nn/attention.h"
#include "nn/recurrent.h"
#include "seq2seq/corpus.h"
#include "seq2seq/settings.h"

namespace seqgrad::seq2seq {

// Padded source sentences. Made from a Batch, or from ids and lengths.
struct Source {
  Tensor ids;      // i64 (B, S), 0 = padding
  Tensor lengths;  // i64 (B), with </s>
  Tensor mask;     // bool (B, S), true = real

  static Source from(const Batch& batch);
  // Error: a length outside 1..S, naming the row.
  static Source from(const Tensor& ids, const Tensor& lengths);
};

struct Encoded {
  Var outputs;                 // (B, S, C), 0 on padding
  nn::RecurrentState state;    // (B, D), the decoder's first
  nn::AttentionMemory memory;  // what the attention needs of the source; empty for attention none
};

class Encoder : public nn::Module {
 public:
  Encoder(Module& parent, const std::string& name, const Settings& settings, i64 vocabulary);
  Encoded operator()(Tape& tape, const Source& source, nn::Mode& mode) const;
  Parameter& embedding() { return embedding_.weight; }

 private:
  nn::Embedding embedding_;
  nn::Dropout dropout_;
  nn::Recurrent recurrent_;
  std::unique_ptr<nn::Linear> bridge_, bridge_cell_;  // absent: the state is copied
};

struct DecoderStep {
  Var logits;                // (B, V)
  nn::RecurrentState state;  // (B, D)
  Var weights;               // (B, S); undefined for attention none
};

struct DecoderOutput {
  Var features;  // (B, T, F), what the readout reads
  Var weights;   // (B, T, S); undefined for attention none
};

class Decoder : public nn::Module {
 public:
  // shared: the source's embedding matrix, if it is to be the target's too
  Decoder(Module& parent, const std::string& name, const Settings& settings, i64 vocabulary, Parameter* shared = nullptr);

  void prepare(Encoded& encoded, const Tensor& mask) const;
  // All steps of a known target, target_in i64 (B, T). With teacher_forcing below 1, and in training only, each word after the
  // first is with probability 1 - teacher_forcing the one that the decoder itself found most probable at the step before
  // (scheduled sampling, Bengio et al. 2015); the choices follow from the mode's seed and stream. Padding stays.
  DecoderOutput operator()(Tape& tape, const Encoded& encoded, const Tensor& target_in, nn::Mode& mode,
                           double teacher_forcing = 1) const;
  // One step from words i64 (B) and state (B, D).
  DecoderStep step(const Encoded& encoded, const Tensor& words, const nn::RecurrentState& state) const;

  Var readout(const Var& features) const { return readout_ ? tanh((*readout_)(features)) : features; }  // (..., F) -> (..., R)
  Var logits(const Var& features) const { return out_(readout(features)); }                             // (..., F) -> (..., V)
  // Mean cross-entropy of rows of readouts (N, R) against i64 targets (N).
  Var loss(const Var& readouts, const Tensor& target, const CrossEntropyOptions& options) const;

 private:
  // W_ih in two parts, so that the embeddings' share of the gates is one product for all steps.
  struct Weights {
    RecurrentWeights cell;
    Var embedding, context;  // (G, E), (G, C)
    Var bias;                // (G)
  };
  struct Advanced {
    nn::RecurrentState state;
    nn::AttentionOutput look;  // empty for attention none
  };
  Weights weights(Tape& tape) const;
  // One step: the look at the source from the state before, then the cell. embedded_gates (B, G).
  Advanced advance(const Encoded& encoded, const Var& embedded_gates, const nn::RecurrentState& state, const Weights& w) const;
  DecoderOutput with_own_words(Tape& tape, const Encoded& encoded, const Tensor& target_in, nn::Mode& mode,
                               double teacher_forcing) const;
  std::vector<i64> best_words(const Advanced& one, const Var& embedded, const std::vector<i64>& rows) const;
  Var features(const Var& h, const Var& context, const Var& embedded) const;

  i64 embedding_width_, context_width_;
  bool deep_;  // features are state, context and embedding, not the state alone
  nn::Embedding embedding_;
  nn::Dropout dropout_;
  std::unique_ptr<nn::Attention> attention_;
  bool context_is_constant_;  // none and mean: no step needs the state before it, so the steps are one fused sequence
  nn::Recurrent recurrent_;
  std::unique_ptr<nn::Linear> readout_;  // absent: the output layer reads the features
  nn::Linear out_;
};

class Seq2Seq : public nn::Module {
 public:
  Seq2Seq(const Settings& settings, i64 source_vocabulary, i64 target_vocabulary);

  Encoded encode(Tape& tape, const Source& source, nn::Mode& mode) const;
  // Mean loss over the target tokens that are not padding. teacher_forcing: see Decoder.
  Var loss(Tape& tape, const Batch& batch, nn::Mode& mode, double label_smoothing, double teacher_forcing = 1) const;
  // Sum of the negative log-likelihoods of the batch's target tokens: teacher-forced, dropout off, nothing recorded.
  double negative_log_likelihood(const Batch& batch) const;

  Encoder encoder;
  Decoder decoder;

 private:
  Var total_loss(Tape& tape, const Batch& batch, nn::Mode& mode, const CrossEntropyOptions& options,
                 double teacher_forcing) const;

  nn::Dropout output_dropout_;
};

}  // namespace seqgrad::seq2seq
