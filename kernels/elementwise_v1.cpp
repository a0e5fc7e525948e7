// The elementwise families, as their definitions.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::v1 {

template <class Op, class T>
void unary(const T* x, T* y, i64 n) {
  for (i64 i = 0; i < n; ++i) y[i] = Op::forward(x[i]);
}

template <class Op, class T>
void unary_backward(const T* x, const T* y, const T* dy, T* dx, i64 n) {
  for (i64 i = 0; i < n; ++i) dx[i] = Op::backward(x[i], y[i], dy[i]);
}

// Calls visit(a, b) for every element of `shape`, in the order of the contiguous y.
template <class T, class Visit>
static void broadcast(const T* a, const i64* a_strides, const T* b, const i64* b_strides, const i64* shape, i64 ndim,
                      Visit& visit) {
  if (ndim == 0) {
    visit(*a, *b);
    return;
  }
  for (i64 i = 0; i < shape[0]; ++i) {
    broadcast(a + i * a_strides[0], a_strides + 1, b + i * b_strides[0], b_strides + 1, shape + 1, ndim - 1, visit);
  }
}

template <class Op, class T>
void binary(const T* a, const i64* a_strides, const T* b, const i64* b_strides, T* y, const i64* shape, i64 ndim) {
  auto visit = [&](T a_i, T b_i) { *y++ = Op::forward(a_i, b_i); };
  broadcast(a, a_strides, b, b_strides, shape, ndim, visit);
}

template <class Op, class T>
void binary_backward(const T* a, const i64* a_strides, const T* b, const i64* b_strides, const T* y, const T* dy, T* da, T* db,
                     const i64* shape, i64 ndim) {
  i64 i = 0;
  auto visit = [&](T a_i, T b_i) {
    T da_i, db_i;
    Op::backward(a_i, b_i, y[i], dy[i], da_i, db_i);
    if (da) da[i] = da_i;
    if (db) db[i] = db_i;
    ++i;
  };
  broadcast(a, a_strides, b, b_strides, shape, ndim, visit);
}

SEQGRAD_UNARY_OPS(SEQGRAD_INSTANTIATE_UNARY)
SEQGRAD_BINARY_OPS(SEQGRAD_INSTANTIATE_BINARY)

}  // namespace seqgrad::kernels::v1
