// The limits of the plain loops, in which the compiler may use no more than every x86-64 has.
#include "kernels/limits.h"

namespace seqgrad::kernels::v1 {

constexpr int sums = 32;
const i64 floats_a_round = sums;

const char* gemm_way(bool, bool, i64, i64, i64) { return "plain loop"; }

float multiply_and_add(i64 rounds) {
  float total = 0;
#pragma omp parallel reduction(+ : total)
  {
    float s[sums];
    for (int i = 0; i < sums; ++i) s[i] = static_cast<float>(i);
    for (i64 round = 0; round < rounds; ++round)
      for (int i = 0; i < sums; ++i) s[i] = s[i] * 0.5f + 1;
    for (int i = 0; i < sums; ++i) total += s[i];
  }
  return total;
}

}  // namespace seqgrad::kernels::v1
