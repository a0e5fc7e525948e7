// The loops that the .cu files are written in: over elements, over rows, over what a sum runs over. Sums are formed in an order
// that depends on the sizes alone, so results have the same bits whenever and wherever blocks run.
//
//   each_element(n, [=] __device__(i64 i) { y[i] = 2 * x[i]; });
//   each_row(rows, cols, [=] __device__(const Group& group, i64 r) {
//     const T total = group.sum<T>(cols, [&](i64 i) { return x[r * cols + i]; });
//     group.each(cols, [&](i64 i) { y[r * cols + i] = x[r * cols + i] / total; });
//   });
#pragma once

#include "kernels/cuda_device.cuh"
#include "kernels/scalar_math.h"

// Arrays that the threads of a block share; the emulation in tests/ has definitions of its own.
#ifndef SEQGRAD_SHARED
#define SEQGRAD_SHARED(T, name, count) __shared__ T name[count]
#endif

namespace seqgrad::kernels::cuda {

constexpr int block_size = 256, warp = 32, warps_in_block = block_size / warp;
constexpr unsigned all_lanes = 0xFFFFFFFF;
constexpr i64 most_blocks = 1 << 14;  // of loops that stride: enough to fill any device several times

inline i64 ceil_divide(i64 a, i64 b) { return (a + b - 1) / b; }
SEQGRAD_HOST_DEVICE inline i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
inline i64 larger(i64 a, i64 b) { return a > b ? a : b; }

// ---- elements --------------------------------------------------------------------------------------------------------

template <class F>
__global__ void run_elements(i64 n, F f) {
  const i64 step = static_cast<i64>(gridDim.x) * blockDim.x;
  for (i64 i = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) f(i);
}

// f(i) for i in [0, n), in any order.
template <class F>
void each_element(i64 n, F f) {
  launch(run_elements<F>, smaller(ceil_divide(n, block_size), most_blocks), block_size, n, f);
}

// ---- values of other lanes -------------------------------------------------------------------------------------------

template <class T>
__device__ T from_above(T value, int distance) {
  return __shfl_down_sync(all_lanes, value, static_cast<unsigned>(distance));
}
template <class T>
__device__ T from_first(T value) {
  return __shfl_sync(all_lanes, value, 0);
}

// A value and where it stands, for searches.
template <class T>
struct Ranked {
  T value;
  i64 index;  // -1: nothing found
};
// Which comes first from the largest on: a NaN before all else, equals in the order of their places.
template <class T>
__device__ Ranked<T> first_of(Ranked<T> a, Ranked<T> b) {
  if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan != b_nan) return a_nan ? a : b;
  if (a_nan || a.value == b.value) return a.index < b.index ? a : b;
  return a.value > b.value ? a : b;
}
template <class T>
__device__ Ranked<T> from_above(Ranked<T> x, int distance) {
  return {from_above(x.value, distance), from_above(x.index, distance)};
}
template <class T>
__device__ Ranked<T> from_first(Ranked<T> x) {
  return {from_first(x.value), from_first(x.index)};
}

// ---- groups of threads -----------------------------------------------------------------------------------------------

// The threads that share a row: a warp or a whole block. All of them call what is called.
class Group {
 public:
  __device__ Group(int size, int rank) : size_(size), rank_(rank) {}
  __device__ int size() const { return size_; }
  __device__ int rank() const { return rank_; }
  __device__ Group own_warp() const { return Group(warp, rank_ % warp); }

  // f(i) for i in [0, n); the same thread has the same i in every call for that n.
  template <class F>
  __device__ void each(i64 n, F f) const {
    for (i64 i = rank_; i < n; i += size_) f(i);
  }

  // Writes before are seen by all after.
  __device__ void sync() const {
    if (size_ == warp)
      __syncwarp();
    else
      __syncthreads();
  }

  // The threads' values joined in an order that only the group's size decides.
  template <class T, class Join>
  __device__ T reduce(T value, Join join) const {
    for (int distance = warp / 2; distance > 0; distance /= 2) value = join(value, from_above(value, distance));
    if (size_ == warp) return from_first(value);
    SEQGRAD_SHARED(T, partial, warps_in_block);
    if (rank_ % warp == 0) partial[rank_ / warp] = value;
    __syncthreads();
    value = partial[0];
    for (int i = 1; i < size_ / warp; ++i) value = join(value, partial[i]);
    __syncthreads();  // before the next call writes
    return value;
  }

  // sum over i < n of f(i)
  template <class T, class F>
  __device__ T sum(i64 n, F f) const {
    T total = 0;
    each(n, [&](i64 i) { total += f(i); });
    return reduce(total, [](T a, T b) { return a + b; });
  }

  // The largest f(i), NaN where one is NaN; `least` for n = 0.
  template <class T, class F>
  __device__ T max(i64 n, T least, F f) const {
    const auto larger = [](T a, T b) { return a > b || a != a ? a : b; };
    T best = least;
    each(n, [&](i64 i) { best = larger(best, f(i)); });
    return reduce(best, larger);
  }

  // The first, in that order, of those of n elements that wanted(value, place) admits.
  template <class T, class Wanted>
  __device__ Ranked<T> largest(const T* x, i64 n, Wanted wanted) const {
    Ranked<T> best{T(0), -1};
    each(n, [&](i64 i) {
      if (wanted(x[i], i)) best = first_of(best, Ranked<T>{x[i], i});
    });
    return reduce(best, [](Ranked<T> a, Ranked<T> b) { return first_of(a, b); });
  }

 private:
  int size_, rank_;
};

// ---- rows ------------------------------------------------------------------------------------------------------------

template <class F>
__global__ void run_rows_by_warp(i64 rows, F f) {
  const i64 step = static_cast<i64>(gridDim.x) * warps_in_block;
  const Group group(warp, static_cast<int>(threadIdx.x) % warp);
  for (i64 r = static_cast<i64>(blockIdx.x) * warps_in_block + threadIdx.x / warp; r < rows; r += step) f(group, r);
}
template <class F>
__global__ void run_rows_by_block(i64 rows, F f) {
  const Group group(static_cast<int>(blockDim.x), static_cast<int>(threadIdx.x));
  for (i64 r = blockIdx.x; r < rows; r += gridDim.x) {
    f(group, r);
    __syncthreads();
  }
}

// f(group, row): a warp works on each row, on those of more than 1024 columns a block.
template <class F>
void each_row(i64 rows, i64 cols, F f) {
  if (cols <= 1024)
    launch(run_rows_by_warp<F>, smaller(ceil_divide(rows, warps_in_block), most_blocks), block_size, rows, f);
  else
    launch(run_rows_by_block<F>, smaller(rows, most_blocks), block_size, rows, f);
}
template <class F>
void each_row_by_block(i64 rows, F f) {
  launch(run_rows_by_block<F>, smaller(rows, most_blocks), block_size, rows, f);
}

// ---- sums for many results -------------------------------------------------------------------------------------------

template <class Finish>
void add_pieces(i64 outputs, i64 pieces, const double* partial, Finish finish) {
  each_element(outputs, [=] __device__(i64 o) {
    double total = 0;
    for (i64 i = 0; i < pieces; ++i) total += partial[i * outputs + o];
    finish(o, total);
  });
}

// Where a sum is too long for one thread or one group, it is formed in pieces of this length, whose sums are added up after.
constexpr i64 piece_of_column = 256, piece_of_row = 8192;

// finish(o, sum over r < length of term(o, r)) for every o < outputs, in double. For terms of which those of neighbouring o lie
// side by side: a thread adds up a piece of one column.
template <class Term, class Finish>
void sum_columns(i64 outputs, i64 length, Term term, Finish finish) {
  const i64 pieces = ceil_divide(length, piece_of_column);
  const Scratch<double> scratch(pieces > 1 ? pieces * outputs : 0);
  double* const partial = scratch.get();
  each_element(larger(pieces, 1) * outputs, [=] __device__(i64 i) {
    const i64 o = i % outputs, from = i / outputs * piece_of_column, to = smaller(from + piece_of_column, length);
    double total = 0;
    for (i64 r = from; r < to; ++r) total += term(o, r);
    if (partial)
      partial[i] = total;
    else
      finish(o, total);
  });
  if (partial) add_pieces(outputs, pieces, partial, finish);
}

// The same for terms of which those of neighbouring r lie side by side: a group adds up a piece of one row.
template <class Term, class Finish>
void sum_rows(i64 outputs, i64 length, Term term, Finish finish) {
  const i64 pieces = ceil_divide(length, piece_of_row);
  const Scratch<double> scratch(pieces > 1 ? pieces * outputs : 0);
  double* const partial = scratch.get();
  each_row(larger(pieces, 1) * outputs, smaller(length, piece_of_row), [=] __device__(const Group& group, i64 i) {
    const i64 o = i % outputs, from = i / outputs * piece_of_row, n = smaller(piece_of_row, length - from);
    const double total = group.sum<double>(n, [&](i64 r) { return term(o, from + r); });
    if (group.rank() > 0) return;
    if (partial)
      partial[i] = total;
    else
      finish(o, total);
  });
  if (partial) add_pieces(outputs, pieces, partial, finish);
}

}  // namespace seqgrad::kernels::cuda
