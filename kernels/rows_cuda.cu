// Tables of rows, and dropout.
#include "kernels/cuda_loops.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/philox.h"

namespace seqgrad::kernels::cuda {

template <class T>
void gather_rows(const T* table, const i64* ids, T* y, i64 n, i64 dim) {
  each_element(n * dim, [=] __device__(i64 at) { y[at] = table[ids[at / dim] * dim + at % dim]; });
}
SEQGRAD_INSTANTIATE(gather_rows)

// Without atomics, so that equal ids add up in their order: the group of an id's first place does the work for all of its
// places, which its warps find by a vote over 32 ids at a time.
template <class T>
void scatter_add_rows(const T* dy, const i64* ids, T* dtable, i64 n, i64 dim, i64 skip) {
  each_row(n, dim, [=] __device__(const Group& group, i64 first) {
    const i64 id = ids[first];
    if (id == skip) return;
    const int lane = group.own_warp().rank();
    const auto places = [&](i64 from, i64 end) {  // bit i: whether place from + i has this id
      return __ballot_sync(all_lanes, from + lane < end && ids[from + lane] == id);
    };
    for (i64 from = 0; from < first; from += warp)
      if (places(from, first)) return;
    for (i64 from = first; from < n; from += warp)
      for (unsigned found = places(from, n); found; found &= found - 1) {
        const i64 row = from + __ffs(static_cast<int>(found)) - 1;
        group.each(dim, [&](i64 j) { dtable[id * dim + j] += dy[row * dim + j]; });
      }
  });
}
SEQGRAD_INSTANTIATE(scatter_add_rows)

// Four elements to a thread: those of one block of words.
template <class T>
void dropout(const T* x, T* y, i64 n, T p, u64 seed, u64 stream) {
  const u64 threshold = dropout_threshold(static_cast<double>(p));
  const T scale = 1 / (1 - p);
  each_element(ceil_divide(n, 4), [=] __device__(i64 block) {
    const Philox words = philox(seed, stream, static_cast<u64>(block));
    for (int k = 0; k < 4 && 4 * block + k < n; ++k) {
      const i64 i = 4 * block + k;
      y[i] = words.word[k] >= threshold ? x[i] * scale : T(0);
    }
  });
}
SEQGRAD_INSTANTIATE(dropout)

}  // namespace seqgrad::kernels::cuda
