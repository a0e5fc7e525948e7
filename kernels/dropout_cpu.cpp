// Dropout: philox.h's generator with one counter per lane, so a step yields the words of 4 vectors.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"
#include "kernels/philox.h"
#include "kernels/simd.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

// Words: a register of 32-bit integers.
#ifdef __AVX512F__
using Words = __m512i;
SEQGRAD_INLINE static Words set_words(u32 x) { return _mm512_set1_epi32(static_cast<int>(x)); }
SEQGRAD_INLINE static Words add(Words a, Words b) { return _mm512_add_epi32(a, b); }
SEQGRAD_INLINE static Words mix(Words a, Words b, Words c) { return _mm512_xor_si512(_mm512_xor_si512(a, b), c); }
// The 64-bit products of the even and of the odd lanes, regrouped into high and low words.
SEQGRAD_INLINE static void multiply(Words a, Words b, Words& high, Words& low) {
  const Words even = _mm512_mul_epu32(a, b);
  const Words odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b);
  high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
  low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
}
SEQGRAD_INLINE static Words unpack_low(Words a, Words b) { return _mm512_unpacklo_epi32(a, b); }
SEQGRAD_INLINE static Words unpack_high(Words a, Words b) { return _mm512_unpackhi_epi32(a, b); }
SEQGRAD_INLINE static Words unpack_low_pairs(Words a, Words b) { return _mm512_unpacklo_epi64(a, b); }
SEQGRAD_INLINE static Words unpack_high_pairs(Words a, Words b) { return _mm512_unpackhi_epi64(a, b); }
SEQGRAD_INLINE static Words lane_counters() { return _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15); }
SEQGRAD_INLINE static unsigned at_least(Words a, Words b) { return _mm512_cmpge_epu32_mask(a, b); }
SEQGRAD_INLINE static Mask<float> mask_of(unsigned bits, float) { return {static_cast<__mmask16>(bits)}; }
SEQGRAD_INLINE static Mask<double> mask_of(unsigned bits, double) { return {static_cast<__mmask8>(bits)}; }
#else
using Words = __m256i;
SEQGRAD_INLINE static Words set_words(u32 x) { return _mm256_set1_epi32(static_cast<int>(x)); }
SEQGRAD_INLINE static Words add(Words a, Words b) { return _mm256_add_epi32(a, b); }
SEQGRAD_INLINE static Words mix(Words a, Words b, Words c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
SEQGRAD_INLINE static void multiply(Words a, Words b, Words& high, Words& low) {
  const Words even = _mm256_mul_epu32(a, b);
  const Words odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
  high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
  low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}
SEQGRAD_INLINE static Words unpack_low(Words a, Words b) { return _mm256_unpacklo_epi32(a, b); }
SEQGRAD_INLINE static Words unpack_high(Words a, Words b) { return _mm256_unpackhi_epi32(a, b); }
SEQGRAD_INLINE static Words unpack_low_pairs(Words a, Words b) { return _mm256_unpacklo_epi64(a, b); }
SEQGRAD_INLINE static Words unpack_high_pairs(Words a, Words b) { return _mm256_unpackhi_epi64(a, b); }
SEQGRAD_INLINE static Words lane_counters() { return _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7); }
SEQGRAD_INLINE static unsigned at_least(Words a, Words b) {
  const __m256i equal = _mm256_cmpeq_epi32(_mm256_max_epu32(a, b), a);
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(equal)));
}
SEQGRAD_INLINE static Mask<float> mask_of(unsigned bits, float) {
  const __m256i lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), lane);
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(set, lane))};
}
SEQGRAD_INLINE static Mask<double> mask_of(unsigned bits, double) {
  const __m256i lane = _mm256_setr_epi64x(1, 2, 4, 8);
  const __m256i set = _mm256_and_si256(_mm256_set1_epi64x(bits), lane);
  return {_mm256_castsi256_pd(_mm256_cmpeq_epi64(set, lane))};
}
#endif
constexpr i64 counters = sizeof(Words) / sizeof(u32);  // per step
constexpr i64 step = 4 * counters;                     // words per step

// keep[v], bit j: whether word v * counters + j of the step that starts at counter `first` is at least the threshold.
SEQGRAD_INLINE static void draw(u64 first, u64 seed, u64 stream, Words threshold, unsigned (&keep)[4]) {
  Words c0 = add(set_words(static_cast<u32>(first)), lane_counters());  // never carries: first is a multiple of `counters`
  Words c1 = set_words(static_cast<u32>(first >> 32));
  Words c2 = set_words(static_cast<u32>(stream)), c3 = set_words(static_cast<u32>(stream >> 32));
  u32 k0 = static_cast<u32>(seed), k1 = static_cast<u32>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    Words high0, low0, high1, low1;
    multiply(c0, set_words(0xD2511F53), high0, low0);
    multiply(c2, set_words(0xCD9E8D57), high1, low1);
    c0 = mix(high1, c1, set_words(k0));
    c1 = low1;
    c2 = mix(high0, c3, set_words(k1));
    c3 = low0;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  // Transpose within groups of 4 lanes: lane 4 q + v of c0..c3 becomes group q of vector v. lane_counters() deals the
  // counters so that the vectors come out in order.
  const Words a = unpack_low(c0, c1), b = unpack_low(c2, c3), c = unpack_high(c0, c1), d = unpack_high(c2, c3);
  keep[0] = at_least(unpack_low_pairs(a, b), threshold);
  keep[1] = at_least(unpack_high_pairs(a, b), threshold);
  keep[2] = at_least(unpack_low_pairs(c, d), threshold);
  keep[3] = at_least(unpack_high_pairs(c, d), threshold);
}

template <class T>
void dropout(const T* x, T* y, i64 n, T p, u64 seed, u64 stream) {
  const u64 threshold = dropout_threshold(static_cast<double>(p));
  const Vec<T> zero(T(0));
  if (threshold > 0xFFFFFFFF) {  // p = 1: no word reaches it
    parallel(n, grain, [&](i64 begin, i64 end) { each<T>(begin, end, [&](i64 i, auto lanes) { lanes.store(y + i, zero); }); });
    return;
  }
  const Vec<T> scale(1 / (1 - p));
  const Words least = set_words(static_cast<u32>(threshold));
  parallel(n, grain, [&](i64 begin, i64 end) {  // begin is a multiple of grain, so of step
    for (i64 at = begin; at < end; at += step) {
      unsigned keep[4];
      draw(static_cast<u64>(at) / 4, seed, stream, least, keep);
      each<T>(at, smaller(at + step, end), [&](i64 i, auto lanes) {
        const i64 word = i - at;
        const Mask<T> kept = mask_of(keep[word / counters] >> (word % counters), T());
        lanes.store(y + i, select(kept, lanes.load(x + i) * scale, zero));
      });
    }
  });
}
SEQGRAD_INSTANTIATE(dropout)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
