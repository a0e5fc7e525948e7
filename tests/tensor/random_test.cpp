#include "tensor/random.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace seqgrad;

TEST_CASE("the first numbers are fixed for ever") {
  // philox4x32-10 of counter 0 under key 0, from the authors' known answers (Random123, kat_vectors)
  Generator zero(0);
  for (u32 word : {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}) CHECK(zero.word() == word);
  Generator generator(42, 7);
  const double uniform[] = {0x1.9fb9bcf2aa086p-2, 0x1.b1fb28aab9cc6p-2, 0x1.cbbbd29803d86p-1};
  for (double expected : uniform) CHECK(generator.uniform() == expected);
  const double normal[] = {0.79209286891344277, -0.80051192115287084, 0.60100430061323884};
  for (double expected : normal) CHECK(generator.normal() == doctest::Approx(expected).epsilon(1e-14));
}

TEST_CASE("a seed decides, a stream and a seed tell sequences apart") {
  const auto draw = [](u64 seed, u64 stream) {
    Generator generator(seed, stream);
    return randn({50}, DType::f64, generator).to_vector<double>();
  };
  CHECK(draw(1, 2) == draw(1, 2));
  CHECK(draw(1, 2) != draw(1, 3));
  CHECK(draw(1, 2) != draw(2, 2));
  CHECK(draw(u64{1} << 32, 0) != draw(0, 0));
  manual_seed(5);
  const std::vector<float> first = randn({3}).to_vector<float>();
  CHECK(randn({3}).to_vector<float>() != first);
  manual_seed(5);
  CHECK(randn({3}).to_vector<float>() == first);
}

TEST_CASE("both dtypes draw the same numbers") {
  Generator a(3), b(3);
  const Tensor x = randn({4, 5}, DType::f64, a), y = randn({4, 5}, DType::f32, b);
  CHECK(x.to(DType::f32).to_vector<float>() == y.to_vector<float>());
}

TEST_CASE("moments and ranges") {
  Generator generator(11);
  double mean = 0, square = 0, fourth = 0;
  constexpr int n = 100000;
  for (double x : randn({n}, DType::f64, generator).to_vector<double>()) {
    mean += x / n;
    square += x * x / n;
    fourth += x * x * x * x / n;
  }
  CHECK(std::fabs(mean) < 4 / std::sqrt(n));
  CHECK(std::fabs(square - 1) < 4 * std::sqrt(2.0 / n));
  CHECK(std::fabs(fourth - 3) < 4 * std::sqrt(96.0 / n));
  double low = 9, high = -9, sum = 0;
  for (double x : rand({n}, -2, 3, DType::f64, generator).to_vector<double>()) {
    low = std::min(low, x);
    high = std::max(high, x);
    sum += x / n;
  }
  CHECK(low >= -2);
  CHECK(low < -1.99);
  CHECK(high < 3);
  CHECK(high > 2.99);
  CHECK(std::fabs(sum - 0.5) < 4 * 5 / std::sqrt(12.0 * n));
}
