// Products whose rows do not depend on how many rows there are, which cuBLAS does not promise: it chooses its way by the shape.
#include "kernels/bf16.h"
#include "kernels/cuda_walk.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

// As it lies, without gaps.
template <class T>
void pack_linear(const T* w, i64 ld_w, T* packed, i64 n, i64 k) {
  each_element(n * k, [=] __device__(i64 at) { packed[at] = w[at / k * ld_w + at % k]; });
}
SEQGRAD_INSTANTIATE(pack_linear)

constexpr int tile = 16;

template <class T>
void pack_linear_bf16(bool transposed, const T* w, i64 ld_w, T* packed, i64 n, i64 k) {
  const i64 row = transposed ? 1 : ld_w, term = transposed ? ld_w : 1;
  each_element(n * k, [=] __device__(i64 at) { packed[at] = rounded_to_bf16(w[at / k * row + at % k * term]); });
}
SEQGRAD_INSTANTIATE(pack_linear_bf16)

// A block computes a square of y, walking along k: of x, which may be rounded to bf16, and of the
// weight one square at a time is in shared memory.
template <bool rounded, class T>
__global__ void multiply_tiles(const T* x, i64 ld_x, const T* packed, const T* bias, bool accumulate, T* y, i64 ld_y, i64 rows,
                               i64 n, i64 k, i64 tiles_across) {
  SEQGRAD_SHARED(T, x_tile, tile * tile);
  SEQGRAD_SHARED(T, w_tile, tile * tile);
  const int down = static_cast<int>(threadIdx.x) / tile, across = static_cast<int>(threadIdx.x) % tile;
  const i64 first_row = blockIdx.x / tiles_across * tile, first_column = blockIdx.x % tiles_across * tile;
  const i64 row = first_row + down, column = first_column + across, w_row = first_column + down;
  T sum = 0;
  for (i64 from = 0; from < k; from += tile) {
    const i64 i = from + across;
    const T x_i = row < rows && i < k ? x[row * ld_x + i] : T(0);
    x_tile[threadIdx.x] = rounded ? static_cast<T>(rounded_to_bf16(x_i)) : x_i;
    w_tile[threadIdx.x] = w_row < n && i < k ? packed[w_row * k + i] : T(0);
    __syncthreads();
    for (int j = 0; j < tile; ++j) sum += x_tile[down * tile + j] * w_tile[across * tile + j];
    __syncthreads();
  }
  if (row >= rows || column >= n) return;
  T& result = y[row * ld_y + column];
  result = sum + (bias ? bias[column] : T(0)) + (accumulate ? result : T(0));
}

template <bool rounded, class T>
static void multiply(const T* x, i64 ld_x, const T* packed, const T* bias, bool accumulate, T* y, i64 ld_y, i64 rows, i64 n,
                     i64 k) {
  const i64 tiles_across = ceil_divide(n, tile);
  launch(multiply_tiles<rounded, T>, ceil_divide(rows, tile) * tiles_across, tile * tile, x, ld_x, packed, bias, accumulate, y,
         ld_y, rows, n, k, tiles_across);
}

template <class T>
void packed_linear(const T* x, i64 ld_x, const T* packed, const T* bias, bool accumulate, T* y, i64 ld_y, i64 rows, i64 n,
                   i64 k) {
  multiply<false>(x, ld_x, packed, bias, accumulate, y, ld_y, rows, n, k);
}
SEQGRAD_INSTANTIATE(packed_linear)

template <class T>
void packed_linear_bf16(const T* x, i64 ld_x, const T* packed, const T* bias, bool accumulate, T* y, i64 ld_y, i64 rows, i64 n,
                        i64 k) {
  multiply<true>(x, ld_x, packed, bias, accumulate, y, ld_y, rows, n, k);
}
SEQGRAD_INSTANTIATE(packed_linear_bf16)

}  // namespace seqgrad::kernels::cuda
