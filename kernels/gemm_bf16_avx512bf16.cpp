// Products in bf16 by VDPBF16PS: in each lane, sum += a_2p b_2p + a_2p+1 b_2p+1, two terms where f32 has one.
#define SEQGRAD_LEVEL avx512bf16
#include "kernels/bf16.h"
#include "kernels/bf16_panels.h"

namespace seqgrad::kernels::avx512bf16 {

struct Bf16Tiles {
  using Source = float;
  using Element = u32;  // two terms
  static constexpr i64 rows = 14, columns = 32;
  static constexpr i64 block_k = 2048, block_m = 9 * rows;

  static i64 elements(i64 terms) { return (terms + 1) / 2; }
  static i64 a_elements(i64 terms) { return rows * elements(terms); }
  static void start() {}
  static void stop() {}
  static void pack_a(Operand<float> a, i64 height, i64 first, i64 count, i64, u32* to) {
    pack_pairs(a.data, a.row_step, a.column_step, height, height, count, elements(count), to + elements(first) * height);
  }
  static void pack_b(Operand<float> b, i64 real, i64 first, i64 count, u32* to) {
    pack_pairs(b.data, b.column_step, b.row_step, real, columns, count, elements(count), to + elements(first) * columns);
  }
  SEQGRAD_INLINE static __m512i load(const u32* b) { return _mm512_loadu_si512(b); }
  SEQGRAD_INLINE static __m512i repeat(u32 a) { return _mm512_set1_epi32(static_cast<int>(a)); }
  SEQGRAD_INLINE static Vec<float> add_product(__m512i a, __m512i b, Vec<float> sum) {
    return Vec<float>(_mm512_dpbf16_ps(sum.raw, std::bit_cast<__m512bh>(a), std::bit_cast<__m512bh>(b)));
  }
  static void multiply(i64 height, i64 count, const u32* a, const u32* b, float alpha, float beta, float* c, i64 ldc, i64 real,
                       Ahead ahead) {
    constexpr auto heights = std::make_integer_sequence<int, static_cast<int>(rows)>();
    tile_of<Bf16Tiles, float>(height, heights)(count, a, b, alpha, beta, c, ldc, real, ahead);
  }
};

void gemm_bf16(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, float alpha, const float* a, i64 lda, const float* b,
               i64 ldb, float beta, float* c, i64 ldc) {
  tiled<Bf16Tiles>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void pack_linear_bf16(bool transposed, const float* w, i64 ld_w, u32* packed, i64 n, i64 k) {
  pack_panels<Bf16Tiles>(weight_operand(transposed, w, ld_w), n, k, packed);
}

void packed_linear_bf16(const float* x, i64 ld_x, const u32* packed, float beta, float* y, i64 ld_y, i64 rows, i64 n, i64 k) {
  tiled_packed<Bf16Tiles>(rows, n, k, x, ld_x, packed, beta, y, ld_y);
}

}  // namespace seqgrad::kernels::avx512bf16
