// Matrix products by cuBLAS, which is column-major: what is row-major here is the transpose there, so c^T = op(b)^T op(a)^T.
#include "kernels/bf16.h"
#include "kernels/cuda_loops.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

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
  const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
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

template <class T>
static void round_matrix(const T* x, i64 rows, i64 cols, i64 ld, T* to) {
  each_element(rows * cols, [=] __device__(i64 at) { to[at] = rounded_to_bf16(x[at / cols * ld + at % cols]); });
}

// Rounded copies of a and b, whose products are exact in T: the definition, not the tensor cores' speed.
template <class T>
void gemm_bf16(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb,
               T beta, T* c, i64 ldc) {
  const Scratch<T> a_rounded(m * k), b_rounded(k * n);
  round_matrix(a, transpose_a ? k : m, transpose_a ? m : k, lda, a_rounded.get());
  round_matrix(b, transpose_b ? n : k, transpose_b ? k : n, ldb, b_rounded.get());
  gemm(transpose_a, transpose_b, m, n, k, alpha, a_rounded.get(), larger(1, transpose_a ? m : k), b_rounded.get(),
       larger(1, transpose_b ? k : n), beta, c, ldc);
}
SEQGRAD_INSTANTIATE(gemm_bf16)

}  // namespace seqgrad::kernels::cuda
