// Per level, for measure.cpp: which code multiplies, and the peak of the arithmetic. Thread-safe.
#pragma once

#include "kernels/types.h"

namespace seqgrad::kernels {

#define SEQGRAD_LIMITS                                                                   \
  const char* gemm_way(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k);         \
  float multiply_and_add(i64 rounds); /* by each thread; the sum keeps the work alive */ \
  extern const i64 floats_a_round;

namespace v1 {
SEQGRAD_LIMITS
}
namespace avx2 {
SEQGRAD_LIMITS
}
namespace avx512 {
SEQGRAD_LIMITS
}
#undef SEQGRAD_LIMITS

}  // namespace seqgrad::kernels
