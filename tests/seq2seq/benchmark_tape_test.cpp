#include "seq2seq/benchmark_tape.h"

#include <doctest/doctest.h>

#include <cmath>

#include "kernels/error.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

TEST_CASE("the tape's benchmark times every node of its chain") {
  for (const TapeChain chain : {TapeChain::alternating, TapeChain::mixed}) {
    for (const int repetitions : {1, 3}) {
      const TapeBenchmark result = bench_tape(chain, 64, repetitions);
      CHECK(result.nodes == 64);
      CHECK(result.forward_us > 0);
      CHECK(result.backward_us > 0);
      CHECK(result.nodes_per_second * (result.forward_us + result.backward_us) == doctest::Approx(1e6));
      CHECK(std::isfinite(result.nodes_per_second));
    }
  }
  CHECK(bench_tape(TapeChain::alternating, 1).nodes == 1);
}

TEST_CASE("the tape's benchmark refuses to time nothing") {
  CHECK_THROWS_WITH_AS(bench_tape(TapeChain::mixed, 0), "[bench_tape] 0 nodes, 5 repetitions: there is nothing to time", Error);
  CHECK_THROWS_WITH_AS(bench_tape(TapeChain::alternating, 8, 0),
                       "[bench_tape] 8 nodes, 0 repetitions: there is nothing to time", Error);
}
