// How fast training is, and how far from what the machine's matrix products allow. Everything is measured in one run, because
// machines are shared: steps and reference products alternate, and medians are reported.
#pragma once

#include <string>
#include <vector>

#include "seq2seq/run.h"

namespace seqgrad::seq2seq {

// Floating-point operations of the matrix products of one training step (forward, and twice as many backward), counting
// real tokens only: work on padding is no achievement.
double training_flops(const Settings& settings, const Run& run, const Batch& batch);

struct TrainBenchmark {
  i64 steps = 0, parameters = 0;
  double target_tokens_per_second = 0;
  double milliseconds_per_step = 0;      // median
  double gflop_per_step = 0;             // mean
  double gflops = 0;                     // achieved, over all steps
  double peak_gflops = 0;                // of large products by the BLAS library, median over the run
  double copy_gigabytes_per_second = 0;  // read and write of a block larger than any cache, median over the run
  double share_of_peak = 0;
  double peak_memory_megabytes = 0;  // resident, of the whole process
  int threads = 0;
  std::string cpu_level;
};

// Trains on `pairs` for the given number of steps after a short warm-up.
TrainBenchmark bench_train(Run& run, const std::vector<EncodedPair>& pairs, i64 steps);

// Made-up sentences with Multi30k's lengths and vocabulary sizes, for machines without the data.
std::unique_ptr<Run> made_up_run(const Settings& settings);
std::vector<EncodedPair> made_up_pairs(const Run& run, i64 count);

}  // namespace seqgrad::seq2seq
