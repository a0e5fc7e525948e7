// Sharing loops of *_cpu.cpp files among OpenMP's threads. See simd.h for what these files may emit.
#pragma once

#include <omp.h>

#include "kernels/types.h"

namespace seqgrad::kernels {

[[noreturn]] void throw_out_of_memory(u64 bytes, const char* what);  // for these files, which cannot include error.h

namespace SEQGRAD_LEVEL {

// About as many elements of simple work as pay for waking the threads.
inline constexpr i64 grain = 16384;

inline i64 ceil_divide(i64 a, i64 b) { return (a + b - 1) / b; }
inline i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
inline i64 larger(i64 a, i64 b) { return a > b ? a : b; }

// f(begin, end) over pieces of [0, n): on this thread alone unless there is more than one block of `block` items. Pieces
// depend on the number of threads, so f must compute each item for itself. The whole team is woken even for fewer pieces:
// GNU's runtime ends and restarts threads when the team's size changes.
template <class F>
inline void parallel(i64 n, i64 block, F&& f) {
  const i64 blocks = ceil_divide(n, block);
  if (blocks <= 1 || omp_get_max_threads() == 1 || omp_in_parallel()) {
    if (n > 0) f(i64{0}, n);
    return;
  }
#pragma omp parallel
  {
    const i64 id = omp_get_thread_num(), threads = omp_get_num_threads();
    const i64 begin = blocks * id / threads * block;
    const i64 end = smaller(blocks * (id + 1) / threads * block, n);
    if (begin < end) f(begin, end);
  }
}

// The same for rows of `cols` elements each.
template <class F>
inline void parallel_rows(i64 rows, i64 cols, F&& f) {
  parallel(rows, larger(1, grain / larger(1, cols)), f);
}

}  // namespace SEQGRAD_LEVEL
}  // namespace seqgrad::kernels
