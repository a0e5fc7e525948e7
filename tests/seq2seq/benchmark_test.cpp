#include "seq2seq/benchmark.h"

#include <doctest/doctest.h>

#include "kernels/threads.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using kernels::ProductShape;
using kernels::RoutineProfile;

namespace {

double sum_of_shares(const Breakdown& breakdown) {
  double sum = 0;
  for (const TimeShare& one : breakdown.kinds()) sum += one.share;
  return sum;
}

TimeShare named(const std::vector<TimeShare>& shares, const std::string& name) {
  for (const TimeShare& one : shares)
    if (one.name == name) return one;
  return {};
}

Settings small() {
  Settings settings{.embedding = 8, .hidden = 8, .attention_dim = 8};
  settings.batch = 4;
  return settings;
}

}  // namespace

TEST_CASE("a breakdown sorts routines by kinds of work; data and the rest complete the step") {
  Breakdown breakdown;
  breakdown.add_step({{"gemm", {2, 3, 4, 1}, 10, 0.5, 2e9, 1e9},
                      {"gru_gates", {}, 4, 0.1, 0, 2e8},
                      {"gru_gates_backward", {}, 4, 0.1, 0, 4e8},
                      {"tanh", {}, 1, 0.02, 0, 0}},
                     0.9, 0.05);
  breakdown.add_step({{"gemm", {2, 3, 4, 1}, 10, 0.5, 3e9, 1e9}}, 1.1, 0.05);
  CHECK(breakdown.steps() == 2);
  CHECK(breakdown.milliseconds() == doctest::Approx(1000));
  const std::vector<TimeShare> kinds = breakdown.kinds();
  CHECK(named(kinds, "matrix products").share == doctest::Approx(0.5));
  CHECK(named(kinds, "matrix products").calls == 10);
  CHECK(named(kinds, "matrix products").milliseconds == doctest::Approx(500));
  CHECK(named(kinds, "matrix products").gflops == doctest::Approx(5));
  CHECK(named(kinds, "gates").share == doctest::Approx(0.1));
  CHECK(named(kinds, "gates").gigabytes_per_second == doctest::Approx(3));
  CHECK(named(kinds, "copies, sums").share == doctest::Approx(0.01));
  CHECK(named(kinds, "data").share == doctest::Approx(0.05));
  CHECK(named(kinds, "rest").share == doctest::Approx(0.34));
  CHECK(sum_of_shares(breakdown) == doctest::Approx(1));
  CHECK(breakdown.routines()[0].name == "gru_gates");
  CHECK(Breakdown().kinds().size() == kinds.size());
}

TEST_CASE("products that differ only in sizes of the batch are one shape") {
  Breakdown breakdown({128, 512, 64});
  breakdown.add_step({{"gemm", {128, 512, 64, 1, false, true}, 3, 0.3, 0, 0},
                      {"gemm", {100, 512, 64, 1, false, true}, 1, 0.1, 0, 0},
                      {"gemm", {104, 512, 64, 1, false, true}, 3, 0.1, 0, 0},
                      {"gemm", {512, 64, 777, 1, true, false}, 1, 0.05, 0, 0},
                      {"gemm_batched", {1, 14, 64, 128, false, true}, 2, 0.01, 0, 0}},
                     1, 0);
  const std::vector<TimeShare> products = breakdown.products();
  REQUIRE(products.size() == 4);
  CHECK(products[0].name == "128x512x64 nt");
  CHECK(products[1].name == "~103x512x64 nt");
  CHECK(products[1].calls == 4);
  CHECK(products[1].milliseconds == doctest::Approx(200));
  CHECK(products[2].name == "512x64x~777 tn");
  CHECK(products[3].name == "~1x~14x64 nt, 128 of them");
  CHECK(named(breakdown.kinds(), "attention").calls == 2);
}

TEST_CASE("every routine that a translator trains with has its kind") {
  CHECK(kind_of("gemm") == std::string("matrix products"));
  CHECK(kind_of("gemm_batched") == std::string("attention"));
  CHECK(kind_of("additive_scores_backward") == std::string("attention"));
  CHECK(kind_of("masked_softmax") == std::string("attention"));
  CHECK(kind_of("lstm_gates_backward") == std::string("gates"));
  CHECK(kind_of("cross_entropy") == std::string("softmax, loss"));
  CHECK(kind_of("norm_and_clip") == std::string("clip, optimiser"));
  CHECK(kind_of("scatter_add_rows") == std::string("embedding, rows"));
  CHECK(kind_of("copy_strided") == std::string("copies, sums"));
  CHECK(kind_of("tanh_backward") == std::string("copies, sums"));
}

TEST_CASE("the benchmark of training breaks its steps down and leaves no profile behind") {
  const auto run = made_up_run(small());
  const TrainBenchmark result = bench_train(*run, made_up_pairs(*run, 12), 6);
  CHECK(result.steps == 6);
  CHECK(result.breakdown.steps() == 2);
  CHECK(sum_of_shares(result.breakdown) == doctest::Approx(1));
  for (const TimeShare& one : result.breakdown.kinds()) {
    INFO(one.name);
    CHECK(one.share > 0);
  }
  CHECK(named(result.breakdown.routines(), "adam_step").calls == 1);
  CHECK(result.steady.page_faults_per_step >= 0);
  CHECK(result.parameter_memory_megabytes < result.tensor_memory_megabytes);
  CHECK(!kernels::profiling());
}

TEST_CASE("comparing threads takes as many steps on each and leaves their number as it was") {
  set_threads(2);
  const auto run = made_up_run(small());
  const ThreadComparison result = compare_threads(*run, made_up_pairs(*run, 12), 3);
  CHECK(result.threads == 2);
  CHECK(threads() == 2);
  CHECK(result.speedup > 0);
  CHECK(result.least <= result.speedup);
  CHECK(result.most >= result.speedup);
  set_threads(0);
}
