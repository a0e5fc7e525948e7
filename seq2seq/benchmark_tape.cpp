#include "seq2seq/benchmark_tape.h"

#include "autograd/ops.h"
#include "seq2seq/timing.h"

namespace seqgrad::seq2seq {
namespace {

Var alternating(const Var& x, i64 nodes) {
  Var y = x;
  for (i64 i = 0; i < nodes; ++i) y = i % 2 ? y * x : y + x;
  return y;
}

Var mixed(const Var& x, i64 nodes) {
  Var y = x;
  for (i64 i = 0; i < nodes; i += 8) {
    y = tanh(y + x);
    y = select(unsqueeze(y * x, 0), 0, 0);
    y = 0.5 * sigmoid(y - x);
  }
  return y;
}

}  // namespace

TapeBenchmark bench_tape(TapeChain chain, i64 nodes, int repetitions) {
  if (nodes < 1 || repetitions < 1)
    throw_error("[bench_tape] {} nodes, {} repetitions: there is nothing to time", nodes, repetitions);
  Tape tape;
  const Tensor half = full({1}, 0.5);
  TapeBenchmark best;
  for (int i = 0; i < repetitions + 1; ++i) {
    tape.clear();
    const Var x = tape.leaf(half);
    const auto start = Clock::now();
    const Var y = chain == TapeChain::alternating ? alternating(x, nodes) : mixed(x, nodes);
    const auto middle = Clock::now();
    tape.backward(y);
    const auto end = Clock::now();
    best.nodes = static_cast<i64>(tape.size()) - 1;
    const auto each = [&](auto time) {
      return std::chrono::duration<double, std::micro>(time).count() / static_cast<double>(best.nodes);
    };
    if (i < 2 || each(end - start) < best.forward_us + best.backward_us) {
      best.forward_us = each(middle - start);
      best.backward_us = each(end - middle);
    }
  }
  best.nodes_per_second = 1e6 / (best.forward_us + best.backward_us);
  return best;
}

}  // namespace seqgrad::seq2seq
