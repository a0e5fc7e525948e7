// GRU gates in vectors over the hidden units, rows shared among the threads. Equations and derivation: ops.def.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
void gru_gates(const T* gi, i64 ld_gi, const T* gh, i64 ld_gh, const T* h, i64 ld_h, T* h_next, i64 ld_h_next, T* y, i64 ld_y,
               T* gates, i64 ld_gates, i64 rows, i64 hidden, const i64* lengths, i64 t) {
  const i64 H = hidden;
  parallel_rows(rows, H * 8, [&](i64 begin, i64 end) {
    for (i64 row = begin; row < end; ++row) {
      const T *gi_r = gi + row * ld_gi, *gh_r = gh + row * ld_gh, *h_r = h + row * ld_h;
      T* next_r = h_next + row * ld_h_next;
      T* y_r = y ? y + row * ld_y : nullptr;
      T* gates_r = gates ? gates + row * ld_gates : nullptr;
      if (lengths && t >= lengths[row]) {
        copy_row(h_r, next_r, H);
        clear_row(y_r, H);
        clear_row(gates_r, 4 * H);
        continue;
      }
      each<T>(0, H, [&](i64 i, auto lanes) {
        const Vec<T> r = sigmoid(lanes.load(gi_r + i) + lanes.load(gh_r + i));
        const Vec<T> z = sigmoid(lanes.load(gi_r + H + i) + lanes.load(gh_r + H + i));
        const Vec<T> gh_n = lanes.load(gh_r + 2 * H + i);
        const Vec<T> n = tanh(fma(r, gh_n, lanes.load(gi_r + 2 * H + i)));
        const Vec<T> next = fma(z, lanes.load(h_r + i), (Vec<T>(T(1)) - z) * n);
        lanes.store(next_r + i, next);
        if (y_r) lanes.store(y_r + i, next);
        if (!gates_r) return;
        lanes.store(gates_r + i, r);
        lanes.store(gates_r + H + i, z);
        lanes.store(gates_r + 2 * H + i, n);
        lanes.store(gates_r + 3 * H + i, gh_n);
      });
    }
  });
}
SEQGRAD_INSTANTIATE(gru_gates)

template <class T>
void gru_gates_backward(const T* dy, i64 ld_dy, const T* gates, i64 ld_gates, const T* h, i64 ld_h, T* dh, i64 ld_dh, T* dgi,
                        i64 ld_dgi, T* dgh, i64 ld_dgh, i64 rows, i64 hidden, const i64* lengths, i64 t) {
  const i64 H = hidden;
  parallel_rows(rows, H * 4, [&](i64 begin, i64 end) {
    const Vec<T> one(T(1)), zero(T(0));
    for (i64 row = begin; row < end; ++row) {
      const T *gates_r = gates + row * ld_gates, *h_r = h + row * ld_h;
      const T* dy_r = dy ? dy + row * ld_dy : nullptr;
      T *dh_r = dh + row * ld_dh, *dgi_r = dgi + row * ld_dgi, *dgh_r = dgh + row * ld_dgh;
      if (lengths && t >= lengths[row]) {
        clear_row(dgi_r, 3 * H);
        clear_row(dgh_r, 3 * H);
        continue;
      }
      each<T>(0, H, [&](i64 i, auto lanes) {
        const Vec<T> r = lanes.load(gates_r + i), z = lanes.load(gates_r + H + i);
        const Vec<T> n = lanes.load(gates_r + 2 * H + i), gh_n = lanes.load(gates_r + 3 * H + i);
        const Vec<T> d = lanes.load(dh_r + i) + (dy_r ? lanes.load(dy_r + i) : zero);
        const Vec<T> dn = d * (one - z) * (one - n * n);
        const Vec<T> dz = d * (lanes.load(h_r + i) - n) * z * (one - z);
        const Vec<T> dr = dn * gh_n * r * (one - r);
        lanes.store(dh_r + i, d * z);
        lanes.store(dgi_r + i, dr);
        lanes.store(dgh_r + i, dr);
        lanes.store(dgi_r + H + i, dz);
        lanes.store(dgh_r + H + i, dz);
        lanes.store(dgi_r + 2 * H + i, dn);
        lanes.store(dgh_r + 2 * H + i, dn * r);
      });
    }
  });
}
SEQGRAD_INSTANTIATE(gru_gates_backward)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
