// What a tape keeps of each value: no concern of the tape's users, but their handles look into it. Not thread-safe, as the tape
// is not.
#pragma once

#include <string>

#include "tensor/tensor.h"

namespace seqgrad {

class SavedVar;
class Tape;

// A trained tensor with a place for its gradient. Value and gradient are usually views into a model's blocks.
struct Parameter {
  std::string name;
  Tensor value;
  Tensor grad;            // same shape; meaningful only when has_grad
  bool has_grad = false;  // false: nothing has arrived since the last zero_grad(), and grad may hold anything
};

// What a node knows of its closure, whose type it does not know.
struct ClosureType {
  void (*run)(void* closure, const Tensor* dy, const SavedVar& y);  // an operation's
  Tensor (*view)(void* closure, const Tensor& whole);               // a view's
  void (*destroy)(void* closure);                                   // null: nothing to do
};

// Three cache lines, of which a chain of small operations writes and reads every one once.
struct alignas(64) Node {
  Tensor value;
  const char* op = nullptr;
  const ClosureType* type = nullptr;
  void* closure = nullptr;  // in the tape's memory; a parameter's node: the Parameter
  Tensor* grad = nullptr;   // in the tape's memory: what has arrived; a view's: the view of what has arrived at its source
  Node** inputs = nullptr;  // in the tape's memory
  u32 input_count = 0;
  u32 index = 0;
  u32 top = 0;           // where the tape's memory for closures stood when this node was made
  u32 use = 0;           // counts the lives of this memory
  u32 version = 0;       // of the value when it was made
  u32 outputs : 24 = 0;  // of the closure here: this node and those after it
  u32 requires_grad : 1 = 0;
  u32 is_leaf : 1 = 0;
  u32 is_view : 1 = 0;
  u32 is_parameter : 1 = 0;
  u32 reached : 1 = 0;       // a view's: a gradient went through
  u32 released : 1 = 0;      // its closure ran and is gone
  u32 grad_dropped : 1 = 0;  // a gradient arrived, was used and was not kept

  Parameter* parameter() const { return is_parameter ? static_cast<Parameter*>(closure) : nullptr; }
  // What a view, perhaps of a view, looks at.
  const Node& source() const {
    const Node* node = this;
    while (node->is_view) node = node->inputs[0];
    return *node;
  }
};
static_assert(sizeof(Node) == 192);

// Where a Var asks whether its tape still holds it. Slots are never freed, so the question is always safe to ask.
struct TapeSlot {
  Tape* tape = nullptr;
  u32 generation = 0;
};

}  // namespace seqgrad
