// Matrix products of tensors with any strides: a transposed view costs nothing. Thread-safe.
#pragma once

#include "tensor/tensor.h"

namespace seqgrad {

// c = alpha a b + beta c for a (m, k), b (k, n), c (m, n), or all three with one leading batch dimension (a's or b's may be 1:
// the same matrix for every product). beta = 0 never reads c. Error: "[matmul] inner dimensions differ: (32, 512) x (256, 64)".
void matmul_into(const Tensor& a, const Tensor& b, double beta, const Tensor& c, double alpha = 1);

Tensor matmul(const Tensor& a, const Tensor& b);

}  // namespace seqgrad
