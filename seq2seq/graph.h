// The computation graph of a translator on one sentence pair, for looking at. Not for use by two threads at once on one run.
#pragma once

#include <string>

#include "seq2seq/run.h"

namespace seqgrad::seq2seq {

// The teacher-forced loss of one pair and its gradients, as Graphviz's DOT (autograd/graph.h): encoder, attention and each of
// the decoder's steps in a frame of its own. The decoder runs word by word, as in translating, so that each step stands by
// itself; training computes the same values and gradients with some products of all steps made at once.
// Leaves the gradients in the run's parameters.
std::string translation_graph(Run& run, const EncodedPair& pair);

}  // namespace seqgrad::seq2seq
