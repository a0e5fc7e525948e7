#include "tensor/matmul.h"

#include <algorithm>
#include <atomic>

#include "kernels/cuda.h"
#include "kernels/packed.h"
#include "tensor/launch.h"

namespace seqgrad {
namespace {

// One operand as BLAS wants it: rows of unit stride, or the transpose of such.
struct Operand {
  Tensor tensor;
  bool transposed;
  i64 ld;
  i64 batch_stride;
};

bool unit_rows(const Tensor& x, int row, int column) {
  return (x.strides()[column] == 1 || x.shape()[column] == 1) &&
         (x.shape()[row] == 1 || x.strides()[row] >= std::max<i64>(1, x.shape()[column]));
}

i64 leading_dimension(const Tensor& x, int row, int column) {
  return x.shape()[row] == 1 ? std::max<i64>(1, x.shape()[column]) : x.strides()[row];
}

Operand operand(const Tensor& x) {
  const int row = x.dim() - 2, column = x.dim() - 1;
  const auto stride = [](const Tensor& t) { return t.dim() == 3 && t.shape()[0] != 1 ? t.strides()[0] : 0; };
  if (unit_rows(x, row, column)) return {x, false, leading_dimension(x, row, column), stride(x)};
  if (unit_rows(x, column, row)) return {x, true, leading_dimension(x, column, row), stride(x)};
  const Tensor copy = x.clone();
  return {copy, false, std::max<i64>(1, copy.shape()[column]), stride(copy)};
}

std::atomic<MatmulPrecision> precision{MatmulPrecision::highest};

// Below, rounding the operands costs as much as the cheaper products save.
bool worth_rounding(i64 m, i64 n, i64 k) { return std::min({m, n, k}) >= 16 && m * n * k >= i64{1} << 18; }

// Beyond so many rows, laying the other side out is little of the work, and the cache keeps what was laid out just before.
constexpr i64 most_rows_for_laid_out = 1024;

thread_local ConstantMatrices* constant_matrices = nullptr;

void multiply_rounded(const Operand& a, const Operand& b, i64 m, i64 n, i64 k, double alpha, double beta, const Tensor& c,
                      i64 ldc) {
  const bool plain = alpha == 1 && (beta == 0 || beta == 1) && !a.transposed && m <= most_rows_for_laid_out;
  if (constant_matrices && plain) {
    const Tensor none, packed = constant_matrices->laid_out(b.tensor);
    if (packed.defined()) return launch(kernels::packed_linear_bf16, a.tensor, a.ld, packed, none, beta == 1, c, ldc, m, n, k);
  }
  launch(kernels::gemm_bf16, a.transposed, b.transposed, m, n, k, alpha, a.tensor, a.ld, b.tensor, b.ld, beta, c, ldc);
}

}  // namespace

ConstantMatrices::ConstantMatrices(const Tensor& memory) : memory_(memory), outer_(constant_matrices) {
  constant_matrices = this;
}
ConstantMatrices::~ConstantMatrices() { constant_matrices = outer_; }

Tensor ConstantMatrices::laid_out(const Tensor& matrix) {
  if (memory_.device() != Device::cpu || !matrix.shares_memory_with(memory_)) return {};
  for (const LaidOut& one : matrices_)
    if (one.matrix.raw<float>() == matrix.raw<float>() && one.matrix.shape() == matrix.shape() &&
        one.matrix.strides() == matrix.strides())
      return one.packed;
  const Operand b = operand(matrix);
  const i64 k = matrix.size(0), n = matrix.size(1);
  const Tensor packed({kernels::packed_size(n, k)}, matrix.dtype(), matrix.device());
  launch(kernels::pack_linear_bf16, !b.transposed, b.tensor, b.ld, packed, n, k);
  matrices_.push_back({matrix, packed});
  return packed;
}

MatmulPrecision float32_matmul_precision() { return precision.load(std::memory_order_relaxed); }
void set_float32_matmul_precision(MatmulPrecision wanted) {
  const MatmulPrecision before = precision.exchange(wanted, std::memory_order_relaxed);
  if ((before == MatmulPrecision::high) != (wanted == MatmulPrecision::high) && default_device() == Device::cuda)
    kernels::cuda::allow_tf32(wanted == MatmulPrecision::high);
}

void matmul_into(const Tensor& a, const Tensor& b, double beta, const Tensor& c, double alpha) {
  const int rank = c.dim();
  if (a.dim() != rank || b.dim() != rank || (rank != 2 && rank != 3))
    throw_error("[matmul] needs matrices or batches of them, not {} x {}", a.shape(), b.shape());
  const i64 m = a.size(-2), k = a.size(-1), n = b.size(-1);
  if (b.size(-2) != k) throw_error("[matmul] inner dimensions differ: {} x {}", a.shape(), b.shape());
  if (a.dtype() != b.dtype())
    throw_error("[matmul] {} x {}: both sides need one dtype", name_of(a.dtype()), name_of(b.dtype()));
  if (!a.is_floating()) throw_error("[matmul] needs f32 or f64, not {}", name_of(a.dtype()));
  const i64 batch = rank == 3 ? c.size(0) : 1;
  const auto fits = [&](const Tensor& x) { return rank == 2 || x.size(0) == batch || x.size(0) == 1; };
  if (c.size(-2) != m || c.size(-1) != n || !fits(a) || !fits(b))
    throw_error("[matmul] {} x {} does not give {}", a.shape(), b.shape(), c.shape());
  if (c.numel() == 0) return;

  if (!unit_rows(c, rank - 2, rank - 1)) {
    if (unit_rows(c, rank - 1, rank - 2))  // c^T = b^T a^T
      return matmul_into(b.transpose(-1, -2), a.transpose(-1, -2), beta, c.transpose(-1, -2), alpha);
    Tensor product = c.clone();
    matmul_into(a, b, beta, product, alpha);
    return c.copy_from(product);
  }
  const Operand x = operand(a), y = operand(b);
  const i64 ldc = leading_dimension(c, rank - 2, rank - 1);
  const bool rounded =
      float32_matmul_precision() == MatmulPrecision::medium && c.dtype() == DType::f32 && worth_rounding(m, n, k);
  if (rank == 2 && rounded)
    multiply_rounded(x, y, m, n, k, alpha, beta, c, ldc);
  else if (rank == 2)
    launch(kernels::gemm, x.transposed, y.transposed, m, n, k, alpha, x.tensor, x.ld, y.tensor, y.ld, beta, c, ldc);
  else
    launch(kernels::gemm_batched, x.transposed, y.transposed, m, n, k, alpha, x.tensor, x.ld, x.batch_stride, y.tensor, y.ld,
           y.batch_stride, beta, c, ldc, c.strides()[0], batch);
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  Dims shape = a.shape();
  if (shape.size() >= 2 && b.dim() >= 2) {
    shape.back() = b.size(-1);
    if (shape.size() == 3 && b.dim() == 3) shape[0] = std::max(a.size(0), b.size(0));
  }
  Tensor c(shape, a.dtype(), a.device());
  matmul_into(a, b, 0, c);
  return c;
}

}  // namespace seqgrad
