// Panels of pairs of bf16 numbers, rounded from floats while they are packed: what one 32-bit element holds is two terms of the
// sum that follow each other. For the files that multiply in bf16.
#pragma once

#include "kernels/gemm_tiles.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

// first = (t0 t1 ... t15), second = (t16 ... t31): pairs (t0,t1), (t2,t3), ..., (t30,t31)
SEQGRAD_INLINE static __m512i pairs_along(__m512 first, __m512 second) {
  return std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
}

// even = (x0 x1 ... x15), odd = (y0 ... y15): pairs (x0,y0), (x1,y1), ..., (x15,y15)
SEQGRAD_INLINE static __m512i pairs_across(__m512 even, __m512 odd) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20,
                                         4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even)));
}

SEQGRAD_INLINE static __mmask16 first_lanes(i64 count) {
  return static_cast<__mmask16>((1u << smaller(16, larger(0, count))) - 1);
}

// Pairs [p, p + 16) of sixteen rows from `row` on, of which `count` exist; each row's terms are contiguous.
SEQGRAD_INLINE static void pairs_of_rows(const float* from, i64 row_step, i64 count, i64 p, i64 k, __m512i (&x)[16]) {
  const __mmask16 first = first_lanes(k - 2 * p), second = first_lanes(k - 2 * p - 16);
  for (i64 j = 0; j < 16; ++j) {
    const float* const row = from + j * row_step + 2 * p;
    x[j] = j < count ? pairs_along(_mm512_maskz_loadu_ps(first, row), _mm512_maskz_loadu_ps(second, row + 16))
                     : _mm512_setzero_si512();
  }
}

SEQGRAD_INLINE static void transpose_pairs(__m512i (&x)[16]) {
  Vec<float> y[16];
  for (int i = 0; i < 16; ++i) y[i].raw = std::bit_cast<__m512>(x[i]);
  transpose_square<float>(y);
  for (int i = 0; i < 16; ++i) x[i] = std::bit_cast<__m512i>(y[i].raw);
}

// to[p * size + j] = terms 2p and 2p + 1 of row j, for j < size and p < pairs; 0 from row `real` and from term k on.
static void pack_pairs(const float* from, i64 row_step, i64 k_step, i64 real, i64 size, i64 k, i64 pairs, u32* to) {
  for (i64 j = 0; j < size; j += 16) {
    const i64 count = smaller(16, real - j);
    const __mmask16 kept = first_lanes(size - j);
    if (k_step == 1) {
      for (i64 p = 0; p < pairs; p += 16) {
        __m512i x[16];
        pairs_of_rows(from + j * row_step, row_step, count, p, k, x);
        transpose_pairs(x);
        for (i64 i = 0; i < smaller(16, pairs - p); ++i) _mm512_mask_storeu_epi32(to + (p + i) * size + j, kept, x[i]);
      }
    } else {
      const __mmask16 exist = first_lanes(count);
      for (i64 p = 0; p < pairs; ++p) {
        const float* const even = from + j + 2 * p * k_step;
        __builtin_prefetch(even + terms_ahead * k_step);
        __builtin_prefetch(even + (terms_ahead + 1) * k_step);
        const __m512 x = _mm512_maskz_loadu_ps(2 * p < k ? exist : __mmask16{0}, even),
                     y = _mm512_maskz_loadu_ps(2 * p + 1 < k ? exist : __mmask16{0}, even + k_step);
        _mm512_mask_storeu_epi32(to + p * size + j, kept, pairs_across(x, y));
      }
    }
  }
}

// The same row after row, `to_step` apart: to[j * to_step + p].
[[maybe_unused]] static void pack_rows(const float* from, i64 row_step, i64 k_step, i64 real, i64 size, i64 k, i64 pairs,
                                       u32* to, i64 to_step) {
  for (i64 j = 0; j < size; j += 16) {
    const i64 count = smaller(16, real - j), kept = smaller(16, size - j);
    for (i64 p = 0; p < pairs; p += 16) {
      __m512i x[16];
      if (k_step == 1) {
        pairs_of_rows(from + j * row_step, row_step, count, p, k, x);
      } else {
        const __mmask16 exist = first_lanes(count);
        for (i64 i = 0; i < 16; ++i) {
          const i64 term = 2 * (p + i);
          const float* const even = from + j + term * k_step;
          x[i] = pairs_across(_mm512_maskz_loadu_ps(term < k ? exist : __mmask16{0}, even),
                              _mm512_maskz_loadu_ps(term + 1 < k ? exist : __mmask16{0}, even + k_step));
        }
        transpose_pairs(x);
      }
      const __mmask16 there = first_lanes(pairs - p);
      for (i64 i = 0; i < kept; ++i) _mm512_mask_storeu_epi32(to + (j + i) * to_step + p, there, x[i]);
    }
  }
}

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
