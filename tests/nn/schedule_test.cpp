// Learning rates against the formulas that define them.
#include "nn/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

using namespace seqgrad;
using namespace seqgrad::nn;

TEST_CASE("without schedule and warm-up the learning rate is the base") {
  const LearningRate rate{.base = 0.3};
  for (const i64 t : {1, 2, 1000000}) CHECK(rate.at(t) == 0.3);
  CHECK(rate.at(5, 0.25) == 0.3);  // the factor is plateau's
}

TEST_CASE("the warm-up rises in equal steps and ends at the base") {
  for (const Schedule schedule : {Schedule::constant, Schedule::inverse_sqrt, Schedule::plateau}) {
    const LearningRate rate{.schedule = schedule, .base = 0.8, .warmup = 4, .minimum = 0.7};
    CHECK(rate.at(1) == 0.2);
    CHECK(rate.at(2) == 0.4);
    CHECK(rate.at(3) == doctest::Approx(0.6).epsilon(1e-15));
    CHECK(rate.at(4) == 0.8);
  }
}

TEST_CASE("inverse-sqrt falls with the root of the step, from the end of the warm-up on") {
  const LearningRate rate{.schedule = Schedule::inverse_sqrt, .base = 2, .warmup = 100};
  for (const i64 t : {101, 400, 90000}) CHECK(rate.at(t) == doctest::Approx(2 * 10 / std::sqrt(double(t))).epsilon(1e-15));
  const LearningRate at_once{.schedule = Schedule::inverse_sqrt, .base = 2};
  CHECK(at_once.at(1) == 2);
  CHECK(at_once.at(16) == 0.5);
}

TEST_CASE("no schedule goes below the minimum, and a minimum above the base is the base") {
  const LearningRate rate{.schedule = Schedule::inverse_sqrt, .base = 1, .minimum = 0.3};
  CHECK(rate.at(9) == doctest::Approx(1.0 / 3));
  CHECK(rate.at(100) == 0.3);
  const LearningRate plateau{.schedule = Schedule::plateau, .base = 1, .minimum = 0.3};
  CHECK(plateau.at(1, 0.5) == 0.5);
  CHECK(plateau.at(1, 0.25) == 0.3);
  CHECK(LearningRate{.base = 0.1, .minimum = 0.3}.at(7) == 0.1);
}

TEST_CASE("plateau decays after so many measurements in a row without a better one") {
  Plateau plateau;
  const auto measured = [&](bool better) {
    plateau.measured(better, 0.5, 2);
    return plateau.factor;
  };
  CHECK(measured(true) == 1);
  CHECK(measured(false) == 1);
  CHECK(measured(true) == 1);  // not in a row
  CHECK(measured(false) == 1);
  CHECK(measured(false) == 0.5);
  CHECK(measured(false) == 0.5);  // counts anew
  CHECK(measured(false) == 0.25);
  CHECK(measured(true) == 0.25);  // what is gone stays gone
  plateau.measured(false, 0.1, 1);
  CHECK(plateau.factor == doctest::Approx(0.025));
}
