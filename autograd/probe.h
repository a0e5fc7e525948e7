// For those who check gradients (the diagnosis of a failed check, the tests of the check itself, the search for the first
// number that is not finite): sees what the operations of a tape do, and may change it in the backward pass. A tape without a
// probe pays one comparison with null for each gradient. Thread-safe where the probe is; a tape calls its probe from the thread
// that uses the tape.
#pragma once

#include <functional>
#include <span>

#include "autograd/tape.h"

namespace seqgrad {

class TapeProbe {
 public:
  using Backward = std::function<void(std::span<const Tensor> dy)>;
  struct Delivery {              // a gradient on its way from an operation to one of its inputs
    const char* op;              // the operation
    std::size_t node;            // its place on the tape
    std::size_t input;           // the input's place
    int number;                  // 0 for the first gradient of this operation, 1 for the second ...
    Tensor gradient;             // may be replaced by another of its shape
    bool overwrite;              // set it, and what had arrived at the input before is lost
    const Parameter* parameter;  // the input, if it is one
  };

  virtual ~TapeProbe() = default;
  // When a node has its value and its inputs; not yet what else it is.
  virtual void recorded(const Node& node);
  // In the place of an operation's backward. dy: the gradients of its outputs, undefined where none arrived.
  virtual void around(const char* op, std::size_t node, std::span<const Tensor> dy, const Backward& backward);
  virtual void deliver(Delivery& delivery);
  // Views become copies: no operation meets memory with gaps, forward or backward.
  virtual bool copies_views() const { return false; }
};

}  // namespace seqgrad
