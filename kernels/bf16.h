// bf16: the upper half of a float, 8 bits of mantissa. Rounds to nearest even as VCVTNEPS2BF16 does: subnormal numbers become
// zeros of their sign, NaNs stay NaNs.
#pragma once

#include <bit>

#include "kernels/types.h"

namespace seqgrad::kernels {

SEQGRAD_HOST_DEVICE inline float rounded_to_bf16(float x) {
  const u32 bits = std::bit_cast<u32>(x), magnitude = bits & 0x7fffffffu;
  const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) & 0xffff0000u;
  const u32 quiet = (bits & 0xffff0000u) | 0x400000u, zero = bits & 0x80000000u;
  return std::bit_cast<float>(magnitude > 0x7f800000u ? quiet : magnitude < 0x00800000u ? zero : rounded);
}
SEQGRAD_HOST_DEVICE inline double rounded_to_bf16(double x) { return rounded_to_bf16(static_cast<float>(x)); }

// How this machine multiplies in bf16: by AMX's tiles, by AVX-512's VDPBF16PS, or, without either, in f32 on rounded operands.
// SEQGRAD_CPU=avx512bf16 in the environment forgoes AMX, avx512 both.
enum class Bf16Way { rounded_f32, avx512bf16, amx };
Bf16Way bf16_way();
const char* bf16_way_name();    // "AMX tiles", "AVX-512 BF16", "f32 on rounded operands"
const char* bf16_way_reason();  // "CPUID reports amx_bf16 and the kernel lets this program use the tiles"

// The products of ops.def, for sizes above 0, where bf16_way() allows them. Thread-safe. A weight is packed in pairs of terms:
// kernels/bf16_panels.h.
#define SEQGRAD_BF16_PRODUCTS(way)                                                                                      \
  namespace way {                                                                                                       \
  void gemm_bf16(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, float alpha, const float* a, i64 lda,         \
                 const float* b, i64 ldb, float beta, float* c, i64 ldc);                                               \
  void pack_linear_bf16(bool transposed, const float* w, i64 ld_w, u32* packed, i64 n, i64 k);                          \
  void packed_linear_bf16(const float* x, i64 ld_x, const u32* packed, float beta, float* y, i64 ld_y, i64 rows, i64 n, \
                          i64 k);                                                                                       \
  }
SEQGRAD_BF16_PRODUCTS(avx512bf16)
SEQGRAD_BF16_PRODUCTS(amx)

}  // namespace seqgrad::kernels
