// The functions of elementwise.h's functors for one float or double at a time: for the plain loops and for CUDA threads.
// Thread-safe (values only). Not for *_cpu.cpp files, whose vectors are in simd.h.
#pragma once

#include <math.h>

#include "kernels/types.h"

namespace seqgrad::kernels {

// clang-format off
SEQGRAD_HOST_DEVICE inline float exp(float x) { return ::expf(x); }
SEQGRAD_HOST_DEVICE inline double exp(double x) { return ::exp(x); }
SEQGRAD_HOST_DEVICE inline float log(float x) { return ::logf(x); }
SEQGRAD_HOST_DEVICE inline double log(double x) { return ::log(x); }
SEQGRAD_HOST_DEVICE inline float tanh(float x) { return ::tanhf(x); }
SEQGRAD_HOST_DEVICE inline double tanh(double x) { return ::tanh(x); }
SEQGRAD_HOST_DEVICE inline float sqrt(float x) { return ::sqrtf(x); }
SEQGRAD_HOST_DEVICE inline double sqrt(double x) { return ::sqrt(x); }

// An overflowing e^-x is inf and the quotient 0: right for every x, so no second branch.
SEQGRAD_HOST_DEVICE inline float sigmoid(float x) { return 1 / (1 + exp(-x)); }
SEQGRAD_HOST_DEVICE inline double sigmoid(double x) { return 1 / (1 + exp(-x)); }

SEQGRAD_HOST_DEVICE inline float select(bool condition, float a, float b) { return condition ? a : b; }
SEQGRAD_HOST_DEVICE inline double select(bool condition, double a, double b) { return condition ? a : b; }
// clang-format on

}  // namespace seqgrad::kernels
