// Vec<T>: as many floats or doubles as one AVX2 or AVX-512 register holds, for *_cpu.cpp files, which CMake compiles once per
// level into a namespace of its own (SEQGRAD_LEVEL). Thread-safe (values only).
//
// A *_cpu.cpp file may emit nothing outside that namespace: of two copies of, say, std::min the linker keeps one, perhaps the
// AVX-512 one, which would then crash a machine without it. So these files use raw loops, this header and C functions only.
//
//   each<T>(begin, end, [&](i64 i, auto lanes) { lanes.store(y + i, exp(lanes.load(x + i))); });
//
// visits a range in whole vectors, then the rest in one masked vector that touches no memory beyond the end.
#pragma once

// g++ 12 calls the deliberately undefined operands within its own AVX-512 header uninitialized (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#include <sleef.h>

#include "kernels/types.h"

#define SEQGRAD_INLINE [[gnu::always_inline]] inline

namespace seqgrad::kernels::SEQGRAD_LEVEL {

// Simd<T>: the intrinsics under names that do not depend on the level or the type.
template <class T>
struct Simd;

#ifdef __AVX512F__

#define SEQGRAD_SIMD(T, lanes, Register, Bits, s, letter)                                             \
  template <>                                                                                         \
  struct Simd<T> {                                                                                    \
    using Raw = Register;                                                                             \
    using Mask = Bits;                                                                                \
    static constexpr i64 width = lanes;                                                               \
    SEQGRAD_INLINE static Raw set(T x) { return _mm512_set1_##s(x); }                                 \
    SEQGRAD_INLINE static Mask first(i64 count) { return static_cast<Mask>((1u << count) - 1); }      \
    SEQGRAD_INLINE static Raw load(const T* p) { return _mm512_loadu_##s(p); }                        \
    SEQGRAD_INLINE static Raw load(const T* p, Mask m) { return _mm512_maskz_loadu_##s(m, p); }       \
    SEQGRAD_INLINE static void store(T* p, Raw x) { _mm512_storeu_##s(p, x); }                        \
    SEQGRAD_INLINE static void store(T* p, Raw x, Mask m) { _mm512_mask_storeu_##s(p, m, x); }        \
    template <int relation>                                                                           \
    SEQGRAD_INLINE static Mask compare(Raw a, Raw b) {                                                \
      return _mm512_cmp_##s##_mask(a, b, relation);                                                   \
    }                                                                                                 \
    SEQGRAD_INLINE static Mask bools(const bool* p, i64 count) {                                      \
      const __m128i bytes = _mm_maskz_loadu_epi8(static_cast<__mmask16>((1u << count) - 1), p);       \
      return static_cast<Mask>(_mm_test_epi8_mask(bytes, bytes));                                     \
    }                                                                                                 \
    SEQGRAD_INLINE static unsigned bits(Mask m) { return m; }                                         \
    SEQGRAD_INLINE static Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }              \
    SEQGRAD_INLINE static Mask either(Mask a, Mask b) { return static_cast<Mask>(a | b); }            \
    SEQGRAD_INLINE static Raw select(Mask m, Raw a, Raw b) { return _mm512_mask_blend_##s(m, b, a); } \
    SEQGRAD_INLINE static Raw fma(Raw a, Raw b, Raw c) { return _mm512_fmadd_##s(a, b, c); }          \
    SEQGRAD_INLINE static Raw max(Raw a, Raw b) { return _mm512_max_##s(a, b); }                      \
    SEQGRAD_INLINE static Raw sqrt(Raw a) { return _mm512_sqrt_##s(a); }                              \
    SEQGRAD_INLINE static T sum(Raw a) { return _mm512_reduce_add_##s(a); }                           \
    SEQGRAD_INLINE static T largest(Raw a) { return _mm512_reduce_max_##s(a); }                       \
    SEQGRAD_INLINE static Raw exp(Raw a) { return Sleef_exp##letter##lanes##_u10avx512f(a); }         \
    SEQGRAD_INLINE static Raw log(Raw a) { return Sleef_log##letter##lanes##_u10avx512f(a); }         \
    SEQGRAD_INLINE static Raw tanh(Raw a) { return Sleef_tanh##letter##lanes##_u10avx512f(a); }       \
  };
SEQGRAD_SIMD(float, 16, __m512, __mmask16, ps, f)
SEQGRAD_SIMD(double, 8, __m512d, __mmask8, pd, d)
#undef SEQGRAD_SIMD

#else  // AVX2: a mask is a vector of all-ones and all-zeros

SEQGRAD_INLINE __m256i first_lanes(float, i64 count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
SEQGRAD_INLINE __m256i first_lanes(double, i64 count) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}
SEQGRAD_INLINE __m128i load_bytes(const bool* p, i64 count) {  // count <= 8
  u64 bytes = 0;
  if (count == 8) {
    __builtin_memcpy(&bytes, p, 8);
  } else {
    for (i64 i = 0; i < count; ++i) bytes |= u64{p[i]} << (8 * i);
  }
  return _mm_cvtsi64_si128(static_cast<i64>(bytes));
}
SEQGRAD_INLINE __m256i from_bytes(float, __m128i bytes) {
  return _mm256_cmpgt_epi32(_mm256_cvtepu8_epi32(bytes), _mm256_setzero_si256());
}
SEQGRAD_INLINE __m256i from_bytes(double, __m128i bytes) {
  return _mm256_cmpgt_epi64(_mm256_cvtepu8_epi64(bytes), _mm256_setzero_si256());
}
SEQGRAD_INLINE float sum_lanes(__m256 x) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
SEQGRAD_INLINE double sum_lanes(__m256d x) {
  const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}
SEQGRAD_INLINE float largest_lane(__m256 x) {
  __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  half = _mm_max_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}
SEQGRAD_INLINE double largest_lane(__m256d x) {
  const __m128d half = _mm_max_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
  return _mm_cvtsd_f64(_mm_max_sd(half, _mm_unpackhi_pd(half, half)));
}

#define SEQGRAD_SIMD(T, lanes, Register, s, letter)                                                                  \
  template <>                                                                                                        \
  struct Simd<T> {                                                                                                   \
    using Raw = Register;                                                                                            \
    using Mask = Register;                                                                                           \
    static constexpr i64 width = lanes;                                                                              \
    SEQGRAD_INLINE static Raw set(T x) { return _mm256_set1_##s(x); }                                                \
    SEQGRAD_INLINE static Mask first(i64 count) { return _mm256_castsi256_##s(first_lanes(T(), count)); }            \
    SEQGRAD_INLINE static Raw load(const T* p) { return _mm256_loadu_##s(p); }                                       \
    SEQGRAD_INLINE static Raw load(const T* p, Mask m) { return _mm256_maskload_##s(p, _mm256_cast##s##_si256(m)); } \
    SEQGRAD_INLINE static void store(T* p, Raw x) { _mm256_storeu_##s(p, x); }                                       \
    SEQGRAD_INLINE static void store(T* p, Raw x, Mask m) { _mm256_maskstore_##s(p, _mm256_cast##s##_si256(m), x); } \
    template <int relation>                                                                                          \
    SEQGRAD_INLINE static Mask compare(Raw a, Raw b) {                                                               \
      return _mm256_cmp_##s(a, b, relation);                                                                         \
    }                                                                                                                \
    SEQGRAD_INLINE static Mask bools(const bool* p, i64 count) {                                                     \
      return _mm256_castsi256_##s(from_bytes(T(), load_bytes(p, count)));                                            \
    }                                                                                                                \
    SEQGRAD_INLINE static unsigned bits(Mask m) { return static_cast<unsigned>(_mm256_movemask_##s(m)); }            \
    SEQGRAD_INLINE static Mask both(Mask a, Mask b) { return _mm256_and_##s(a, b); }                                 \
    SEQGRAD_INLINE static Mask either(Mask a, Mask b) { return _mm256_or_##s(a, b); }                                \
    SEQGRAD_INLINE static Raw select(Mask m, Raw a, Raw b) { return _mm256_blendv_##s(b, a, m); }                    \
    SEQGRAD_INLINE static Raw fma(Raw a, Raw b, Raw c) { return _mm256_fmadd_##s(a, b, c); }                         \
    SEQGRAD_INLINE static Raw max(Raw a, Raw b) { return _mm256_max_##s(a, b); }                                     \
    SEQGRAD_INLINE static Raw sqrt(Raw a) { return _mm256_sqrt_##s(a); }                                             \
    SEQGRAD_INLINE static T sum(Raw a) { return sum_lanes(a); }                                                      \
    SEQGRAD_INLINE static T largest(Raw a) { return largest_lane(a); }                                               \
    SEQGRAD_INLINE static Raw exp(Raw a) { return Sleef_exp##letter##lanes##_u10avx2(a); }                           \
    SEQGRAD_INLINE static Raw log(Raw a) { return Sleef_log##letter##lanes##_u10avx2(a); }                           \
    SEQGRAD_INLINE static Raw tanh(Raw a) { return Sleef_tanh##letter##lanes##_u10avx2(a); }                         \
  };
SEQGRAD_SIMD(float, 8, __m256, ps, f)
SEQGRAD_SIMD(double, 4, __m256d, pd, d)
#undef SEQGRAD_SIMD

#endif

template <class T>
struct Vec;
SEQGRAD_INLINE Vec<float> tanh_of_floats(Vec<float> x);

template <class T>
struct Mask {
  typename Simd<T>::Mask raw;
};

template <class T>
struct Vec {
  static constexpr i64 width = Simd<T>::width;
  typename Simd<T>::Raw raw;

  Vec() = default;
  SEQGRAD_INLINE explicit Vec(T x) : raw(Simd<T>::set(x)) {}
  SEQGRAD_INLINE explicit Vec(typename Simd<T>::Raw x) : raw(x) {}
  SEQGRAD_INLINE static Vec load(const T* p) { return Vec(Simd<T>::load(p)); }
  SEQGRAD_INLINE void store(T* p) const { Simd<T>::store(p, raw); }

  SEQGRAD_INLINE Vec& operator+=(Vec b) { return *this = *this + b; }

  SEQGRAD_INLINE friend Vec operator+(Vec a, Vec b) { return Vec(a.raw + b.raw); }
  SEQGRAD_INLINE friend Vec operator-(Vec a, Vec b) { return Vec(a.raw - b.raw); }
  SEQGRAD_INLINE friend Vec operator*(Vec a, Vec b) { return Vec(a.raw * b.raw); }
  SEQGRAD_INLINE friend Vec operator/(Vec a, Vec b) { return Vec(a.raw / b.raw); }
  SEQGRAD_INLINE friend Mask<T> operator<(Vec a, Vec b) { return {Simd<T>::template compare<_CMP_LT_OQ>(a.raw, b.raw)}; }
  SEQGRAD_INLINE friend Mask<T> operator<=(Vec a, Vec b) { return {Simd<T>::template compare<_CMP_LE_OQ>(a.raw, b.raw)}; }
  SEQGRAD_INLINE friend Mask<T> operator>(Vec a, Vec b) { return {Simd<T>::template compare<_CMP_GT_OQ>(a.raw, b.raw)}; }
  SEQGRAD_INLINE friend Mask<T> operator>=(Vec a, Vec b) { return {Simd<T>::template compare<_CMP_GE_OQ>(a.raw, b.raw)}; }
  SEQGRAD_INLINE friend Mask<T> operator==(Vec a, Vec b) { return {Simd<T>::template compare<_CMP_EQ_OQ>(a.raw, b.raw)}; }
  SEQGRAD_INLINE friend Mask<T> is_nan(Vec a) { return {Simd<T>::template compare<_CMP_UNORD_Q>(a.raw, a.raw)}; }
  SEQGRAD_INLINE friend Vec select(Mask<T> m, Vec a, Vec b) { return Vec(Simd<T>::select(m.raw, a.raw, b.raw)); }
  SEQGRAD_INLINE friend Vec fma(Vec a, Vec b, Vec c) { return Vec(Simd<T>::fma(a.raw, b.raw, c.raw)); }  // a b + c
  SEQGRAD_INLINE friend Vec max(Vec a, Vec b) { return Vec(Simd<T>::max(a.raw, b.raw)); }  // b where either is NaN
  SEQGRAD_INLINE friend T sum(Vec a) { return Simd<T>::sum(a.raw); }
  SEQGRAD_INLINE friend T largest(Vec a) { return Simd<T>::largest(a.raw); }

  // SLEEF, within 1 unit in the last place; tanh of floats within 3.
  SEQGRAD_INLINE friend Vec exp(Vec a) { return Vec(Simd<T>::exp(a.raw)); }
  SEQGRAD_INLINE friend Vec log(Vec a) { return Vec(Simd<T>::log(a.raw)); }
  SEQGRAD_INLINE friend Vec tanh(Vec a) {
    if constexpr (sizeof(T) == sizeof(float)) return tanh_of_floats(a);
    return Vec(Simd<T>::tanh(a.raw));
  }
  SEQGRAD_INLINE friend Vec sqrt(Vec a) { return Vec(Simd<T>::sqrt(a.raw)); }
  // An overflowing e^-x is inf and the quotient 0.
  SEQGRAD_INLINE friend Vec sigmoid(Vec a) { return Vec(T(1)) / (Vec(T(1)) + exp(Vec(T(0)) - a)); }
};

// SLEEF's tanh carries pairs of floats through, which costs attention and the gates four times as much as this one. Near 0 it
// is Cephes' polynomial, x + x^3 P(x^2); elsewhere 1 - 2 / (e^2x + 1) cancels nothing.
SEQGRAD_INLINE Vec<float> tanh_of_floats(Vec<float> x) {
  const Vec<float> one(1.0f), two(2.0f), x2 = x * x;
  Vec<float> p(-5.70498872745e-3f);
  p = fma(p, x2, Vec<float>(2.06390887954e-2f));
  p = fma(p, x2, Vec<float>(-5.37397155531e-2f));
  p = fma(p, x2, Vec<float>(1.33314422036e-1f));
  p = fma(p, x2, Vec<float>(-3.33332819422e-1f));
  const Vec<float> near = fma(p * x2, x, x), far = one - two / (exp(two * x) + one);
  return select(x2 < Vec<float>(0.390625f), near, far);  // |x| < 0.625
}

// Bit i is lane i.
template <class T>
SEQGRAD_INLINE unsigned bits(Mask<T> m) {
  return Simd<T>::bits(m.raw);
}
template <class T>
SEQGRAD_INLINE Mask<T> operator&(Mask<T> a, Mask<T> b) {
  return {Simd<T>::both(a.raw, b.raw)};
}
template <class T>
SEQGRAD_INLINE Mask<T> operator|(Mask<T> a, Mask<T> b) {
  return {Simd<T>::either(a.raw, b.raw)};
}

// The lanes whose bools are true, of the first `count`.
template <class T>
SEQGRAD_INLINE Mask<T> load_mask(const bool* p, i64 count) {
  return {Simd<T>::bools(p, count)};
}

// Which lanes a step of each() covers: all, or the first few.
template <class T>
struct AllLanes {
  SEQGRAD_INLINE i64 count() const { return Vec<T>::width; }
  SEQGRAD_INLINE Vec<T> load(const T* p) const { return Vec<T>::load(p); }
  SEQGRAD_INLINE void store(T* p, Vec<T> x) const { x.store(p); }
  SEQGRAD_INLINE Vec<T> keep(Vec<T> x, T) const { return x; }
};
template <class T>
struct FirstLanes {
  i64 size;
  Mask<T> mask;
  SEQGRAD_INLINE explicit FirstLanes(i64 n) : size(n), mask{Simd<T>::first(n)} {}
  SEQGRAD_INLINE i64 count() const { return size; }
  SEQGRAD_INLINE Vec<T> load(const T* p) const { return Vec<T>(Simd<T>::load(p, mask.raw)); }  // 0 in the other lanes
  SEQGRAD_INLINE void store(T* p, Vec<T> x) const { Simd<T>::store(p, x.raw, mask.raw); }
  SEQGRAD_INLINE Vec<T> keep(Vec<T> x, T other) const { return select(mask, x, Vec<T>(other)); }  // `other` in the other lanes
};

template <class T, class F>
SEQGRAD_INLINE void each(i64 begin, i64 end, F&& f) {
  i64 i = begin;
  for (; i + Vec<T>::width <= end; i += Vec<T>::width) f(i, AllLanes<T>());
  if (i < end) f(i, FirstLanes<T>(end - i));
}

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
