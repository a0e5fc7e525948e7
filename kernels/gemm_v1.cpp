// Matrix products as their definition.
#include "kernels/bf16.h"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::v1 {

// f is what becomes of an operand's element.
template <class T, class F>
static void product(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb,
                    T beta, T* c, i64 ldc, F f) {
  for (i64 i = 0; i < m; ++i) {
    for (i64 j = 0; j < n; ++j) {
      T sum = 0;
      for (i64 p = 0; p < k; ++p) {
        const T a_ip = transpose_a ? a[p * lda + i] : a[i * lda + p];
        const T b_pj = transpose_b ? b[j * ldb + p] : b[p * ldb + j];
        sum += f(a_ip) * f(b_pj);
      }
      T& c_ij = c[i * ldc + j];
      c_ij = (alpha == 0 ? 0 : alpha * sum) + (beta == 0 ? 0 : beta * c_ij);  // a zero factor ignores even NaN, as BLAS does
    }
  }
}

template <class T>
void gemm(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb, T beta,
          T* c, i64 ldc) {
  product(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, [](T x) { return x; });
}
SEQGRAD_INSTANTIATE(gemm)

template <class T>
void gemm_bf16(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb,
               T beta, T* c, i64 ldc) {
  product(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, [](T x) { return rounded_to_bf16(x); });
}
SEQGRAD_INSTANTIATE(gemm_bf16)

template <class T>
void gemm_batched(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, i64 stride_a,
                  const T* b, i64 ldb, i64 stride_b, T beta, T* c, i64 ldc, i64 stride_c, i64 batch) {
  for (i64 i = 0; i < batch; ++i) {
    gemm(transpose_a, transpose_b, m, n, k, alpha, a + i * stride_a, lda, b + i * stride_b, ldb, beta, c + i * stride_c, ldc);
  }
}
SEQGRAD_INSTANTIATE(gemm_batched)

}  // namespace seqgrad::kernels::v1
