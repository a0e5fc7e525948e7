#include "kernels/measure.h"

#include "kernels/openblas.h"
#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

TEST_CASE("the level in use is one of the machine's, and there is a reason for it") {
  const std::vector<std::string> levels = cpu_levels();
  CHECK(levels[0] == "v1");
  CHECK(std::find(levels.begin(), levels.end(), cpu_level()) != levels.end());
  CHECK(cpu_level_reason().find("CPUID reports ") != std::string::npos);
  CHECK(openblas_name().starts_with("OpenBLAS "));
}

TEST_CASE("which code multiplies") {
  CHECK(gemm_way("v1", false, false, 100, 100, 100) == std::string("plain loop"));
  for (const std::string level : {"avx2", "avx512"}) {
    CHECK(gemm_way(level, false, true, 1, 100, 100) == std::string("one row or column"));
    CHECK(gemm_way(level, false, true, 100, 1, 100) == std::string("one row or column"));
    CHECK(gemm_way(level, false, true, 100, 100, 1) == std::string("one term"));
    CHECK(gemm_way(level, false, true, 8, 8, 8) == std::string("small"));
    CHECK(gemm_way(level, false, true, 3, 512, 512) == std::string("few rows"));
  }
  CHECK(gemm_way("avx2", false, true, 128, 1536, 512) == std::string("OpenBLAS"));
  CHECK(gemm_way("avx512", false, true, 128, 1536, 512) == std::string("tiles"));
}

TEST_CASE_TEMPLATE("OpenBLAS by itself keeps gemm's contract", T, float, double) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const i64 m = 5, n = 7, k = 3, lda = 9, ldb = 8, ldc = 10;
      const auto a = random<T>(9 * 5), b = random<T>(8 * 7);
      std::vector<T> c = random<T>(10 * 5), expected = c;
      openblas_gemm(ta, tb, m, n, k, T(2), a.data(), lda, b.data(), ldb, T(3), c.data(), ldc);
      v1::gemm<T>(ta, tb, m, n, k, T(2), a.data(), lda, b.data(), ldb, T(3), expected.data(), ldc);
      for (std::size_t i = 0; i < c.size(); ++i) CHECK(c[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    }
}

TEST_CASE("the arithmetic's limit counts what all threads do") {
  set_threads(1);
  const double one = multiply_and_add(10);
  CHECK(one >= 2 * 10);
  CHECK(multiply_and_add(30) == 3 * one);
  set_threads(2);
  CHECK(multiply_and_add(10) == 2 * one);
  set_threads(0);
}

}  // namespace seqgrad::kernels::test
