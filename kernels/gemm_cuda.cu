// Matrix products by cuBLAS, which is column-major: what is row-major here is the transpose there, so c^T = op(b)^T op(a)^T.
#include <type_traits>

#include "kernels/bf16.h"
#include "kernels/cuda_loops.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

static cublasOperation_t operation(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }

static cublasStatus_t multiply(cublasOperation_t ta, cublasOperation_t tb, i64 m, i64 n, i64 k, const float* alpha,
                               const float* a, i64 lda, i64 stride_a, const float* b, i64 ldb, i64 stride_b, const float* beta,
                               float* c, i64 ldc, i64 stride_c, i64 batch) {
  if (batch == 1) return cublas().sgemm(cublas().handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  return cublas().sgemm_batched(cublas().handle, ta, tb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc,
                                stride_c, batch);
}
static cublasStatus_t multiply(cublasOperation_t ta, cublasOperation_t tb, i64 m, i64 n, i64 k, const double* alpha,
                               const double* a, i64 lda, i64 stride_a, const double* b, i64 ldb, i64 stride_b,
                               const double* beta, double* c, i64 ldc, i64 stride_c, i64 batch) {
  if (batch == 1) return cublas().dgemm(cublas().handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  return cublas().dgemm_batched(cublas().handle, ta, tb, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc,
                                stride_c, batch);
}

template <class T>
void gemm_batched(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, i64 stride_a,
                  const T* b, i64 ldb, i64 stride_b, T beta, T* c, i64 ldc, i64 stride_c, i64 batch) {
  if (m == 0 || n == 0 || batch == 0) return;
  if (k == 0 || alpha == 0)  // a and b are not looked at, whatever they hold
    return each_element(batch * m * n, [=] __device__(i64 at) {
      T& c_ij = c[at / (m * n) * stride_c + at / n % m * ldc + at % n];
      c_ij = beta == 0 ? T(0) : beta * c_ij;
    });
  check(multiply(operation(transpose_b), operation(transpose_a), n, m, k, &alpha, b, ldb, stride_b, a, lda, stride_a, &beta, c,
                 ldc, stride_c, batch),
        "multiplying matrices");
}
SEQGRAD_INSTANTIATE(gemm_batched)

template <class T>
void gemm(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb, T beta,
          T* c, i64 ldc) {
  gemm_batched(transpose_a, transpose_b, m, n, k, alpha, a, lda, i64{0}, b, ldb, i64{0}, beta, c, ldc, i64{0}, i64{1});
}
SEQGRAD_INSTANTIATE(gemm)

// A contiguous copy in bf16, as its definition has it: a float's upper half, or a double of its value.
static void round_matrix(const float* x, i64 rows, i64 cols, i64 ld, u16* to) {
  each_element(rows * cols, [=] __device__(i64 at) {
    to[at] = static_cast<u16>(std::bit_cast<u32>(rounded_to_bf16(x[at / cols * ld + at % cols])) >> 16);
  });
}
static void round_matrix(const double* x, i64 rows, i64 cols, i64 ld, double* to) {
  each_element(rows * cols, [=] __device__(i64 at) { to[at] = rounded_to_bf16(x[at / cols * ld + at % cols]); });
}

static void multiply_rounded(cublasOperation_t ta, cublasOperation_t tb, i64 m, i64 n, i64 k, const float* alpha, const u16* a,
                             i64 lda, const u16* b, i64 ldb, const float* beta, float* c, i64 ldc) {
  check(cublas().gemm_of_types(cublas().handle, ta, tb, m, n, k, alpha, a, CUDA_R_16BF, lda, b, CUDA_R_16BF, ldb, beta, c,
                               CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "multiplying matrices in bf16");
}
static void multiply_rounded(cublasOperation_t ta, cublasOperation_t tb, i64 m, i64 n, i64 k, const double* alpha,
                             const double* a, i64 lda, const double* b, i64 ldb, const double* beta, double* c, i64 ldc) {
  check(multiply(ta, tb, m, n, k, alpha, a, lda, i64{0}, b, ldb, i64{0}, beta, c, ldc, i64{0}, i64{1}), "multiplying matrices");
}

template <class T>
void gemm_bf16(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb,
               T beta, T* c, i64 ldc) {
  if (m == 0 || n == 0 || k == 0 || alpha == 0)
    return gemm(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  const i64 a_cols = transpose_a ? m : k, b_cols = transpose_b ? k : n;
  const Scratch<std::conditional_t<sizeof(T) == sizeof(float), u16, double>> a_rounded(m * k), b_rounded(k * n);
  round_matrix(a, transpose_a ? k : m, a_cols, lda, a_rounded.get());
  round_matrix(b, transpose_b ? n : k, b_cols, ldb, b_rounded.get());
  multiply_rounded(operation(transpose_b), operation(transpose_a), n, m, k, &alpha, b_rounded.get(), b_cols, a_rounded.get(),
                   a_cols, &beta, c, ldc);
}
SEQGRAD_INSTANTIATE(gemm_bf16)

}  // namespace seqgrad::kernels::cuda
