// What an operation costs when it computes next to nothing: allocating the result, recording, and running backward. It is the
// price of a graph of small operations, such as a greedy decoder's or a small model's training step.
#pragma once

#include "kernels/types.h"

namespace seqgrad::seq2seq {

enum class TapeChain {
  alternating,  // y x and y + x in turn
  mixed         // sums, products, functions, views and a scaling in turn
};

struct TapeBenchmark {
  i64 nodes = 0;           // of one chain
  double forward_us = 0;   // microseconds a node
  double backward_us = 0;  // the same
  double nodes_per_second = 0;
};

// A chain of about `nodes` operations on f32 tensors of one element, forward and backward on one tape, cleared in between. Of
// all repetitions but the first, which gets the memory, the fastest counts: other programs only ever slow a chain down.
TapeBenchmark bench_tape(TapeChain chain, i64 nodes = 200'000, int repetitions = 5);

}  // namespace seqgrad::seq2seq
