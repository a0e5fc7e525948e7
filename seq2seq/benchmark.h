// How fast training is, and how far from what the machine's matrix products allow. Everything is measured in one run, because
// machines are shared: steps and reference products alternate, and medians are reported.
#pragma once

#include <string>
#include <vector>

#include "seq2seq/breakdown.h"
#include "seq2seq/run.h"

namespace seqgrad::seq2seq {

// Floating-point operations of the matrix products of one training step (forward, and twice as many backward), counting
// real tokens only: work on padding is no achievement.
double training_flops(const Settings& settings, const Run& run, const Batch& batch);

// What a training loop that has settled should not need: each is 0 but for batches larger than any before.
struct SteadyState {
  double resident_growth_megabytes = 0;    // from the first measured step to the last
  double page_faults_per_step = 0;         // that needed no disk
  double system_allocations_per_step = 0;  // memory for tensors that the process did not hold before
};

struct TrainBenchmark {
  i64 steps = 0, parameters = 0;
  double target_tokens_per_second = 0;   // with the making of batches
  double milliseconds_per_step = 0;      // median
  double gflop_per_step = 0;             // mean
  double gflops = 0;                     // achieved, over all steps
  double peak_gflops = 0;                // of large matrix products, median over the run
  double copy_gigabytes_per_second = 0;  // read and write of a block larger than any cache, median over the run
  double share_of_peak = 0;
  double peak_memory_megabytes = 0;       // resident, of the whole process
  double tensor_memory_megabytes = 0;     // of it for tensors, with what is kept for the next ones
  double parameter_memory_megabytes = 0;  // of that weights, gradients and two moments
  SteadyState steady;
  Breakdown breakdown;  // of further steps on some of the batches: a profile costs a little time
  int threads = 0;
  std::string cpu_level;
  std::string device;  // "" for the CPU
};

// Trains on `pairs` for the given number of steps after a warm-up on four batches and on the largest of all; every fifth step
// is repeated under the profile.
TrainBenchmark bench_train(Run& run, const std::vector<EncodedPair>& pairs, i64 steps);

// The same steps on one thread and on several in turns, so that whatever else the machine does meets both.
struct ThreadComparison {
  int threads = 0;
  double one_milliseconds = 0, all_milliseconds = 0;  // a step, medians
  double speedup = 0, least = 0, most = 0;            // medians of all pairs of steps; quartiles
  double peak_speedup = 0;                            // of large matrix products, median
};
ThreadComparison compare_threads(Run& run, const std::vector<EncodedPair>& pairs, i64 steps);

// Made-up sentences with Multi30k's lengths and vocabulary sizes, for machines without the data.
std::unique_ptr<Run> made_up_run(const Settings& settings);
std::vector<EncodedPair> made_up_pairs(const Run& run, i64 count);

// GFLOP/s of products that are square and large enough for the machine's best.
double peak_product_gflops();

}  // namespace seqgrad::seq2seq
