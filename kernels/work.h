// What a call of each routine of ops.def costs at the least: see Work in profile.h. For dispatch.cpp. A routine that is missing
// here is timed, and its work shown as unknown. Thread-safe (values only).
//
//   Work work(routine::softmax, const T* x, T* y, i64 rows, i64 cols)       the routine's own arguments
//
// Rows that have come to their end (lengths) count like the others.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/profile.h"

namespace seqgrad::kernels {

namespace routine {
#define SEQGRAD_KERNEL(name, parameters, arguments) \
  struct name {};
#include "kernels/ops.def"
#undef SEQGRAD_KERNEL
}  // namespace routine

// operations, and elements of T that pass
template <class T>
Work work_on(i64 flops, i64 elements) {
  return {static_cast<double>(flops), static_cast<double>(elements) * sizeof(T), {}};
}

// Elements that a walk over `shape` meets where a stride of 0 stands still.
inline i64 elements_met(const i64* strides, const i64* shape, i64 ndim) {
  i64 product = 1;
  for (i64 i = 0; i < ndim; ++i)
    if (strides[i] != 0 || shape[i] == 0) product *= shape[i];
  return product;
}
inline i64 elements_of(const i64* shape, i64 ndim) {
  i64 product = 1;
  for (i64 i = 0; i < ndim; ++i) product *= shape[i];
  return product;
}

// ---- matrix products -------------------------------------------------------------------------------------------------

template <class T>
Work product_work(bool ta, bool tb, i64 m, i64 n, i64 k, T beta, bool one_a, bool one_b, i64 batch) {
  Work result = work_on<T>(2 * m * n * k * batch,
                           m * k * (one_a ? 1 : batch) + k * n * (one_b ? 1 : batch) + m * n * batch * (beta == 0 ? 1 : 2));
  result.product = {m, n, k, batch, ta, tb};
  return result;
}
template <class T>
Work work(routine::gemm, bool ta, bool tb, i64 m, i64 n, i64 k, T, const T*, i64, const T*, i64, T beta, T*, i64) {
  return product_work(ta, tb, m, n, k, beta, true, true, 1);
}
template <class T>
Work work(routine::gemm_bf16, bool ta, bool tb, i64 m, i64 n, i64 k, T, const T*, i64, const T*, i64, T beta, T*, i64) {
  return product_work(ta, tb, m, n, k, beta, true, true, 1);
}
template <class T>
Work work(routine::gemm_batched, bool ta, bool tb, i64 m, i64 n, i64 k, T, const T*, i64, i64 stride_a, const T*, i64,
          i64 stride_b, T beta, T*, i64, i64, i64 batch) {
  return product_work(ta, tb, m, n, k, beta, stride_a == 0, stride_b == 0, batch);
}

template <class T>
Work work(routine::pack_linear, const T*, i64, T*, i64 n, i64 k) {
  return work_on<T>(0, 2 * n * k);
}
template <class T>
Work work(routine::packed_linear, const T*, i64, const T*, const T*, bool accumulate, T*, i64, i64 rows, i64 n, i64 k) {
  return product_work(false, true, rows, n, k, T(accumulate), true, true, 1);
}
template <class T>
Work work(routine::pack_linear_bf16, bool, const T*, i64, T*, i64 n, i64 k) {
  return work_on<T>(0, 2 * n * k);
}
template <class T>
Work work(routine::packed_linear_bf16, const T*, i64, const T*, const T*, bool accumulate, T*, i64, i64 rows, i64 n, i64 k) {
  return product_work(false, true, rows, n, k, T(accumulate), true, true, 1);
}

// ---- moving and reducing ---------------------------------------------------------------------------------------------

template <class T>
Work work(routine::fill, T*, T, i64 n) {
  return work_on<T>(0, n);
}
template <class T>
Work work(routine::affine, const T*, T*, T, T, i64 n) {
  return work_on<T>(2 * n, 2 * n);
}
template <class T>
Work work(routine::copy_strided, const T*, const i64* x_strides, T*, const i64*, const i64* shape, i64 ndim) {
  return work_on<T>(0, elements_met(x_strides, shape, ndim) + elements_of(shape, ndim));
}
template <class T>
Work work(routine::add_strided, T, const T*, const i64* x_strides, T*, const i64* y_strides, const i64* shape, i64 ndim) {
  return work_on<T>(2 * elements_of(shape, ndim),
                    elements_met(x_strides, shape, ndim) + 2 * elements_met(y_strides, shape, ndim));
}
template <class T>
Work work(routine::max_reduce, const T*, T*, i64*, i64 outer, i64 n, i64 inner) {
  Work result = work_on<T>(outer * n * inner, outer * inner * (n + 1));
  result.bytes += static_cast<double>(outer * inner * 8);
  return result;
}
template <class T>
Work work(routine::max_reduce_backward, const T*, const i64*, T*, i64 outer, i64, i64 inner) {
  Work result = work_on<T>(outer * inner, 3 * outer * inner);
  result.bytes += static_cast<double>(outer * inner * 8);
  return result;
}
template <class T>
Work work(routine::norm_and_clip, const T*, i64 n, double, double*) {
  return work_on<T>(2 * n, n);
}

// ---- softmax family ----------------------------------------------------------------------------------------------------

template <class T>
Work work(routine::softmax, const T*, T*, i64 rows, i64 cols) {
  return work_on<T>(5 * rows * cols, 2 * rows * cols);
}
template <class T>
Work work(routine::softmax_backward, const T*, const T*, T*, i64 rows, i64 cols) {
  return work_on<T>(4 * rows * cols, 3 * rows * cols);
}
template <class T>
Work work(routine::masked_softmax, const T*, const bool*, T*, i64 rows, i64 cols, i64 repeat) {
  Work result = work_on<T>(5 * rows * cols, 2 * rows * cols);
  result.bytes += static_cast<double>(rows * cols / repeat);
  return result;
}
template <class T>
Work work(routine::log_softmax, const T*, T*, i64 rows, i64 cols) {
  return work_on<T>(6 * rows * cols, 2 * rows * cols);
}
template <class T>
Work work(routine::log_softmax_backward, const T*, const T*, T*, i64 rows, i64 cols) {
  return work_on<T>(4 * rows * cols, 3 * rows * cols);
}
template <class T>
Work work(routine::cross_entropy, const T*, const i64*, T*, T* gradient, i64 rows, i64 cols, i64, T) {
  return work_on<T>((gradient ? 6 : 4) * rows * cols, (gradient ? 2 : 1) * rows * cols);
}
template <class T>
Work work(routine::layer_norm, const T*, const T*, const T*, T*, T*, T*, i64 rows, i64 cols, T) {
  return work_on<T>(8 * rows * cols, 2 * rows * cols);
}
template <class T>
Work work(routine::layer_norm_backward, const T*, const T*, const T*, const T*, const T*, T* dx, T*, T*, i64 rows, i64 cols) {
  return work_on<T>(13 * rows * cols, (dx ? 3 : 2) * rows * cols);
}

// ---- tables of rows, dropout -------------------------------------------------------------------------------------------

template <class T>
Work work(routine::gather_rows, const T*, const i64*, T*, i64 n, i64 dim) {
  return work_on<T>(0, 2 * n * dim);
}
template <class T>
Work work(routine::scatter_add_rows, const T*, const i64*, T*, i64 n, i64 dim, i64) {
  return work_on<T>(n * dim, 3 * n * dim);
}
template <class T>
Work work(routine::dropout, const T*, T*, i64 n, T, u64, u64) {
  return work_on<T>(n, 2 * n);
}

// ---- recurrent cells -----------------------------------------------------------------------------------------------------
// Elements per unit of the state: its gates, the states before and after, what the backward needs.

template <class T>
Work work(routine::gru_gates, const T*, i64, const T*, i64, const T*, i64, T*, i64, T* y, i64, T* gates, i64, i64 rows,
          i64 hidden, const i64*, i64) {
  return work_on<T>(11 * rows * hidden, (8 + (y ? 1 : 0) + (gates ? 4 : 0)) * rows * hidden);
}
template <class T>
Work work(routine::gru_gates_backward, const T* dy, i64, const T*, i64, const T*, i64, T*, i64, T*, i64, T*, i64, i64 rows,
          i64 hidden, const i64*, i64) {
  return work_on<T>(17 * rows * hidden, (13 + (dy ? 1 : 0)) * rows * hidden);
}
template <class T>
Work work(routine::lstm_gates, const T*, i64, const T*, i64, const T*, i64, T*, i64, T*, i64, T* y, i64, T* gates, i64,
          i64 rows, i64 hidden, const i64*, i64) {
  return work_on<T>(9 * rows * hidden, (7 + (y ? 1 : 0) + (gates ? 4 : 0)) * rows * hidden);
}
template <class T>
Work work(routine::lstm_gates_backward, const T* dy, i64, const T*, i64, const T*, i64, const T*, i64, T*, i64, T*, i64, T*,
          i64, i64 rows, i64 hidden, const i64*, i64) {
  return work_on<T>(24 * rows * hidden, (14 + (dy ? 1 : 0)) * rows * hidden);
}
template <class T>
Work work(routine::rnn_gates, const T*, i64, const T*, i64, T*, i64, T* y, i64, i64 rows, i64 hidden, const i64*, i64) {
  return work_on<T>(rows * hidden, (2 + (y ? 1 : 0)) * rows * hidden);
}
template <class T>
Work work(routine::rnn_gates_backward, const T* dy, i64, const T*, i64, T*, i64, T*, i64, i64 rows, i64 hidden, const i64*,
          i64) {
  return work_on<T>(4 * rows * hidden, (4 + (dy ? 1 : 0)) * rows * hidden);
}

template <class T>
Work work(routine::additive_scores, const T*, const T*, const T*, T*, i64 batch, i64 length, i64 dim) {
  return work_on<T>(4 * batch * length * dim, batch * (length * dim + dim + length) + dim);
}
template <class T>
Work work(routine::additive_scores_backward, const T*, const T*, const T*, const T*, T*, T*, T*, i64 batch, i64 length,
          i64 dim) {
  return work_on<T>(10 * batch * length * dim, batch * (3 * length * dim + 3 * dim + length) + dim);
}

// ---- search --------------------------------------------------------------------------------------------------------------

inline i64 sum_of(const i64* values, i64 count) {
  i64 sum = 0;
  for (i64 i = 0; i < count; ++i) sum += values[i];
  return sum;
}
template <class T>
Work work(routine::attend, const T*, i64, const T* keys, const T* v, T, const i64*, const i64* lengths, T*, i64, i64 rows,
          i64 key_dim) {
  const i64 looks = sum_of(lengths, rows), read = keys ? key_dim : 0;
  return work_on<T>(looks * ((v ? 4 : 2) * read + 5), looks * (read + 1) + rows * read);
}
template <class T>
Work work(routine::mix_rows, const T*, i64, const T*, i64, const i64*, const i64* lengths, bool accumulate, T*, i64, i64 rows,
          i64 dim) {
  const i64 looks = sum_of(lengths, rows);
  return work_on<T>(2 * looks * dim, looks * (dim + 1) + rows * dim * (accumulate ? 2 : 1));
}
template <class T>
Work work(routine::top_of_rows, const T*, bool normalize, T*, i64*, i64 rows, i64 cols, i64 k) {
  Work result = work_on<T>((normalize ? 4 : 1) * rows * cols, rows * (cols + k));
  result.bytes += static_cast<double>(rows * k * 8);
  return result;
}

// ---- optimisers ------------------------------------------------------------------------------------------------------------

template <class T>
Work work(routine::sgd_step, T*, const T*, T* velocity, i64 n, T, T, const double*) {
  return work_on<T>((velocity ? 5 : 3) * n, (velocity ? 5 : 3) * n);
}
template <class T>
Work work(routine::adam_step, T*, const T*, T*, T*, i64 n, double, double, double, double, double, double, const double*) {
  return work_on<T>(14 * n, 7 * n);
}

// ---- elementwise families: the functor counts as one operation
// ---------------------------------------------------------------

template <class T>
Work unary_work(i64 n) {
  return work_on<T>(n, 2 * n);
}
template <class T>
Work unary_backward_work(i64 n) {  // x or y, dy, dx
  return work_on<T>(2 * n, 3 * n);
}
template <class T>
Work binary_work(const i64* a_strides, const i64* b_strides, const i64* shape, i64 ndim) {
  return work_on<T>(elements_of(shape, ndim),
                    elements_met(a_strides, shape, ndim) + elements_met(b_strides, shape, ndim) + elements_of(shape, ndim));
}
template <class T>
Work binary_backward_work(const T* da, const T* db, const i64* shape, i64 ndim) {
  const i64 n = elements_of(shape, ndim), outputs = (da ? 1 : 0) + (db ? 1 : 0);
  return work_on<T>(outputs * n, (1 + outputs) * n);
}

// The work of any routine; none for one that is not listed above.
template <class Routine, class... A>
Work work_of(Routine which, const A&... arguments) {
  if constexpr (requires { work(which, arguments...); })
    return work(which, arguments...);
  else
    return {};
}

}  // namespace seqgrad::kernels
