// Products with weights that were laid out once, as their definition: nothing is gained here by another layout.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::v1 {

template <class T>
void pack_linear(const T* w, i64 ld_w, T* packed, i64 n, i64 k) {
  for (i64 j = 0; j < n; ++j) {
    for (i64 i = 0; i < k; ++i) packed[j * k + i] = w[j * ld_w + i];
  }
}
SEQGRAD_INSTANTIATE(pack_linear)

template <class T>
void packed_linear(const T* x, i64 ld_x, const T* packed, const T* bias, bool accumulate, T* y, i64 ld_y, i64 rows, i64 n,
                   i64 k) {
  for (i64 r = 0; r < rows; ++r) {
    for (i64 j = 0; j < n; ++j) {
      T sum = bias ? bias[j] : T(0);
      if (accumulate) sum += y[r * ld_y + j];
      for (i64 i = 0; i < k; ++i) sum += x[r * ld_x + i] * packed[j * k + i];
      y[r * ld_y + j] = sum;
    }
  }
}
SEQGRAD_INSTANTIATE(packed_linear)

}  // namespace seqgrad::kernels::v1
