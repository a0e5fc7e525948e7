#include "kernels/bf16.h"

#include <cmath>
#include <limits>

#include "tests/kernels/conformance.h"

namespace seqgrad::kernels {

namespace emulated_amx {
void gemm_bf16(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, float alpha, const float* a, i64 lda, const float* b,
               i64 ldb, float beta, float* c, i64 ldc);
}

namespace test {

TEST_CASE("bf16 rounds to nearest even, keeps infinities and NaN, and flushes subnormal numbers") {
  CHECK(rounded_to_bf16(1.0f) == 1.0f);
  CHECK(rounded_to_bf16(1.00390625f) == 1.0f);        // a tie: 1 is even
  CHECK(rounded_to_bf16(1.01171875f) == 1.015625f);   // a tie: 1.0078125 is odd
  CHECK(rounded_to_bf16(1.00390637f) == 1.0078125f);  // just above a tie
  CHECK(rounded_to_bf16(-1.00390637f) == -1.0078125f);
  CHECK(rounded_to_bf16(3.4e38f) == std::numeric_limits<float>::infinity());
  CHECK(rounded_to_bf16(-std::numeric_limits<float>::infinity()) == -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(rounded_to_bf16(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(rounded_to_bf16(std::bit_cast<float>(0x7f800001u))));  // whose payload the rounding would lose
  CHECK(std::bit_cast<u32>(rounded_to_bf16(-1e-39f)) == 0x80000000u);
  CHECK(rounded_to_bf16(1.17549435e-38f) == 1.17549435e-38f);  // the smallest normal number
}

static void agree_with_v1(const char* way, decltype(&emulated_amx::gemm_bf16) product) {
  CAPTURE(way);
  Routines<float> tested = v1_routines<float>();
  static decltype(product) chosen;
  chosen = product;
  tested.gemm_bf16 = [](bool ta, bool tb, i64 m, i64 n, i64 k, float alpha, const float* a, i64 lda, const float* b, i64 ldb,
                        float beta, float* c, i64 ldc) {
    if (m * n * k == 0) return v1::gemm_bf16<float>(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    chosen(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  };
  for (const Case& one : cases()) {
    if (std::string(one.name) == "gemm_bf16") one.floats(tested);
  }
}

TEST_CASE("each way of multiplying in bf16 agrees with v1, AMX with its instructions emulated") {
  if (bf16_way() == Bf16Way::rounded_f32) {
    MESSAGE("skipped: ", std::string(bf16_way_reason()));
    return;
  }
  agree_with_v1("AVX-512 BF16", avx512bf16::gemm_bf16);
  agree_with_v1("AMX emulated", emulated_amx::gemm_bf16);
  if (bf16_way() == Bf16Way::amx) agree_with_v1("AMX", amx::gemm_bf16);
}

TEST_CASE("the way of multiplying in bf16 has a name and a reason") {
  CHECK(std::string(bf16_way_name()) != "");
  CHECK(std::string(bf16_way_reason()) != "");
}

}  // namespace test
}  // namespace seqgrad::kernels
