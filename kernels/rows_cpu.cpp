// Tables of rows: lookups and their gradient.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/parallel.h"
#include "kernels/simd.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
void gather_rows(const T* table, const i64* ids, T* y, i64 n, i64 dim) {
  parallel_rows(n, dim, [&](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) {
      const T* row = table + ids[i] * dim;
      each<T>(0, dim, [&](i64 j, auto lanes) { lanes.store(y + i * dim + j, lanes.load(row + j)); });
    }
  });
}
SEQGRAD_INSTANTIATE(gather_rows)

// Threads share the columns rather than the ids, so that repeated ids meet no race and add up in order.
template <class T>
void scatter_add_rows(const T* dy, const i64* ids, T* dtable, i64 n, i64 dim, i64 skip) {
  constexpr i64 chunk = 128 / sizeof(T);
  parallel_rows(ceil_divide(dim, chunk), n * chunk, [&](i64 begin, i64 end) {
    for (i64 i = 0; i < n; ++i) {
      if (ids[i] == skip) continue;
      T* row = dtable + ids[i] * dim;
      each<T>(begin * chunk, smaller(end * chunk, dim),
              [&](i64 j, auto lanes) { lanes.store(row + j, lanes.load(row + j) + lanes.load(dy + i * dim + j)); });
    }
  });
}
SEQGRAD_INSTANTIATE(scatter_add_rows)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
