// A walk over a shape with two operands that have strides of their own, for device code. Values only.
#pragma once

#include "kernels/cuda_loops.cuh"

namespace seqgrad::kernels::cuda {

struct Walk {
  static constexpr int most = 16;
  int count = 0;
  i64 shape[most] = {}, p[most] = {}, q[most] = {};  // q: the second operand

  void add(i64 extent, i64 p_stride, i64 q_stride) {
    shape[count] = extent;
    p[count] = p_stride;
    q[count] = q_stride;
    ++count;
  }

  // Axes of extent 1 go; neighbours that both operands step through as one become one.
  Walk merged() const {
    Walk result;
    for (int i = 0; i < count; ++i) {
      if (shape[i] == 1) continue;
      const int last = result.count - 1;
      if (last >= 0 && result.p[last] == p[i] * shape[i] && result.q[last] == q[i] * shape[i]) {
        result.shape[last] *= shape[i];
        result.p[last] = p[i];
        result.q[last] = q[i];
      } else {
        result.add(shape[i], p[i], q[i]);
      }
    }
    return result;
  }

  // The axes along which steps(p stride, q stride) holds.
  template <class F>
  Walk where(F holds) const {
    Walk result;
    for (int i = 0; i < count; ++i)
      if (holds(p[i], q[i])) result.add(shape[i], p[i], q[i]);
    return result;
  }

  i64 elements() const {
    i64 product = 1;
    for (int i = 0; i < count; ++i) product *= shape[i];
    return product;
  }

  // Both offsets of element i, in row-major order.
  SEQGRAD_HOST_DEVICE void find(i64 i, i64& at_p, i64& at_q) const {
    at_p = at_q = 0;
    for (int axis = count - 1; axis >= 0; --axis) {
      const i64 index = axis > 0 ? i % shape[axis] : i;
      if (axis > 0) i /= shape[axis];
      at_p += index * p[axis];
      at_q += index * q[axis];
    }
  }
};

inline Walk walk(const i64* shape, const i64* p_strides, const i64* q_strides, i64 ndim) {
  Walk all;
  for (i64 i = 0; i < ndim; ++i) all.add(shape[i], p_strides[i], q_strides[i]);
  return all;
}

}  // namespace seqgrad::kernels::cuda
