// The gates of GRU, LSTM and plain RNN (equations in ops.def): one thread per unit of a row's state.
#include "kernels/cuda_loops.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

// f(row, unit, whether the row has come to its end)
template <class F>
static void each_unit(i64 rows, i64 hidden, const i64* lengths, i64 t, F f) {
  each_element(rows * hidden, [=] __device__(i64 at) {
    const i64 row = at / hidden;
    f(row, at % hidden, lengths && t >= lengths[row]);
  });
}

template <class T>
void gru_gates(const T* gi, i64 ld_gi, const T* gh, i64 ld_gh, const T* h, i64 ld_h, T* h_next, i64 ld_h_next, T* y, i64 ld_y,
               T* gates, i64 ld_gates, i64 rows, i64 hidden, const i64* lengths, i64 t) {
  each_unit(rows, hidden, lengths, t, [=] __device__(i64 row, i64 j, bool finished) {
    const T *const i = gi + row * ld_gi + j, *const k = gh + row * ld_gh + j;
    T r = 0, z = 0, n = 0, gh_n = 0, next = h[row * ld_h + j];
    if (!finished) {
      gh_n = k[2 * hidden];
      r = sigmoid(i[0] + k[0]);
      z = sigmoid(i[hidden] + k[hidden]);
      n = tanh(i[2 * hidden] + r * gh_n);
      next = (1 - z) * n + z * next;
    }
    h_next[row * ld_h_next + j] = next;
    if (y) y[row * ld_y + j] = finished ? T(0) : next;
    if (!gates) return;
    T* const saved = gates + row * ld_gates + j;
    saved[0] = r;
    saved[hidden] = z;
    saved[2 * hidden] = n;
    saved[3 * hidden] = gh_n;
  });
}
SEQGRAD_INSTANTIATE(gru_gates)

template <class T>
void gru_gates_backward(const T* dy, i64 ld_dy, const T* gates, i64 ld_gates, const T* h, i64 ld_h, T* dh, i64 ld_dh, T* dgi,
                        i64 ld_dgi, T* dgh, i64 ld_dgh, i64 rows, i64 hidden, const i64* lengths, i64 t) {
  each_unit(rows, hidden, lengths, t, [=] __device__(i64 row, i64 j, bool finished) {
    T dn = 0, dz = 0, dr = 0, dgh_n = 0;
    if (!finished) {
      const T* const saved = gates + row * ld_gates + j;
      const T r = saved[0], z = saved[hidden], n = saved[2 * hidden], gh_n = saved[3 * hidden];
      const T d = dh[row * ld_dh + j] + (dy ? dy[row * ld_dy + j] : T(0));
      dn = d * (1 - z) * (1 - n * n);
      dz = d * (h[row * ld_h + j] - n) * z * (1 - z);
      dr = dn * gh_n * r * (1 - r);
      dgh_n = dn * r;
      dh[row * ld_dh + j] = d * z;
    }
    T *const di = dgi + row * ld_dgi + j, *const dk = dgh + row * ld_dgh + j;
    di[0] = dk[0] = dr;
    di[hidden] = dk[hidden] = dz;
    di[2 * hidden] = dn;
    dk[2 * hidden] = dgh_n;
  });
}
SEQGRAD_INSTANTIATE(gru_gates_backward)

template <class T>
void lstm_gates(const T* a, i64 ld_a, const T* h, i64 ld_h, const T* c, i64 ld_c, T* h_next, i64 ld_h_next, T* c_next,
                i64 ld_c_next, T* y, i64 ld_y, T* gates, i64 ld_gates, i64 rows, i64 hidden, const i64* lengths, i64 t) {
  each_unit(rows, hidden, lengths, t, [=] __device__(i64 row, i64 j, bool finished) {
    const T* const from = a + row * ld_a + j;
    T i = 0, f = 0, g = 0, o = 0, cell = c[row * ld_c + j], next;
    if (finished) {
      next = h[row * ld_h + j];
    } else {
      i = sigmoid(from[0]);
      f = sigmoid(from[hidden]);
      g = tanh(from[2 * hidden]);
      o = sigmoid(from[3 * hidden]);
      cell = f * cell + i * g;
      next = o * tanh(cell);
    }
    c_next[row * ld_c_next + j] = cell;
    h_next[row * ld_h_next + j] = next;
    if (y) y[row * ld_y + j] = finished ? T(0) : next;
    if (!gates) return;
    T* const saved = gates + row * ld_gates + j;
    saved[0] = i;
    saved[hidden] = f;
    saved[2 * hidden] = g;
    saved[3 * hidden] = o;
  });
}
SEQGRAD_INSTANTIATE(lstm_gates)

template <class T>
void lstm_gates_backward(const T* dy, i64 ld_dy, const T* gates, i64 ld_gates, const T* c, i64 ld_c, const T* c_next,
                         i64 ld_c_next, T* dh, i64 ld_dh, T* dc, i64 ld_dc, T* da, i64 ld_da, i64 rows, i64 hidden,
                         const i64* lengths, i64 t) {
  each_unit(rows, hidden, lengths, t, [=] __device__(i64 row, i64 j, bool finished) {
    T di = 0, df = 0, dg = 0, d_o = 0;
    if (!finished) {
      const T* const saved = gates + row * ld_gates + j;
      const T i = saved[0], f = saved[hidden], g = saved[2 * hidden], o = saved[3 * hidden];
      const T k = tanh(c_next[row * ld_c_next + j]);
      const T d = dh[row * ld_dh + j] + (dy ? dy[row * ld_dy + j] : T(0));
      const T e = dc[row * ld_dc + j] + d * o * (1 - k * k);
      di = e * g * i * (1 - i);
      df = e * c[row * ld_c + j] * f * (1 - f);
      dg = e * i * (1 - g * g);
      d_o = d * k * o * (1 - o);
      dc[row * ld_dc + j] = e * f;
      dh[row * ld_dh + j] = 0;
    }
    T* const to = da + row * ld_da + j;
    to[0] = di;
    to[hidden] = df;
    to[2 * hidden] = dg;
    to[3 * hidden] = d_o;
  });
}
SEQGRAD_INSTANTIATE(lstm_gates_backward)

template <class T>
void rnn_gates(const T* a, i64 ld_a, const T* h, i64 ld_h, T* h_next, i64 ld_h_next, T* y, i64 ld_y, i64 rows, i64 hidden,
               const i64* lengths, i64 t) {
  each_unit(rows, hidden, lengths, t, [=] __device__(i64 row, i64 j, bool finished) {
    const T next = finished ? h[row * ld_h + j] : tanh(a[row * ld_a + j]);
    h_next[row * ld_h_next + j] = next;
    if (y) y[row * ld_y + j] = finished ? T(0) : next;
  });
}
SEQGRAD_INSTANTIATE(rnn_gates)

template <class T>
void rnn_gates_backward(const T* dy, i64 ld_dy, const T* h_next, i64 ld_h_next, T* dh, i64 ld_dh, T* da, i64 ld_da, i64 rows,
                        i64 hidden, const i64* lengths, i64 t) {
  each_unit(rows, hidden, lengths, t, [=] __device__(i64 row, i64 j, bool finished) {
    const T next = h_next[row * ld_h_next + j];
    const T d = dh[row * ld_dh + j] + (dy ? dy[row * ld_dy + j] : T(0));
    da[row * ld_da + j] = finished ? T(0) : d * (1 - next * next);
    if (!finished) dh[row * ld_dh + j] = 0;
  });
}
SEQGRAD_INSTANTIATE(rnn_gates_backward)

}  // namespace seqgrad::kernels::cuda
