// Matrix products of tensors with any strides: a transposed view costs nothing. Thread-safe but for the precision, which is the
// process's.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace seqgrad {

// c = alpha a b + beta c for a (m, k), b (k, n), c (m, n), or all three with one leading batch dimension (a's or b's may be 1:
// the same matrix for every product). beta = 0 never reads c. Error: "[matmul] inner dimensions differ: (32, 512) x (256, 64)".
void matmul_into(const Tensor& a, const Tensor& b, double beta, const Tensor& c, double alpha = 1);

Tensor matmul(const Tensor& a, const Tensor& b);

// What products of f32 matrices are computed in, as torch.set_float32_matmul_precision: `highest` is f32; `high` rounds both
// operands to TF32 (11 bits of mantissa) on a CUDA device, and is f32 on the CPU; `medium` rounds both operands of products
// large enough to gain by it to bf16 (8 bits of mantissa) and adds up in f32 (kernels::gemm_bf16). Batches of products are not
// rounded to bf16.
enum class MatmulPrecision : std::uint8_t { highest, high, medium };
MatmulPrecision float32_matmul_precision();
void set_float32_matmul_precision(MatmulPrecision precision);

// Sets it, and puts it back at its end.
class MatmulPrecisionScope {
 public:
  explicit MatmulPrecisionScope(MatmulPrecision precision) : before_(float32_matmul_precision()) {
    set_float32_matmul_precision(precision);
  }
  ~MatmulPrecisionScope() { set_float32_matmul_precision(before_); }
  MatmulPrecisionScope(const MatmulPrecisionScope&) = delete;
  MatmulPrecisionScope& operator=(const MatmulPrecisionScope&) = delete;

 private:
  MatmulPrecision before_;
};

// While it lives, the numbers of `memory` do not change: the caller's promise. Of the matrices that lie in it,
// those that products of this thread on the CPU round to bf16 as their right side are laid out once, at their first use
// (kernels::pack_linear_bf16), and read so from then on: a recurrent weight is read at every step of a sequence. The products
// have the same bits as without. One at a time counts, the innermost.
class ConstantMatrices {
 public:
  explicit ConstantMatrices(const Tensor& memory);
  ~ConstantMatrices();
  ConstantMatrices(const ConstantMatrices&) = delete;
  ConstantMatrices& operator=(const ConstantMatrices&) = delete;

  // A matrix (k, n) as packed_linear_bf16 reads it; undefined for one that lies elsewhere.
  Tensor laid_out(const Tensor& matrix);

 private:
  struct LaidOut {
    Tensor matrix, packed;
  };
  Tensor memory_;
  std::vector<LaidOut> matrices_;
  ConstantMatrices* outer_;
};

}  // namespace seqgrad
