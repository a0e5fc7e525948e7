// Products of operands rounded to bf16: by the CPU's bf16 instructions where it has them, else in T, rounded while packed.
#include "kernels/bf16.h"
#include "kernels/gemm_tiles.h"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
struct RoundedTiles : Tiles<T> {
  static void round(T* x, i64 count) {
    for (i64 i = 0; i < count; ++i) x[i] = rounded_to_bf16(x[i]);
  }
  static void pack_a(Operand<T> a, i64 height, i64 first, i64 count, i64 terms, T* to) {
    Tiles<T>::pack_a(a, height, first, count, terms, to);
    round(to + first * height, count * height);
  }
  static void pack_b(Operand<T> b, i64 real, i64 first, i64 count, T* to) {
    Tiles<T>::pack_b(b, real, first, count, to);
    round(to + first * Tiles<T>::columns, count * Tiles<T>::columns);
  }
};

// Returns what the product `call` of this CPU's bf16 instructions does, if it has them and they are for T.
#ifdef __AVX512F__
#define SEQGRAD_BF16_BY_WAY(call)                                   \
  if constexpr (sizeof(T) == sizeof(float)) {                       \
    if (bf16_way() == Bf16Way::amx) return amx::call;               \
    if (bf16_way() == Bf16Way::avx512bf16) return avx512bf16::call; \
  }
#else
#define SEQGRAD_BF16_BY_WAY(call)
#endif

template <class T>
void gemm_bf16(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb,
               T beta, T* c, i64 ldc) {
  if (m == 0 || n == 0 || k == 0 || alpha == 0)
    return gemm<T>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  SEQGRAD_BF16_BY_WAY(gemm_bf16(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
  tiled<RoundedTiles<T>>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
SEQGRAD_INSTANTIATE(gemm_bf16)

template <class T>
void pack_linear_bf16(bool transposed, const T* w, i64 ld_w, T* packed, i64 n, i64 k) {
  if (n == 0 || k == 0) return;
  SEQGRAD_BF16_BY_WAY(pack_linear_bf16(transposed, w, ld_w, reinterpret_cast<u32*>(packed), n, k))
  pack_panels<RoundedTiles<T>>(weight_operand(transposed, w, ld_w), n, k, packed);
}
SEQGRAD_INSTANTIATE(pack_linear_bf16)

template <class T>
void packed_linear_bf16(const T* x, i64 ld_x, const T* packed, const T* bias, bool accumulate, T* y, i64 ld_y, i64 rows, i64 n,
                        i64 k) {
  if (rows == 0 || n == 0) return;
  if (bias || (k == 0 && !accumulate)) {
    parallel_rows(rows, n, [&](i64 begin, i64 end) {
      for (i64 r = begin; r < end; ++r) start_row(bias, accumulate, y + r * ld_y, n);
    });
  }
  if (k == 0) return;
  const T beta = bias || accumulate ? T(1) : T(0);
  SEQGRAD_BF16_BY_WAY(packed_linear_bf16(x, ld_x, reinterpret_cast<const u32*>(packed), beta, y, ld_y, rows, n, k))
  tiled_packed<RoundedTiles<T>>(rows, n, k, x, ld_x, packed, beta, y, ld_y);
}
SEQGRAD_INSTANTIATE(packed_linear_bf16)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
