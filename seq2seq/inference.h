// A model laid out for translating: its weights packed once, sentences without padding, all rows a step at a time, nothing
// recorded. The equations are Encoder's and Decoder's (model.h), whose numbers these are up to rounding. Every row has the same
// bits whatever other rows there are: a translation depends neither on its batch nor on its place in it.
// Belongs to one thread at a time. Shapes as in model.h; N counts the positions of all sentences together.
#pragma once

#include <span>
#include <vector>

#include "nn/attention.h"
#include "seq2seq/run.h"

namespace seqgrad::seq2seq {

// y = x weight^T + bias
class PackedLinear {
 public:
  PackedLinear() = default;
  PackedLinear(const Tensor& weight, const Tensor& bias);  // weight (out, in); bias (out) or undefined
  void operator()(const Tensor& x, const Tensor& y, bool accumulate = false) const;  // (rows, in), (rows, out)
  Tensor operator()(const Tensor& x) const;
  i64 out() const { return out_; }

 private:
  i64 in_ = 0, out_ = 0;
  Tensor packed_, bias_;
};

// The embeddings' share of the gates, W e + bias, a row for each word: made when the word first comes, then looked up.
class GateTable {
 public:
  GateTable() = default;
  // largest: bytes; words beyond them are multiplied each time
  GateTable(const Tensor& embedding, const Tensor& weight, const Tensor& bias, i64 largest = i64{256} << 20);
  Tensor operator()(const std::vector<i64>& words);  // (words, G)

 private:
  bool reserve(i64 rows);

  Tensor embedding_, table_;
  PackedLinear product_;
  std::vector<i64> places_;  // each word's row in the table, or -1
  i64 count_ = 0;            // rows that are there
  i64 most_ = 0;             // and that may be
};

// A recurrent cell after its input's share of the gates.
class PackedCell {
 public:
  PackedCell() = default;
  PackedCell(nn::Cell cell, const Tensor& weight_hh, const Tensor& bias_hh);
  // gates (rows, G), which are overwritten; h, c -> h_next, c_next (rows, H), which may be h and c; y (rows, H), if defined,
  // gets h_next too.
  void step(const Tensor& gates, const Tensor& h, const Tensor& c, const Tensor& h_next, const Tensor& c_next,
            const Tensor& y) const;

 private:
  nn::Cell cell_ = nn::Cell::gru;
  PackedLinear hidden_, candidate_;  // the latter of a GRU that resets before its product
};

// Where the positions of a sentence begin, and how many they are.
struct Segment {
  i64 first = 0, length = 0;
};

class Inference {
 public:
  explicit Inference(const Run& run);  // later changes of the run's weights are not seen

  // Keeps the positions of `kept`, which move together in this order, and encodes `sources` behind them, in their order.
  // Sources are ids ending in </s>. Errors: a source that is empty, an id outside the vocabulary.
  void encode(std::span<const Segment> kept, std::span<const std::vector<i64>> sources);

  // Row i goes on from row from[i] of the last step or, where that is negative, starts sentence -1 - from[i] of the last
  // encode().
  void arrange(std::span<const i64> from);

  // One step of all rows: words[i] follows in row i, whose sentence stands at segments[i].
  struct Step {
    Tensor logits;   // (rows, V)
    Tensor weights;  // (rows, longest of the segments), a segment's length of each is set; undefined for attention none
  };
  Step step(const std::vector<i64>& words, std::span<const Segment> segments);

  i64 vocabulary() const { return out_.out(); }

 private:
  struct Layer {
    GateTable words;      // the first layer's
    PackedLinear inputs;  // the others'
    std::vector<PackedCell> directions;
  };
  struct Rows {
    Tensor h, c;  // (B, D)
  };
  struct Look {
    PackedLinear query, key;  // without out(): the state itself, the values themselves
    Tensor v;                 // bahdanau's Va
    double scale = 1;
  };
  // running[t]: how many sources are longer than t
  Tensor encode_layers(const std::vector<std::vector<i64>>& sorted, const std::vector<i64>& running);
  Tensor bridged(const PackedLinear& bridge, const Tensor& last) const;

  nn::Cell cell_;
  nn::AttentionKind attention_;
  i64 hidden_, directions_, width_, context_, embedding_width_;  // H, directions, D, C, E
  bool deep_;  // features are state, context and embedding, not the state alone
  std::vector<Layer> layers_;
  PackedLinear bridge_, bridge_cell_;
  Look look_;
  Tensor embedding_;
  GateTable words_;
  PackedLinear from_context_, readout_, out_;  // without readout_.out(): the features themselves
  PackedCell decoder_;

  Tensor values_, keys_;  // (N, C), (N, K)
  Rows last_, first_;     // the encoder's last states (B, H x directions); the decoder's first
  Rows state_, next_;     // before and after a step
};

}  // namespace seqgrad::seq2seq
