// Products with weights that were laid out once, as their definition: nothing is gained here by another layout.
#include "kernels/bf16.h"
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

// f is what becomes of x's element.
template <class T, class F>
static void product(const T* x, i64 ld_x, const T* packed, const T* bias, bool accumulate, T* y, i64 ld_y, i64 rows, i64 n,
                    i64 k, F f) {
  for (i64 r = 0; r < rows; ++r) {
    for (i64 j = 0; j < n; ++j) {
      T sum = 0;
      for (i64 i = 0; i < k; ++i) sum += f(x[r * ld_x + i]) * packed[j * k + i];
      T& y_rj = y[r * ld_y + j];
      y_rj = sum + (bias ? bias[j] : T(0)) + (accumulate ? y_rj : T(0));
    }
  }
}

template <class T>
void packed_linear(const T* x, i64 ld_x, const T* packed, const T* bias, bool accumulate, T* y, i64 ld_y, i64 rows, i64 n,
                   i64 k) {
  product(x, ld_x, packed, bias, accumulate, y, ld_y, rows, n, k, [](T value) { return value; });
}
SEQGRAD_INSTANTIATE(packed_linear)

template <class T>
void pack_linear_bf16(bool transposed, const T* w, i64 ld_w, T* packed, i64 n, i64 k) {
  for (i64 j = 0; j < n; ++j) {
    for (i64 i = 0; i < k; ++i) packed[j * k + i] = rounded_to_bf16(transposed ? w[i * ld_w + j] : w[j * ld_w + i]);
  }
}
SEQGRAD_INSTANTIATE(pack_linear_bf16)

template <class T>
void packed_linear_bf16(const T* x, i64 ld_x, const T* packed, const T* bias, bool accumulate, T* y, i64 ld_y, i64 rows, i64 n,
                        i64 k) {
  product(x, ld_x, packed, bias, accumulate, y, ld_y, rows, n, k, [](T value) { return rounded_to_bf16(value); });
}
SEQGRAD_INSTANTIATE(packed_linear_bf16)

}  // namespace seqgrad::kernels::v1
