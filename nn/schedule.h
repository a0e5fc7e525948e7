// The learning rate of each step. Value types; a Plateau's two numbers are its whole state, for checkpoints.
#pragma once

#include "kernels/types.h"

namespace seqgrad::nn {

enum class Schedule { constant, inverse_sqrt, plateau };

struct LearningRate {
  Schedule schedule = Schedule::constant;
  double base = 1e-3;
  i64 warmup = 0;      // steps
  double minimum = 0;  // not during the warm-up

  // For the step t = 1, 2, ...; `factor` is the Plateau's.
  //   warm-up          base t / warmup                      t <= warmup
  //   inverse_sqrt     base sqrt(max(1, warmup) / t)        Vaswani et al. 2017, in fairseq's and Marian's scaling
  //   plateau          base factor
  double at(i64 t, double factor = 1) const;
};

// PyTorch's ReduceLROnPlateau: each `patience` measurements in a row without a better one multiply the factor by `decay`.
// (PyTorch waits for one more than its patience.)
struct Plateau {
  double factor = 1;
  i64 bad = 0;  // measurements since the best or the last decay

  void measured(bool better, double decay, i64 patience);
  bool operator==(const Plateau&) const = default;
};

}  // namespace seqgrad::nn
