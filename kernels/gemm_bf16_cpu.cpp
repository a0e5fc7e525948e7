// Products of operands rounded to bf16: by the CPU's bf16 instructions where it has them, else f32's product of rounded copies.
#include <stdlib.h>

#include "kernels/bf16.h"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

// A matrix of `rows` rows, ld apart, rounded; contiguous.
template <class T>
static void round_rows(const T* from, i64 rows, i64 cols, i64 ld, T* to) {
  parallel_rows(rows, cols * 4, [&](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) {
      for (i64 j = 0; j < cols; ++j) to[i * cols + j] = rounded_to_bf16(from[i * ld + j]);
    }
  });
}

template <class T>
static void on_rounded_copies(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b,
                              i64 ldb, T beta, T* c, i64 ldc) {
  const u64 bytes = static_cast<u64>(m * k + k * n) * sizeof(T);
  T* const copies = static_cast<T*>(malloc(bytes));
  if (!copies) throw_out_of_memory(bytes, "a matrix product's operands rounded to bf16");
  T* const b_copy = copies + m * k;
  const i64 a_cols = transpose_a ? m : k, b_cols = transpose_b ? k : n;
  round_rows(a, transpose_a ? k : m, a_cols, lda, copies);
  round_rows(b, transpose_b ? n : k, b_cols, ldb, b_copy);
  gemm<T>(transpose_a, transpose_b, m, n, k, alpha, copies, a_cols, b_copy, b_cols, beta, c, ldc);
  free(copies);
}

template <class T>
void gemm_bf16(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb,
               T beta, T* c, i64 ldc) {
  if (m == 0 || n == 0 || k == 0 || alpha == 0)
    return gemm<T>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
#ifdef __AVX512F__
  if constexpr (sizeof(T) == sizeof(float)) {
    switch (bf16_way()) {
      case Bf16Way::amx:
        return amx::gemm_bf16(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
      case Bf16Way::avx512bf16:
        return avx512bf16::gemm_bf16(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
      default:
        break;
    }
  }
#endif
  on_rounded_copies(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
SEQGRAD_INSTANTIATE(gemm_bf16)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
