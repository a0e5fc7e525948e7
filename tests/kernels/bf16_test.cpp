#include "kernels/bf16.h"

#include <cmath>
#include <limits>

#include "kernels/packed.h"
#include "tests/kernels/conformance.h"

namespace seqgrad::kernels {

SEQGRAD_BF16_PRODUCTS(emulated_amx)

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

struct Way {
  const char* name;
  decltype(&amx::gemm_bf16) product;
  decltype(&amx::pack_linear_bf16) pack;
  decltype(&amx::packed_linear_bf16) packed_product;
};
#define SEQGRAD_WAY(name, way) \
  Way { name, way::gemm_bf16, way::pack_linear_bf16, way::packed_linear_bf16 }

static std::vector<Way> ways() {
  if (bf16_way() == Bf16Way::rounded_f32) {
    MESSAGE("skipped: ", std::string(bf16_way_reason()));
    return {};
  }
  std::vector<Way> all{SEQGRAD_WAY("AVX-512 BF16", avx512bf16), SEQGRAD_WAY("AMX emulated", emulated_amx)};
  if (bf16_way() == Bf16Way::amx) all.push_back(SEQGRAD_WAY("AMX", amx));
  return all;
}

TEST_CASE("each way of multiplying in bf16 agrees with v1, AMX with its instructions emulated") {
  for (const Way& way : ways()) {
    CAPTURE(way.name);
    Routines<float> tested = v1_routines<float>();
    static decltype(Way::product) chosen;
    chosen = way.product;
    tested.gemm_bf16 = [](bool ta, bool tb, i64 m, i64 n, i64 k, float alpha, const float* a, i64 lda, const float* b, i64 ldb,
                          float beta, float* c, i64 ldc) {
      if (m * n * k == 0) return v1::gemm_bf16<float>(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
      chosen(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    };
    for (const Case& one : cases()) {
      if (std::string(one.name) == "gemm_bf16") one.floats(tested);
    }
  }
}

// In one thread and in two, in one block of rows and in several, of one block of terms and of several.
static void same_bits_packed(const Way& way, i64 most_products = std::numeric_limits<i64>::max()) {
  struct Size {
    i64 rows, n, k;
  };
  for (const Size& size : {Size{1, 1, 1}, Size{17, 33, 31}, Size{40, 70, 2100}, Size{600, 2100, 40}, Size{128, 1536, 512},
                           Size{1040, 40, 4200}, Size{506, 8200, 2}}) {
    const i64 rows = size.rows, n = size.n, k = size.k, slack = 5;
    if (rows * n * k > most_products) continue;
    const auto x = random<float>(rows * (k + slack)), w = random<float>(n * k), y = random<float>(rows * n);
    std::vector<u32> packed(static_cast<size_t>(packed_size(n, k)));
    for (const bool transposed : {false, true}) {
      const i64 ld = transposed ? n : k;
      way.pack(transposed, w.data(), ld, packed.data(), n, k);
      for (const float beta : {0.0f, 1.0f}) {
        for (const int threads : {1, 2}) {
          set_threads(threads);
          std::vector<float> expected = y, found = y;
          way.product(false, !transposed, rows, n, k, 1, x.data(), k + slack, w.data(), ld, beta, expected.data(), n);
          way.packed_product(x.data(), k + slack, packed.data(), beta, found.data(), n, rows, n, k);
          INFO(way.name, ": ", rows, " ", n, " ", k, ", transposed ", transposed, ", beta ", beta, ", threads ", threads);
          REQUIRE(found == expected);
        }
      }
    }
  }
  vary_no_more();
}

TEST_CASE("a weight laid out before gives the bits of one packed as it comes") {
  for (const Way& way : ways()) same_bits_packed(way);
}

TEST_CASE("so it is where f32 multiplies rounded operands") {
  static const Routines<float>* routines;
  const auto check = [](const char* name, const Routines<float>& tested, i64 most_products) {
    routines = &tested;
    same_bits_packed({name, routines->gemm_bf16,
                      [](bool transposed, const float* w, i64 ld, u32* packed, i64 n, i64 k) {
                        routines->pack_linear_bf16(transposed, w, ld, reinterpret_cast<float*>(packed), n, k);
                      },
                      [](const float* x, i64 ld_x, const u32* packed, float beta, float* y, i64 ld_y, i64 rows, i64 n, i64 k) {
                        routines->packed_linear_bf16(x, ld_x, reinterpret_cast<const float*>(packed), nullptr, beta != 0, y,
                                                     ld_y, rows, n, k);
                      }},
                     most_products);
  };
  check("v1", v1_routines<float>(), 6'000'000);
  for (const Level& level : levels()) check(level.name.c_str(), level.floats, std::numeric_limits<i64>::max());
}

TEST_CASE("the way of multiplying in bf16 has a name and a reason") {
  CHECK(std::string(bf16_way_name()) != "");
  CHECK(std::string(bf16_way_reason()) != "");
}

}  // namespace test
}  // namespace seqgrad::kernels
