#include "kernels/openblas.h"

#include <cblas.h>

namespace seqgrad::kernels {

static CBLAS_TRANSPOSE side(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

void openblas_gemm(bool ta, bool tb, i64 m, i64 n, i64 k, float alpha, const float* a, i64 lda, const float* b, i64 ldb,
                   float beta, float* c, i64 ldc) {
  cblas_sgemm(CblasRowMajor, side(ta), side(tb), static_cast<blasint>(m), static_cast<blasint>(n), static_cast<blasint>(k),
              alpha, a, static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}
void openblas_gemm(bool ta, bool tb, i64 m, i64 n, i64 k, double alpha, const double* a, i64 lda, const double* b, i64 ldb,
                   double beta, double* c, i64 ldc) {
  cblas_dgemm(CblasRowMajor, side(ta), side(tb), static_cast<blasint>(m), static_cast<blasint>(n), static_cast<blasint>(k),
              alpha, a, static_cast<blasint>(lda), b, static_cast<blasint>(ldb), beta, c, static_cast<blasint>(ldc));
}

}  // namespace seqgrad::kernels
