// gemm of ops.def by OpenBLAS, whatever the size; m, n, k are above 0. Thread-safe.
#pragma once

#include "kernels/types.h"

namespace seqgrad::kernels {

void openblas_gemm(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, float alpha, const float* a, i64 lda,
                   const float* b, i64 ldb, float beta, float* c, i64 ldc);
void openblas_gemm(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, double alpha, const double* a, i64 lda,
                   const double* b, i64 ldb, double beta, double* c, i64 ldc);

}  // namespace seqgrad::kernels
