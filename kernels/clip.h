// Clipping gradients by their norm, as torch.nn.utils.clip_grad_norm_ does.
#pragma once

#include <math.h>

#include "kernels/types.h"

namespace seqgrad::kernels {

// What gradients of this norm are multiplied by: max_norm / (norm + 1e-6), at most 1; 1 where max_norm <= 0. NaN where the norm
// is not finite: the optimisers' steps then change nothing.
SEQGRAD_HOST_DEVICE inline double clip_coefficient(double norm, double max_norm) {
  if (!(norm < HUGE_VAL)) return norm - norm;
  const double coefficient = max_norm / (norm + 1e-6);
  return max_norm <= 0 || coefficient > 1 ? 1 : coefficient;
}

}  // namespace seqgrad::kernels
