#include "kernels/measure.h"

#include <cblas.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>

#include "kernels/kernels.h"
#include "kernels/limits.h"

namespace seqgrad::kernels {
namespace {

std::vector<const char*> reported() {
  std::vector<const char*> names;
  const auto add = [&](const char* name, bool supported) {
    if (supported) names.push_back(name);
  };
  add("avx2", __builtin_cpu_supports("avx2"));
  add("fma", __builtin_cpu_supports("fma"));
  add("avx512f", __builtin_cpu_supports("avx512f"));
  add("avx512dq", __builtin_cpu_supports("avx512dq"));
  add("avx512bw", __builtin_cpu_supports("avx512bw"));
  add("avx512vl", __builtin_cpu_supports("avx512vl"));
  return names;
}

}  // namespace

std::vector<std::string> cpu_levels() {
  const std::size_t features = reported().size();
  std::vector<std::string> levels{"v1"};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    levels.push_back("avx2");
    if (features == 6) levels.push_back("avx512");
  }
  return levels;
}

std::string cpu_level_reason() {
  const std::string found = fmt::format("CPUID reports {}", fmt::join(reported(), ", "));
  if (cpu_levels().back() == cpu_level()) return reported().empty() ? "CPUID reports no AVX2" : found;
  const char* asked = std::getenv("SEQGRAD_CPU");
  return fmt::format("SEQGRAD_CPU asks for {}; {}", asked ? asked : "less", found);
}

const char* gemm_way(const std::string& level, bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k) {
  if (level == "avx512") return avx512::gemm_way(transpose_a, transpose_b, m, n, k);
  if (level == "avx2") return avx2::gemm_way(transpose_a, transpose_b, m, n, k);
  return v1::gemm_way(transpose_a, transpose_b, m, n, k);
}

std::string openblas_name() {
  const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  const std::size_t version = config.find(' ');
  const std::size_t end = config.find(' ', version == std::string::npos ? version : version + 1);
  return fmt::format("{}, {}", config.substr(0, end), openblas_get_corename());
}

double multiply_and_add(i64 rounds) {
  const std::string level = cpu_level();
  const auto run = [&](float (*loop)(i64), i64 floats) {
    volatile float sum = loop(rounds);
    (void)sum;
    return 2.0 * static_cast<double>(floats * rounds) * omp_get_max_threads();
  };
  if (level == "avx512") return run(avx512::multiply_and_add, avx512::floats_a_round);
  if (level == "avx2") return run(avx2::multiply_and_add, avx2::floats_a_round);
  return run(v1::multiply_and_add, v1::floats_a_round);
}

}  // namespace seqgrad::kernels
