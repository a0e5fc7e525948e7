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

// y = x weight^T + bias, both sides rounded to bf16 where float32_matmul_precision() says `medium` when it is made.
class PackedLinear {
 public:
  PackedLinear() = default;
  PackedLinear(const Tensor& weight, const Tensor& bias);  // weight (out, in); bias (out) or undefined
  void operator()(const Tensor& x, const Tensor& y, bool accumulate = false) const;  // (rows, in), (rows, out)
  Tensor operator()(const Tensor& x) const;
  i64 out() const { return out_; }

 private:
  i64 in_ = 0, out_ = 0;
  bool bf16_ = false;
  Tensor packed_, bias_;
};

// What words alone give, W e + bias, a row for each: made when the word first comes, then looked up.
class WordTable {
 public:
  WordTable() = default;
  // largest: bytes; words beyond them are multiplied each time
  WordTable(const Tensor& embedding, const Tensor& weight, const Tensor& bias, i64 largest);
  Tensor operator()(const std::vector<i64>& words);  // (words, out)
  i64 out() const { return product_.out(); }

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
  // Sources are ids ending in </s>. What a step needs of its context is linear in it: W sum_p a_p v_p = sum_p a_p (W v_p). With
  // `shares` each position's W v_p is made here, for good, and otherwise W is multiplied at each step; the former for the kept
  // ones too, or for none. Errors: a source that is empty, an id outside the vocabulary.
  void encode(std::span<const Segment> kept, std::span<const std::vector<i64>> sources, bool shares);

  // Whether that pays for a sentence of this length of which so many hypotheses are followed: fewer products, but more memory
  // to go through at each step.
  bool shares_pay(i64 length, i64 hypotheses) const;
  i64 position_bytes(bool shares) const;  // of what is kept

  // Row i goes on from row from[i] of the last step or, where that is negative, starts sentence -1 - from[i] of the last
  // encode().
  void arrange(std::span<const i64> from);

  // One step of all rows: words[i] follows in row i, whose sentence stands at segments[i].
  struct Step {
    Tensor logits;   // (rows, V)
    Tensor weights;  // (rows, longest of the segments), a segment's length of each is set; undefined for attention none
  };
  Step step(const std::vector<i64>& words, std::span<const Segment> segments);

  i64 vocabulary() const { return vocabulary_; }

 private:
  struct Layer {
    WordTable words;      // the first layer's
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
  // W [context, embedding] + bias, of the gates and of the readout
  struct Input {
    WordTable words;
    PackedLinear context;
    Tensor shares;  // (N, out), each position's
  };
  // running[t]: how many sources are longer than t
  Tensor encode_layers(const std::vector<std::vector<i64>>& sorted, const std::vector<i64>& running);
  Tensor bridged(const PackedLinear& bridge, const Tensor& last) const;
  Tensor look(std::span<const Segment> segments, const Tensor& gates, const Tensor& read) const;

  nn::Cell cell_;
  nn::AttentionKind attention_;
  i64 hidden_, directions_, width_, context_, vocabulary_;  // H, directions, D, C, V
  std::vector<Layer> layers_;
  PackedLinear bridge_, bridge_cell_;
  Look look_;
  Tensor embedding_;
  Input gates_, readout_;  // the latter without words.out(): readout hidden
  PackedCell decoder_;
  PackedLinear from_state_;  // the state's part of the readout, or out itself
  PackedLinear out_;         // of tanh(readout), without out(): those are the logits

  bool shares_ = false;
  Tensor values_, keys_;  // (N, C), (N, K)
  Rows last_, first_;     // the encoder's last states (B, H x directions); the decoder's first
  Rows state_, next_;     // before and after a step
};

}  // namespace seqgrad::seq2seq
