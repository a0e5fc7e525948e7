#include "seq2seq/benchmark_kernels.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "kernels/kernels.h"
#include "kernels/measure.h"
#include "kernels/threads.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using kernels::ProductShape;

TEST_CASE("routines are measured at every level of the machine, and only those wanted") {
  std::vector<RoutineSpeed> speeds;
  bench_routines([](const std::string& name) { return name == "masked_softmax" || name == "tanh_backward"; },
                 [&](const RoutineSpeed& one) { speeds.push_back(one); });
  REQUIRE(speeds.size() == 2);
  CHECK(speeds[0].routine == "masked_softmax");
  CHECK(speeds[0].work.bytes == 128 * 14 * (4 + 4 + 1));
  CHECK(speeds[1].routine == "tanh_backward");
  for (const RoutineSpeed& one : speeds) {
    REQUIRE(one.seconds.size() == kernels::cpu_levels().size());
    for (const auto& [level, seconds] : one.seconds) CHECK(seconds > 0);
  }
  CHECK(!kernels::profiling());
}

TEST_CASE("the products of a training step hold those of a recurrent step, forward and backward") {
  Settings settings{.embedding = 8, .hidden = 16, .attention_dim = 12};
  settings.batch = 8;
  std::vector<ProductSpeed> products = training_products(settings);
  const auto has = [&](i64 m, i64 n, i64 k, bool ta, bool tb) {
    return std::any_of(products.begin(), products.end(),
                       [&](const ProductSpeed& one) { return one.shape == ProductShape{m, n, k, 1, ta, tb} && one.calls > 1; });
  };
  CHECK(has(8, 48, 16, false, true));
  CHECK(has(8, 16, 48, false, false));
  CHECK(has(8, 48, 32, false, true));  // the context's share of the decoder's gates
  // No step with fewer rows beside one with all.
  for (const ProductSpeed& one : products) CHECK((one.shape.m >= 8 || one.shape.transpose_a));
  ProductSpeed& one = products.back();
  bench_product(one);
  CHECK(one.seconds.at(kernels::cpu_level()) > 0);
  CHECK(one.openblas_seconds > 0);
  CHECK(std::string(one.way) != "");
}

TEST_CASE("small products are measured on one thread and on all, whose number stays") {
  set_threads(2);
  const std::vector<SmallProduct> products = bench_small_products();
  CHECK(threads() == 2);
  CHECK(products.size() > 10);
  for (const SmallProduct& one : products) {
    CHECK(one.one_seconds > 0);
    CHECK(one.all_seconds > 0);
  }
  set_threads(0);
}
