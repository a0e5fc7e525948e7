// The plain recurrent network's tanh in vectors over the hidden units, rows shared among the threads. Equations: ops.def.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
void rnn_gates(const T* a, i64 ld_a, const T* h, i64 ld_h, T* h_next, i64 ld_h_next, T* y, i64 ld_y, i64 rows, i64 hidden,
               const i64* lengths, i64 t) {
  parallel_rows(rows, hidden * 4, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T* a_r = a + row * ld_a;
      T* next_r = h_next + row * ld_h_next;
      T* y_r = y ? y + row * ld_y : nullptr;
      if (lengths && t >= lengths[row]) {
        copy_row(h + row * ld_h, next_r, hidden);
        clear_row(y_r, hidden);
        continue;
      }
      each<T>(0, hidden, [&](i64 j, auto lanes) {
        const Vec<T> next = tanh(lanes.load(a_r + j));
        lanes.store(next_r + j, next);
        if (y_r) lanes.store(y_r + j, next);
      });
    }
  });
}
SEQGRAD_INSTANTIATE(rnn_gates)

template <class T>
void rnn_gates_backward(const T* dy, i64 ld_dy, const T* h_next, i64 ld_h_next, T* dh, i64 ld_dh, T* da, i64 ld_da, i64 rows,
                        i64 hidden, const i64* lengths, i64 t) {
  parallel_rows(rows, hidden * 2, [&](i64 begin, i64 end) {
    const Vec<T> one(T(1)), zero(T(0));
    for (i64 row = begin; row < end; ++row) {
      const T* next_r = h_next + row * ld_h_next;
      const T* dy_r = dy ? dy + row * ld_dy : nullptr;
      T *dh_r = dh + row * ld_dh, *da_r = da + row * ld_da;
      if (lengths && t >= lengths[row]) {
        clear_row(da_r, hidden);
        continue;
      }
      each<T>(0, hidden, [&](i64 j, auto lanes) {
        const Vec<T> next = lanes.load(next_r + j);
        const Vec<T> d = lanes.load(dh_r + j) + (dy_r ? lanes.load(dy_r + j) : zero);
        lanes.store(da_r + j, d * (one - next * next));
        lanes.store(dh_r + j, zero);
      });
    }
  });
}
SEQGRAD_INSTANTIATE(rnn_gates_backward)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
