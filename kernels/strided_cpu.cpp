// Copies and sums over strided shapes, and the maximum. Axes are merged and reordered first, so that a few inner loops serve
// every view: rows of contiguous elements, blocks of a transposition, and three kinds of sums.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"
#include "kernels/strides.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

// y = x or y += alpha x
template <class T, bool accumulate>
struct Move {
  T alpha;
  SEQGRAD_INLINE void operator()(const T* x, T* y) const { *y = accumulate ? *y + alpha * *x : *x; }
  template <class Lanes>
  SEQGRAD_INLINE void operator()(Vec<T> x, T* y, Lanes lanes) const {
    lanes.store(y, accumulate ? fma(Vec<T>(alpha), x, lanes.load(y)) : x);
  }
};

template <class T, class Op>
static void move_row(Op op, const T* x, i64 x_step, T* y, i64 y_step, i64 n) {
  if (y_step == 1 && x_step == 1) {
    each<T>(0, n, [&](i64 i, auto lanes) { op(lanes.load(x + i), y + i, lanes); });
  } else if (y_step == 1 && x_step == 0) {
    each<T>(0, n, [&](i64 i, auto lanes) { op(Vec<T>(*x), y + i, lanes); });
  } else {
    for (i64 i = 0; i < n; ++i) op(x + i * x_step, y + i * y_step);
  }
}

// x's contiguous axis is not y's: blocks whose cache lines, 16 to read and 64 to write, stay until every element is used.
template <class T, class Op>
static void move_transposed(Op op, const Axes& axes, int x_axis, const T* x, T* y) {
  constexpr i64 row_block = 64, col_block = 16;
  const int y_axis = axes.count - 1;
  Axes outer = axes;
  outer.remove(y_axis);
  outer.remove(x_axis);
  const i64 rows = axes.shape[x_axis], cols = axes.shape[y_axis];
  const i64 x_step = axes.p[y_axis], y_step = axes.q[x_axis], x_one = axes.p[x_axis], y_one = axes.q[y_axis];
  const i64 strips = ceil_divide(rows, row_block);
  parallel_rows(outer.elements() * strips, row_block * cols, [&](i64 begin, i64 end) {
    for (i64 task = begin; task < end; ++task) {
      const Cursor at(outer, outer.count, task / strips);
      const i64 r0 = task % strips * row_block, r1 = smaller(r0 + row_block, rows);
      for (i64 c0 = 0; c0 < cols; c0 += col_block) {
        const i64 c1 = smaller(c0 + col_block, cols);
        for (i64 r = r0; r < r1; ++r) {
          for (i64 c = c0; c < c1; ++c) op(x + at.p + r * x_one + c * x_step, y + at.q + r * y_step + c * y_one);
        }
      }
    }
  });
}

template <class T, class Op>
static void move(Op op, Axes& axes, const T* x, T* y) {
  if (axes.count > 1) {
    axes.sort();
    axes.merge();
  }
  const int inner = axes.count - 1;
  if (inner >= 0 && axes.elements() == 0) return;
  if (inner > 0 && axes.p[inner] != 1 && axes.p[inner] != 0) {
    for (int i = inner - 1; i >= 0; --i) {
      if (axes.p[i] == 1) return move_transposed(op, axes, i, x, y);
    }
  }
  const i64 x_step = inner < 0 ? 1 : axes.p[inner], y_step = inner < 0 ? 1 : axes.q[inner];
  parallel_pieces(axes, grain, [&](i64 x_at, i64 y_at, i64, i64 n) { move_row(op, x + x_at, x_step, y + y_at, y_step, n); });
}

template <class T>
void copy_strided(const T* x, const i64* x_strides, T* y, const i64* y_strides, const i64* shape, i64 ndim) {
  Axes axes;
  for (i64 i = 0; i < ndim; ++i) axes.add(shape[i], x_strides[i], y_strides[i]);
  move(Move<T, false>{1}, axes, x, y);
}
SEQGRAD_INSTANTIATE(copy_strided)

// ---- sums ----------------------------------------------------------------------------------------------------------------
// `kept` axes lead to an element of y each; `reduced` axes (p: strides of x) are summed over. Long sums go up in three steps:
// lanes of a vector, runs of up to `segment` elements, and a double.

constexpr i64 segment = 4096;

template <class T>
static T sum_run(const T* x, i64 step, i64 n) {
  if (step == 1) return sum_row<T>(n, [&](i64 i, auto lanes) { return lanes.load(x + i); });
  T s[4] = {};
  i64 i = 0;
  for (; i + 4 <= n; i += 4) {
    for (i64 j = 0; j < 4; ++j) s[j] += x[(i + j) * step];
  }
  for (; i < n; ++i) s[0] += x[i * step];
  return (s[0] + s[1]) + (s[2] + s[3]);
}

// The reduced elements in units of one segment of the innermost axis; the sum of units [begin, end).
template <class T>
static double sum_units(const Axes& reduced, i64 segments, const T* x, i64 begin, i64 end) {
  if (reduced.count == 0) return *x;
  const int inner = reduced.count - 1;
  const i64 length = reduced.shape[inner], step = reduced.p[inner];
  Cursor at(reduced, inner, begin / segments);
  double total = 0;
  for (i64 unit = begin, s = begin % segments; unit < end; ++unit) {
    total += sum_run(x + at.p + s * segment * step, step, smaller(segment, length - s * segment));
    if (++s == segments) {
      s = 0;
      at.next();
    }
  }
  return total;
}

// Each element of y for itself: many elements are shared among the threads, the sum of few is cut into fixed blocks.
template <class T>
static void add_sums(T alpha, const Axes& kept, const Axes& reduced, const T* x, T* y) {
  constexpr i64 max_blocks = 256;
  const i64 length = reduced.count ? reduced.shape[reduced.count - 1] : 1;
  const i64 segments = ceil_divide(length, segment), elements = reduced.elements(), sums = kept.elements();
  const i64 units = elements / length * segments;
  if (sums >= 64 || elements < 4 * grain) {
    parallel_rows(sums, elements, [&](i64 begin, i64 end) {
      Cursor at(kept, kept.count, begin);
      for (i64 i = begin; i < end; ++i, at.next()) {
        y[at.q] += alpha * static_cast<T>(sum_units(reduced, segments, x + at.p, 0, units));
      }
    });
    return;
  }
  const i64 blocks = smaller(units, max_blocks);
  Cursor at(kept, kept.count, 0);
  for (i64 i = 0; i < sums; ++i, at.next()) {
    double partial[max_blocks];
    parallel(blocks, 1, [&](i64 begin, i64 end) {
      for (i64 b = begin; b < end; ++b) {
        partial[b] = sum_units(reduced, segments, x + at.p, units * b / blocks, units * (b + 1) / blocks);
      }
    });
    double total = 0;
    for (i64 b = 0; b < blocks; ++b) total += partial[b];
    y[at.q] += alpha * static_cast<T>(total);
  }
}

// total[0..n) = the sum of rows [begin, end): x at the positions of the reduced axes. Eight rows at a time are added to a
// running sum in cache, which is emptied into the total every 1024 rows.
template <class T>
static void sum_rows(const Axes& reduced, const T* x, i64 n, i64 begin, i64 end, T* running, T* total) {
  each<T>(0, n, [&](i64 j, auto lanes) { lanes.store(total + j, Vec<T>(T(0))); });
  Cursor at(reduced, reduced.count, begin);
  while (begin < end) {
    const i64 stop = smaller(begin + 1024, end);
    each<T>(0, n, [&](i64 j, auto lanes) { lanes.store(running + j, Vec<T>(T(0))); });
    while (begin < stop) {
      const T* row[8];
      const i64 count = smaller(8, stop - begin);
      for (i64 r = 0; r < count; ++r, at.next()) row[r] = x + at.p;
      if (count == 8) {
        each<T>(0, n, [&](i64 j, auto lanes) {
          const Vec<T> a =
              (lanes.load(row[0] + j) + lanes.load(row[1] + j)) + (lanes.load(row[2] + j) + lanes.load(row[3] + j));
          const Vec<T> b =
              (lanes.load(row[4] + j) + lanes.load(row[5] + j)) + (lanes.load(row[6] + j) + lanes.load(row[7] + j));
          lanes.store(running + j, lanes.load(running + j) + (a + b));
        });
      } else {
        for (i64 r = 0; r < count; ++r) {
          each<T>(0, n, [&](i64 j, auto lanes) { lanes.store(running + j, lanes.load(running + j) + lanes.load(row[r] + j)); });
        }
      }
      begin += count;
    }
    each<T>(0, n, [&](i64 j, auto lanes) { lanes.store(total + j, lanes.load(total + j) + lanes.load(running + j)); });
  }
}

// x is contiguous along the innermost kept axis, so whole rows are added: the threads share strips of columns and, where
// there are few of those, fixed blocks of rows.
template <class T>
static void add_rows(T alpha, const Axes& kept, const Axes& reduced, const T* x, T* y) {
  constexpr i64 width = 512;
  const int inner = kept.count - 1;
  const i64 cols = kept.shape[inner], y_step = kept.q[inner], rows = reduced.elements();
  const i64 strips = ceil_divide(cols, width), tasks = kept.elements() / cols * strips;
  const i64 blocks = tasks >= 16 ? 1 : smaller(16, ceil_divide(rows * smaller(cols, width), 4 * grain));
  T* partial = static_cast<T*>(__builtin_malloc(static_cast<u64>(tasks * blocks * width) * sizeof(T)));
  parallel_rows(tasks * blocks, ceil_divide(rows, blocks) * smaller(cols, width), [&](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) {
      const i64 task = i / blocks, block = i % blocks, j = task % strips * width;
      const Cursor at(kept, inner, task / strips);
      T running[width];
      sum_rows(reduced, x + at.p + j, smaller(width, cols - j), rows * block / blocks, rows * (block + 1) / blocks, running,
               partial + i * width);
    }
  });
  parallel_rows(tasks, blocks * smaller(cols, width), [&](i64 begin, i64 end) {
    for (i64 task = begin; task < end; ++task) {
      const i64 j = task % strips * width, n = smaller(width, cols - j);
      const Cursor at(kept, inner, task / strips);
      T* total = partial + task * blocks * width;
      for (i64 b = 1; b < blocks; ++b) {
        const T* more = total + b * width;
        each<T>(0, n, [&](i64 i, auto lanes) { lanes.store(total + i, lanes.load(total + i) + lanes.load(more + i)); });
      }
      move_row(Move<T, true>{alpha}, total, 1, y + at.q + j * y_step, y_step, n);
    }
  });
  __builtin_free(partial);
}

template <class T>
void add_strided(T alpha, const T* x, const i64* x_strides, T* y, const i64* y_strides, const i64* shape, i64 ndim) {
  Axes kept, reduced;
  for (i64 i = 0; i < ndim; ++i) {
    if (shape[i] == 0) return;
    if (y_strides[i] == 0) {
      reduced.add(shape[i], 0, x_strides[i]);  // q, so that sort() puts the contiguous axis innermost
    } else {
      kept.add(shape[i], x_strides[i], y_strides[i]);
    }
  }
  if (reduced.count == 0) return move(Move<T, true>{alpha}, kept, x, y);
  reduced.sort();
  for (int i = 0; i < reduced.count; ++i) {
    reduced.p[i] = reduced.q[i];
    reduced.q[i] = 0;
  }
  reduced.merge();
  if (reduced.count == 0) return move(Move<T, true>{alpha}, kept, x, y);
  kept.merge();
  for (int i = 0; i < kept.count; ++i) {  // the order of the kept axes is free as well
    if (kept.p[i] == 1) {
      while (i + 1 < kept.count) kept.swap(i, i + 1), ++i;
      break;
    }
  }
  const bool rows = kept.count > 0 && kept.p[kept.count - 1] == 1 && reduced.p[reduced.count - 1] != 1;
  return rows ? add_rows(alpha, kept, reduced, x, y) : add_sums(alpha, kept, reduced, x, y);
}
SEQGRAD_INSTANTIATE(add_strided)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
