// LSTM gates in vectors over the hidden units, rows shared among the threads. Equations and derivation: ops.def.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
void lstm_gates(const T* a, i64 ld_a, const T* h, i64 ld_h, const T* c, i64 ld_c, T* h_next, i64 ld_h_next, T* c_next,
                i64 ld_c_next, T* y, i64 ld_y, T* gates, i64 ld_gates, i64 rows, i64 hidden, const i64* lengths, i64 t) {
  const i64 H = hidden;
  parallel_rows(rows, H * 10, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T *a_r = a + row * ld_a, *c_r = c + row * ld_c;
      T *h_next_r = h_next + row * ld_h_next, *c_next_r = c_next + row * ld_c_next;
      T* y_r = y ? y + row * ld_y : nullptr;
      T* gates_r = gates ? gates + row * ld_gates : nullptr;
      if (lengths && t >= lengths[row]) {
        copy_row(h + row * ld_h, h_next_r, H);
        copy_row(c_r, c_next_r, H);
        clear_row(y_r, H);
        clear_row(gates_r, 4 * H);
        continue;
      }
      each<T>(0, H, [&](i64 j, auto lanes) {
        const Vec<T> i = sigmoid(lanes.load(a_r + j)), f = sigmoid(lanes.load(a_r + H + j));
        const Vec<T> g = tanh(lanes.load(a_r + 2 * H + j)), o = sigmoid(lanes.load(a_r + 3 * H + j));
        const Vec<T> cell = fma(f, lanes.load(c_r + j), i * g);
        const Vec<T> next = o * tanh(cell);
        lanes.store(c_next_r + j, cell);
        lanes.store(h_next_r + j, next);
        if (y_r) lanes.store(y_r + j, next);
        if (!gates_r) return;
        lanes.store(gates_r + j, i);
        lanes.store(gates_r + H + j, f);
        lanes.store(gates_r + 2 * H + j, g);
        lanes.store(gates_r + 3 * H + j, o);
      });
    }
  });
}
SEQGRAD_INSTANTIATE(lstm_gates)

template <class T>
void lstm_gates_backward(const T* dy, i64 ld_dy, const T* gates, i64 ld_gates, const T* c, i64 ld_c, const T* c_next,
                         i64 ld_c_next, T* dh, i64 ld_dh, T* dc, i64 ld_dc, T* da, i64 ld_da, i64 rows, i64 hidden,
                         const i64* lengths, i64 t) {
  const i64 H = hidden;
  parallel_rows(rows, H * 8, [&](i64 begin, i64 end) {
    const Vec<T> one(T(1)), zero(T(0));
    for (i64 row = begin; row < end; ++row) {
      const T *gates_r = gates + row * ld_gates, *c_r = c + row * ld_c, *c_next_r = c_next + row * ld_c_next;
      const T* dy_r = dy ? dy + row * ld_dy : nullptr;
      T *dh_r = dh + row * ld_dh, *dc_r = dc + row * ld_dc, *da_r = da + row * ld_da;
      if (lengths && t >= lengths[row]) {
        clear_row(da_r, 4 * H);
        continue;
      }
      each<T>(0, H, [&](i64 j, auto lanes) {
        const Vec<T> i = lanes.load(gates_r + j), f = lanes.load(gates_r + H + j);
        const Vec<T> g = lanes.load(gates_r + 2 * H + j), o = lanes.load(gates_r + 3 * H + j);
        const Vec<T> k = tanh(lanes.load(c_next_r + j));
        const Vec<T> d = lanes.load(dh_r + j) + (dy_r ? lanes.load(dy_r + j) : zero);
        const Vec<T> e = fma(d * o, one - k * k, lanes.load(dc_r + j));
        lanes.store(da_r + j, e * g * i * (one - i));
        lanes.store(da_r + H + j, e * lanes.load(c_r + j) * f * (one - f));
        lanes.store(da_r + 2 * H + j, e * i * (one - g * g));
        lanes.store(da_r + 3 * H + j, d * k * o * (one - o));
        lanes.store(dc_r + j, e * f);
        lanes.store(dh_r + j, zero);
      });
    }
  });
}
SEQGRAD_INSTANTIATE(lstm_gates_backward)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
