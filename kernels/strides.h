// Walking two strided operands of one shape, for *_cpu.cpp files. Thread-safe (values only).
#pragma once

#include "kernels/parallel.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

// Axes from the outermost in; p and q are the strides of the two operands.
struct Axes {
  static constexpr int max = 16;
  int count = 0;
  i64 shape[max], p[max], q[max];

  void add(i64 extent, i64 p_stride, i64 q_stride) {
    shape[count] = extent;
    p[count] = p_stride;
    q[count] = q_stride;
    ++count;
  }

  i64 elements() const {
    i64 product = 1;
    for (int i = 0; i < count; ++i) product *= shape[i];
    return product;
  }

  void remove(int axis) {
    --count;
    for (int i = axis; i < count; ++i) {
      shape[i] = shape[i + 1];
      p[i] = p[i + 1];
      q[i] = q[i + 1];
    }
  }

  // Joins neighbours that both operands step through as one, and drops axes of extent 1.
  void merge() {
    for (int i = count - 1; i >= 0; --i) {
      if (shape[i] == 1) remove(i);
    }
    for (int i = count - 2; i >= 0; --i) {
      if (p[i] == p[i + 1] * shape[i + 1] && q[i] == q[i + 1] * shape[i + 1]) {
        shape[i + 1] *= shape[i];
        remove(i);
      }
    }
  }

  // Puts the smallest q stride innermost (then the smallest p stride). Only where the order of visits is free.
  void sort() {
    const auto size = [](i64 x) { return x < 0 ? -x : x; };
    for (int i = 1; i < count; ++i) {
      for (int j = i; j > 0; --j) {
        const bool inner = size(q[j - 1]) < size(q[j]) || (q[j - 1] == q[j] && size(p[j - 1]) < size(p[j]));
        if (!inner) break;
        swap(j - 1, j);
      }
    }
  }

  void swap(int i, int j) {
    const i64 s = shape[i], a = p[i], b = q[i];
    shape[i] = shape[j], p[i] = p[j], q[i] = q[j];
    shape[j] = s, p[j] = a, q[j] = b;
  }
};

// The offsets of both operands at successive positions of the first `count` axes.
struct Cursor {
  const Axes& axes;
  int count;
  i64 index[Axes::max];
  i64 p = 0, q = 0;

  Cursor(const Axes& walked, int axis_count, i64 position) : axes(walked), count(axis_count) {
    for (int i = count - 1; i >= 0; --i) {
      index[i] = position % axes.shape[i];
      position /= axes.shape[i];
      p += index[i] * axes.p[i];
      q += index[i] * axes.q[i];
    }
  }

  void next() {
    for (int i = count - 1; i >= 0; --i) {
      p += axes.p[i];
      q += axes.q[i];
      if (++index[i] < axes.shape[i]) return;
      p -= axes.shape[i] * axes.p[i];
      q -= axes.shape[i] * axes.q[i];
      index[i] = 0;
    }
  }
};

// row(p, q, begin, n) for each contiguous piece of the innermost axis, in the order of elements, threads sharing the work.
// p and q are the offsets of its first element; begin is its place in the order.
template <class F>
inline void parallel_pieces(const Axes& axes, i64 block, F&& row) {
  const i64 total = axes.elements();
  if (axes.count <= 1) {  // the usual case, without the cursor that would cost small tensors more than the work does
    const i64 p = axes.count ? axes.p[0] : 0, q = axes.count ? axes.q[0] : 0;
    parallel(total, block, [&](i64 begin, i64 end) { row(begin * p, begin * q, begin, end - begin); });
    return;
  }
  const int inner = axes.count - 1;
  const i64 length = axes.shape[inner];
  parallel(total, block, [&](i64 begin, i64 end) {
    Cursor at(axes, inner, begin / length);
    i64 skip = begin % length;
    while (begin < end) {
      const i64 n = smaller(length - skip, end - begin);
      row(at.p + skip * axes.p[inner], at.q + skip * axes.q[inner], begin, n);
      begin += n;
      skip = 0;
      at.next();
    }
  });
}

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
