#include <cstdlib>
#include <string>

#include "kernels/cuda.h"
#include "kernels/error.h"
#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

TEST_CASE("the level is the best that the CPU has, unless SEQGRAD_CPU asks for less") {
  if (std::getenv("SEQGRAD_CPU")) return;
  const std::string best = levels().back().name;
  CHECK(cpu_level() == (best == "cpu" ? "v1" : best));
}

TEST_CASE("by device: the CPU computes, and without CUDA the error says what to do") {
  float x[] = {1, 2}, y[2];
  affine.run<float>(Device::cpu, x, y, 2, 1, 2);
  CHECK(y[1] == 5);
  unary<Exp>.run<float>(Device::cpu, x, y, 2);
  CHECK(y[0] == doctest::Approx(std::exp(1.0)));
  if (cuda_available()) return;
  std::string of_affine = "no CUDA device can be used: " + cuda::why_unavailable() + "; use --device cpu", of_exp = of_affine;
  if (!cuda::built()) {
    const std::string advice = " this build has no CUDA support: configure with -DSEQGRAD_CUDA=ON, or use --device cpu";
    of_affine = "[affine]" + advice;
    of_exp = "[exp]" + advice;
  }
  CHECK_THROWS_WITH_AS(affine.run<float>(Device::cuda, x, y, 2, 1, 2), of_affine.c_str(), Error);
  CHECK_THROWS_WITH_AS(unary<Exp>.run<float>(Device::cuda, x, y, 2), of_exp.c_str(), Error);
}

TEST_CASE("set_threads") {
  set_threads(3);
  CHECK(threads() == 3);
  set_threads(0);
  CHECK(threads() >= 1);
}

}  // namespace seqgrad::kernels::test
