#include "kernels/clip.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace seqgrad::kernels {

TEST_CASE("what gradients are multiplied by for clipping") {
  const double infinity = std::numeric_limits<double>::infinity();
  struct {
    double norm, max_norm, expected;
  } const cases[] = {{2, 1, 1 / (2 + 1e-6)},
                     {1, 1, 1 / (1 + 1e-6)},
                     {0.5, 1, 1},
                     {0, 1, 1},
                     {1e-300, 1, 1},
                     {1e-9, 1e-12, 1e-12 / (1e-9 + 1e-6)},
                     {0, 1e-12, 1e-6},
                     {1e300, 1, 1e-300},
                     {5, 0, 1},
                     {5, -1, 1},
                     {5, infinity, 1},
                     {infinity, 1, std::numeric_limits<double>::quiet_NaN()},
                     {std::numeric_limits<double>::quiet_NaN(), 1, std::numeric_limits<double>::quiet_NaN()}};
  for (const auto& one : cases) {
    CAPTURE(one.norm);
    CAPTURE(one.max_norm);
    const double got = clip_coefficient(one.norm, one.max_norm);
    if (std::isnan(one.expected))
      CHECK(std::isnan(got));
    else
      CHECK(got == doctest::Approx(one.expected).epsilon(1e-14));
  }
}

}  // namespace seqgrad::kernels
