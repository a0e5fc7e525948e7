// Recurrent layers with PyTorch's parameters: weight_ih_l{k} (G, I), weight_hh_l{k} (G, H), bias_ih_l{k}, bias_hh_l{k} (G), and
// the same with "_reverse"; all uniform within 1 / sqrt(H). G is H times the number of the cell's gates. See module.h for
// threads.
#pragma once

#include "nn/layers.h"

namespace seqgrad::nn {

// The equations stand in autograd/ops/gru.cpp, lstm.cpp and rnn.cpp. gru_reset_before is the GRU of Cho et al. 2014, whose
// reset gate acts before the matrix product, for weights made elsewhere: n = tanh(W_in x + b_in + W_hn (r h) + b_hn).
enum class Cell { gru, gru_reset_before, lstm, rnn };
const char* module_name(Cell cell);  // PyTorch's: gru, gru, lstm, rnn
i64 gate_count(Cell cell);           // 3, 3, 4, 1

struct RecurrentState {
  Var h;       // (B, H)
  Var c = {};  // (B, H), an LSTM's; undefined for other cells

  // What a search keeps while its tape is rewound: h, and c where there is one.
  std::vector<Tensor> values() const;
  static RecurrentState constants(Tape& tape, const std::vector<Tensor>& values);
};

// ---- one step ----------------------------------------------------------------------------------------------------------

// As the equations read, composed of primitive operations: what the fused operations are tested against. x (B, I).
RecurrentState composed_step(Cell cell, const Var& x, const RecurrentState& state, const RecurrentWeights& weights);

// The same in two parts. gates = W_ih x + input_bias (B, G) is the caller's, who may compute it for many steps at once.
Var input_bias(Cell cell, const RecurrentWeights& weights);
RecurrentState step(Cell cell, const Var& gates, const RecurrentState& state, const RecurrentWeights& weights);

// ---- a padded sequence in one direction --------------------------------------------------------------------------------

// x (B, S, I); an undefined initial state is zero; lengths i64 (B) or undefined for full rows. One fused operation for the
// cells that have one, otherwise step by step.
RecurrentOutput sequence(Cell cell, const Var& x, const RecurrentState& initial, const RecurrentWeights& weights,
                         const Tensor& lengths, bool reverse);

// ---- layers ------------------------------------------------------------------------------------------------------------

class Recurrent : public Module {
 public:
  Recurrent(Module& parent, const std::string& name, Cell cell, i64 input, i64 hidden, i64 layers = 1,
            bool bidirectional = false, double dropout = 0);

  struct Output {
    Var output;                 // (B, S, H x directions): the last layer's
    std::vector<Var> h_n;       // (B, H) for each layer and direction, layer by layer, forward before reverse
    std::vector<Var> c_n = {};  // the same for an LSTM's cell states
  };
  // x (B, S, I), lengths i64 (B) or undefined. Initial states are zero. Dropout acts between layers.
  Output operator()(const Var& x, const Tensor& lengths, Mode& mode) const;

  Cell cell() const { return cell_; }
  RecurrentWeights weights(Tape& tape, i64 layer = 0, bool reverse = false) const;

 private:
  struct Direction {
    Parameter &weight_ih, &weight_hh, &bias_ih, &bias_hh;
  };

  Cell cell_;
  i64 layers_, directions_;
  Dropout dropout_;
  std::vector<Direction> all_;
};

// By PyTorch's names.
struct GRU : Recurrent {
  GRU(Module& parent, const std::string& name, i64 input, i64 hidden, i64 layers = 1, bool bidirectional = false,
      double dropout = 0)
      : Recurrent(parent, name, Cell::gru, input, hidden, layers, bidirectional, dropout) {}
};
struct LSTM : Recurrent {
  LSTM(Module& parent, const std::string& name, i64 input, i64 hidden, i64 layers = 1, bool bidirectional = false,
       double dropout = 0)
      : Recurrent(parent, name, Cell::lstm, input, hidden, layers, bidirectional, dropout) {}
};
struct RNN : Recurrent {
  RNN(Module& parent, const std::string& name, i64 input, i64 hidden, i64 layers = 1, bool bidirectional = false,
      double dropout = 0)
      : Recurrent(parent, name, Cell::rnn, input, hidden, layers, bidirectional, dropout) {}
};

}  // namespace seqgrad::nn
