// Multiplications and additions with every operand in a register, on all threads: no routine can do more in the same time.
#include "kernels/limits.h"
#include "kernels/parallel.h"
#include "kernels/simd.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

constexpr int sums = 12;  // two units, four or five cycles each
const i64 floats_a_round = sums * Vec<float>::width;

float multiply_and_add(i64 rounds) {
  float total = 0;
#pragma omp parallel reduction(+ : total)
  {
    Vec<float> s[sums];
    for (int i = 0; i < sums; ++i) s[i] = Vec<float>(static_cast<float>(i));
    const Vec<float> shrink(0.5f), grow(1.0f);
    for (i64 round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
      for (int i = 0; i < sums; ++i) s[i] = fma(s[i], shrink, grow);
    }
    Vec<float> all = s[0];
    for (int i = 1; i < sums; ++i) all += s[i];
    total += sum(all);
  }
  return total;
}

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
