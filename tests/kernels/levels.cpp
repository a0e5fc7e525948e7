// The CPU's levels for conformance.h, and the check of the checker itself.
#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

template <class T>
static Routines<T> v1_table() {
#define SEQGRAD_KERNEL(name, parameters, arguments) v1::name<T>,
  return {
#include "kernels/ops.def"
  };
#undef SEQGRAD_KERNEL
}
template <class T>
static Routines<T> avx2_table() {
#define SEQGRAD_KERNEL(name, parameters, arguments) avx2::name<T>,
  return {
#include "kernels/ops.def"
  };
#undef SEQGRAD_KERNEL
}
template <class T>
static Routines<T> avx512_table() {
#define SEQGRAD_KERNEL(name, parameters, arguments) avx512::name<T>,
  return {
#include "kernels/ops.def"
  };
#undef SEQGRAD_KERNEL
}
template <class T>
static Routines<T> cpu_table() {
#define SEQGRAD_KERNEL(name, parameters, arguments) cpu::name<T>,
  return {
#include "kernels/ops.def"
  };
#undef SEQGRAD_KERNEL
}

template <class T>
const Routines<T>& v1_routines() {
  static const Routines<T> table = v1_table<T>();
  return table;
}
template const Routines<float>& v1_routines();
template const Routines<double>& v1_routines();

const std::vector<Level>& levels() {
  static const std::vector<Level> all = [] {
    std::vector<Level> found;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      found.push_back({"avx2", avx2_table<float>(), avx2_table<double>()});
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512vl")) {
        found.push_back({"avx512", avx512_table<float>(), avx512_table<double>()});
      }
    }
    if (found.empty()) found.push_back({"cpu", cpu_table<float>(), cpu_table<double>()});
    return found;
  }();
  return all;
}

int variations() { return 2; }
void vary(int variation) { set_threads(variation + 1); }
void vary_no_more() { set_threads(0); }

// Check the checker: the routine it trusts must pass, and each kind of fault must be caught.
TEST_CASE("agree() notices faults") {
  const auto x = random<float>(33);
  static void (*fault)(float* y);
  Routines<float> tested = v1_routines<float>();
  tested.affine = [](const float* in, float* y, float alpha, float beta, i64 n) {
    v1::affine(in, y, alpha, beta, n);
    fault(y);
  };
  const auto verdict = [&](void (*planted)(float*)) {
    fault = planted;
    return disagreement(tested,
                        [&](const Routines<float>& r, Outputs<float>& out) { r.affine(x.data(), out.fresh(33), 2, 1, 33); });
  };
  CHECK(verdict([](float*) {}) == "");
  CHECK(verdict([](float* y) { y[32] *= 1.01f; }).starts_with("output 0, element 32 of 33"));
  CHECK(verdict([](float* y) { y[3] = nan<float>; }).starts_with("output 0, element 3 of 33"));
  CHECK(verdict([](float* y) { y[33] = 0; }) == "wrote out of bounds");
  CHECK(verdict([](float* y) { y[-1] = 0; }) == "wrote out of bounds");
  CHECK(verdict([](float* y) {
          if (threads() > 1) y[5] = std::nextafter(y[5], 100.0f);
        }) == "bits vary with threads");
}

}  // namespace seqgrad::kernels::test
