// Products in bf16 by AMX: a tile register holds 16 rows of 64 bytes; TDPBF16PS adds to a tile of 16 x 16 sums the product of
// 16 x 32 terms of a and 32 x 16 of b. Two tiles of each share their loads. tests/kernels/amx_emulation.cpp runs this file on
// any CPU.
#ifndef SEQGRAD_AMX_EMULATION
#define SEQGRAD_LEVEL amx
#endif
#include "kernels/bf16.h"
#include "kernels/bf16_panels.h"
#ifdef SEQGRAD_AMX_EMULATION
#include SEQGRAD_AMX_EMULATION
#endif

namespace seqgrad::kernels::SEQGRAD_LEVEL {

struct AmxTiles {
  using Source = float;
  using Element = u32;  // two terms
  static constexpr i64 rows = 32, columns = 32;
  static constexpr i64 block_k = 2048, block_m = 8 * rows;
  static constexpr i64 pairs_at_a_time = 16;

  static i64 elements(i64 terms) { return (terms + 31) / 32 * pairs_at_a_time; }
  // Rows lie a line more than their length apart, so that sixteen of them do not meet in one set of the cache.
  static i64 a_step(i64 count) { return count + 16; }
  static i64 a_elements(i64 terms) { return rows * a_step(elements(terms)); }

  static void start() {
    struct alignas(64) Configuration {
      std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
      std::uint16_t bytes_in_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    const Configuration configuration;
    _tile_loadconfig(&configuration);
  }
  static void stop() { _tile_release(); }

  static void pack_a(Operand<float> a, i64 height, i64 first, i64 count, i64 terms, u32* to) {
    pack_rows(a.data, a.row_step, a.column_step, height, rows, count, elements(count), to + elements(first),
              a_step(elements(terms)));
  }
  static void pack_b(Operand<float> b, i64 real, i64 first, i64 count, u32* to) {
    pack_pairs(b.data, b.column_step, b.row_step, real, columns, count, elements(count), to + elements(first) * columns);
  }

  static void multiply(i64 height, i64 count, const u32* a, const u32* b, float alpha, float beta, float* c, i64 ldc, i64 real,
                       Ahead ahead) {
    constexpr i64 b_bytes = columns * sizeof(u32);
    const i64 a_bytes = a_step(count) * static_cast<i64>(sizeof(u32));
    const u32* const a_lower = a + 16 * a_step(count);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (i64 p = 0; p < count; p += pairs_at_a_time) {
      for (int i = 0; i < 8 && ahead.pairs > 0; ++i) ahead.fetch();
      _tile_loadd(4, a + p, a_bytes);
      _tile_loadd(5, a_lower + p, a_bytes);
      _tile_loadd(6, b + p * columns, b_bytes);
      _tile_loadd(7, b + p * columns + 16, b_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    alignas(64) float sums[rows][columns];
    _tile_stored(0, &sums[0][0], b_bytes);
    _tile_stored(1, &sums[0][16], b_bytes);
    _tile_stored(2, &sums[16][0], b_bytes);
    _tile_stored(3, &sums[16][16], b_bytes);
    for (i64 i = 0; i < height; ++i) {
      each<float>(0, real, [&](i64 j, auto lanes) {
        const Vec<float> sum = Vec<float>(alpha) * lanes.load(sums[i] + j);
        lanes.store(c + i * ldc + j, beta == 0 ? sum : fma(Vec<float>(beta), lanes.load(c + i * ldc + j), sum));
      });
    }
  }
};

void gemm_bf16(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, float alpha, const float* a, i64 lda, const float* b,
               i64 ldb, float beta, float* c, i64 ldc) {
  tiled<AmxTiles>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void pack_linear_bf16(bool transposed, const float* w, i64 ld_w, u32* packed, i64 n, i64 k) {
  pack_panels<AmxTiles>(weight_operand(transposed, w, ld_w), n, k, packed);
}

void packed_linear_bf16(const float* x, i64 ld_x, const u32* packed, float beta, float* y, i64 ld_y, i64 rows, i64 n, i64 k) {
  tiled_packed<AmxTiles>(rows, n, k, x, ld_x, packed, beta, y, ld_y);
}

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
