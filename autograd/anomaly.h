// Finds the operation that made the first number which is not finite, as PyTorch's detect_anomaly() does: every value is looked
// at when it is recorded, every gradient when an operation delivers it.
//
//   AnomalyProbe probe;
//   Tape tape;
//   tape.set_probe(&probe);
//
// Errors, of which each is a failure:
//   "[log] its value is not finite: -inf at (2, 3)"
//   "[embedding] it reads encoder.embedding.weight, which is not finite: nan at (0, 0)"
//   "[sqrt] its gradient is not finite: inf at (0)", with " for NAME" where it goes to a parameter
//   "[mul] the sum of the gradients that reach its value is not finite: inf at (1)"
// Thread-safe as a tape is.
#pragma once

#include <string>

#include "autograd/probe.h"

namespace seqgrad {

class AnomalyProbe : public TapeProbe {
 public:
  void recorded(const Node& node) override;
  void around(const char* op, std::size_t node, std::span<const Tensor> dy, const Backward& backward) override;
  void deliver(Delivery& delivery) override;
};

// "nan at (2, 3)"; "" where all is finite.
std::string first_non_finite(const Tensor& x);

}  // namespace seqgrad
