// Tables of rows and dropout, as their definitions.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/philox.h"

namespace seqgrad::kernels::v1 {

template <class T>
void gather_rows(const T* table, const i64* ids, T* y, i64 n, i64 dim) {
  for (i64 i = 0; i < n; ++i) {
    for (i64 j = 0; j < dim; ++j) y[i * dim + j] = table[ids[i] * dim + j];
  }
}
SEQGRAD_INSTANTIATE(gather_rows)

template <class T>
void scatter_add_rows(const T* dy, const i64* ids, T* dtable, i64 n, i64 dim, i64 skip) {
  for (i64 i = 0; i < n; ++i) {
    if (ids[i] == skip) continue;
    for (i64 j = 0; j < dim; ++j) dtable[ids[i] * dim + j] += dy[i * dim + j];
  }
}
SEQGRAD_INSTANTIATE(scatter_add_rows)

template <class T>
void dropout(const T* x, T* y, i64 n, T p, u64 seed, u64 stream) {
  const u64 threshold = dropout_threshold(p);
  const T scale = 1 / (1 - p);
  for (i64 i = 0; i < n; ++i) {
    const u32 word = philox(seed, stream, static_cast<u64>(i) / 4).word[i % 4];
    y[i] = word >= threshold ? x[i] * scale : 0;
  }
}
SEQGRAD_INSTANTIATE(dropout)

}  // namespace seqgrad::kernels::v1
