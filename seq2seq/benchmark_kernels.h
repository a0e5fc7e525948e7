// How fast every family of routines is on the shapes that training uses: the plain loops beside the vectors of each CPU level,
// matrix products beside OpenBLAS, one thread beside all. Times are the fastest of many short runs on data that stays in cache
// where it fits: other programs only ever slow a run down. Not thread-safe: it changes the number of threads and puts it back.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "kernels/profile.h"
#include "seq2seq/settings.h"

namespace seqgrad::seq2seq {

struct MachineLimits {
  double gemm_gflops = 0;                // of large matrix products by the routines in use
  double openblas_gflops = 0;            // by OpenBLAS
  double bf16_gflops = 0;                // of operands rounded to bf16
  double arithmetic_gflops = 0;          // multiplying and adding in registers
  double copy_gigabytes_per_second = 0;  // read and write of a block larger than any cache
};
MachineLimits machine_limits();

struct RoutineSpeed {
  std::string routine, shape;
  std::map<std::string, double> seconds;  // by CPU level, those that this machine has
  kernels::Work work;
};

struct ProductSpeed {
  kernels::ProductShape shape;
  double calls = 0;                       // in a training step
  std::map<std::string, double> seconds;  // by CPU level
  double openblas_seconds = 0;
  const char* way = "";                  // what the level in use chooses: kernels::gemm_way
  double bf16_seconds = 0;               // rounding and packing included
  double laid_out_seconds = 0;           // the same where b was laid out before; 0 where a is transposed
  double f32_error = 0, bf16_error = 0;  // against f64: the norm of the difference over that of the product
};

// A product too small to share among threads should take no longer on all of them than on one.
struct SmallProduct {
  kernels::ProductShape shape;
  double one_seconds = 0, all_seconds = 0;
};

// `wanted` says of a routine's name whether it is to be measured; `done` hears of each as soon as it is.
using Wanted = std::function<bool(const std::string& routine)>;
void bench_routines(const Wanted& wanted, const std::function<void(const RoutineSpeed&)>& done);

// The products of a training step, with sdp and with Bahdanau's attention: those that need most operations first.
std::vector<ProductSpeed> training_products(Settings settings = {});
void bench_product(ProductSpeed& product);

std::vector<SmallProduct> bench_small_products();

}  // namespace seqgrad::seq2seq
