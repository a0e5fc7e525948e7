// Draws what a tape has recorded, in Graphviz's DOT language.
//
//   tape.backward(loss, {.keep_gradients = true});
//   write_file("loss.dot", to_dot(tape));           // dot -Tsvg loss.dot > loss.svg
//
// A node shows its operation or its parameter's name, its shape and, where a backward kept one, the Euclidean norm of its
// gradient. What a node is can be told without colour: parameters are bold boxes, leaves boxes, constants dotted boxes,
// operations ellipses, and views of another tensor's memory dashed ellipses.
// Thread-safe as far as the tape is.
#pragma once

#include <string>
#include <vector>

#include "autograd/tape.h"

namespace seqgrad {

struct GraphGroup {  // nodes that are drawn together in a frame
  std::string name;
  std::size_t begin = 0, end = 0;  // as tape.size() was before and after they were recorded
};

struct GraphOptions {
  std::string title = {};
  // They do not overlap. A parameter, leaf or constant is drawn once in each group that uses it, so that no edges have to
  // cross the picture from one place for all.
  std::vector<GraphGroup> groups = {};
  bool legend = true;
};

std::string to_dot(const Tape& tape, const GraphOptions& options = {});

}  // namespace seqgrad
