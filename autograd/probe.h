// For those who check gradients (the diagnosis of a failed check, the tests of the check itself): sees what the operations of
// a tape do in the backward pass, and may change it. A tape without a probe pays one comparison with null for each gradient.
// Thread-safe where the probe is; a tape calls its probe from the thread that uses the tape.
#pragma once

#include <functional>
#include <span>

#include "autograd/tape.h"

namespace seqgrad {

class TapeProbe {
 public:
  using Backward = std::function<void(std::span<const Tensor> dy)>;
  struct Delivery {     // a gradient on its way from an operation to one of its inputs
    const char* op;     // the operation
    std::size_t node;   // its place on the tape
    std::size_t input;  // the input's place
    int number;         // 0 for the first gradient of this operation, 1 for the second ...
    Tensor gradient;    // may be replaced by another of its shape
    bool overwrite;     // set it, and what had arrived at the input before is lost
  };

  virtual ~TapeProbe() = default;
  // In the place of an operation's backward. dy: the gradients of its outputs, undefined where none arrived.
  virtual void around(const char* op, std::size_t node, std::span<const Tensor> dy, const Backward& backward);
  virtual void deliver(Delivery& delivery);
  // Views become copies: no operation meets memory with gaps, forward or backward.
  virtual bool copies_views() const { return false; }
};

}  // namespace seqgrad
