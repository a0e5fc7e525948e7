// The gates of GRU, LSTM and plain RNN, and additive attention scores, as their equations (ops.def).
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::v1 {

template <class T>
void gru_gates(const T* gi, i64 ld_gi, const T* gh, i64 ld_gh, const T* h, i64 ld_h, T* h_next, i64 ld_h_next, T* y, i64 ld_y,
               T* gates, i64 ld_gates, i64 rows, i64 hidden, const i64* lengths, i64 t) {
  for (i64 row = 0; row < rows; ++row, gi += ld_gi, gh += ld_gh, h += ld_h, h_next += ld_h_next) {
    const bool finished = lengths && t >= lengths[row];
    T* saved = gates ? gates + row * ld_gates : nullptr;
    for (i64 j = 0; j < hidden; ++j) {
      T r = 0, z = 0, n = 0, gh_n = 0, next = h[j];
      if (!finished) {
        gh_n = gh[2 * hidden + j];
        r = sigmoid(gi[j] + gh[j]);
        z = sigmoid(gi[hidden + j] + gh[hidden + j]);
        n = tanh(gi[2 * hidden + j] + r * gh_n);
        next = (1 - z) * n + z * h[j];
      }
      h_next[j] = next;
      if (y) y[row * ld_y + j] = finished ? 0 : next;
      if (!saved) continue;
      saved[j] = r;
      saved[hidden + j] = z;
      saved[2 * hidden + j] = n;
      saved[3 * hidden + j] = gh_n;
    }
  }
}
SEQGRAD_INSTANTIATE(gru_gates)

template <class T>
void gru_gates_backward(const T* dy, i64 ld_dy, const T* gates, i64 ld_gates, const T* h, i64 ld_h, T* dh, i64 ld_dh, T* dgi,
                        i64 ld_dgi, T* dgh, i64 ld_dgh, i64 rows, i64 hidden, const i64* lengths, i64 t) {
  for (i64 row = 0; row < rows; ++row, gates += ld_gates, h += ld_h, dh += ld_dh, dgi += ld_dgi, dgh += ld_dgh) {
    const bool finished = lengths && t >= lengths[row];
    for (i64 j = 0; j < hidden; ++j) {
      T dn = 0, dz = 0, dr = 0, dgh_n = 0;
      if (!finished) {
        const T r = gates[j], z = gates[hidden + j], n = gates[2 * hidden + j], gh_n = gates[3 * hidden + j];
        const T d = dh[j] + (dy ? dy[row * ld_dy + j] : 0);
        dn = d * (1 - z) * (1 - n * n);
        dz = d * (h[j] - n) * z * (1 - z);
        dr = dn * gh_n * r * (1 - r);
        dgh_n = dn * r;
        dh[j] = d * z;
      }
      dgi[j] = dgh[j] = dr;
      dgi[hidden + j] = dgh[hidden + j] = dz;
      dgi[2 * hidden + j] = dn;
      dgh[2 * hidden + j] = dgh_n;
    }
  }
}
SEQGRAD_INSTANTIATE(gru_gates_backward)

template <class T>
void lstm_gates(const T* a, i64 ld_a, const T* h, i64 ld_h, const T* c, i64 ld_c, T* h_next, i64 ld_h_next, T* c_next,
                i64 ld_c_next, T* y, i64 ld_y, T* gates, i64 ld_gates, i64 rows, i64 hidden, const i64* lengths, i64 t) {
  for (i64 row = 0; row < rows; ++row, a += ld_a, c += ld_c, h_next += ld_h_next, c_next += ld_c_next) {
    const bool finished = lengths && t >= lengths[row];
    T* saved = gates ? gates + row * ld_gates : nullptr;
    for (i64 j = 0; j < hidden; ++j) {
      T i = 0, f = 0, g = 0, o = 0;
      if (finished) {
        c_next[j] = c[j];
        h_next[j] = h[row * ld_h + j];
      } else {
        i = sigmoid(a[j]);
        f = sigmoid(a[hidden + j]);
        g = tanh(a[2 * hidden + j]);
        o = sigmoid(a[3 * hidden + j]);
        c_next[j] = f * c[j] + i * g;
        h_next[j] = o * tanh(c_next[j]);
      }
      if (y) y[row * ld_y + j] = finished ? 0 : h_next[j];
      if (!saved) continue;
      saved[j] = i;
      saved[hidden + j] = f;
      saved[2 * hidden + j] = g;
      saved[3 * hidden + j] = o;
    }
  }
}
SEQGRAD_INSTANTIATE(lstm_gates)

template <class T>
void lstm_gates_backward(const T* dy, i64 ld_dy, const T* gates, i64 ld_gates, const T* c, i64 ld_c, const T* c_next,
                         i64 ld_c_next, T* dh, i64 ld_dh, T* dc, i64 ld_dc, T* da, i64 ld_da, i64 rows, i64 hidden,
                         const i64* lengths, i64 t) {
  for (i64 row = 0; row < rows;
       ++row, gates += ld_gates, c += ld_c, c_next += ld_c_next, dh += ld_dh, dc += ld_dc, da += ld_da) {
    const bool finished = lengths && t >= lengths[row];
    for (i64 j = 0; j < hidden; ++j) {
      T di = 0, df = 0, dg = 0, d_o = 0;
      if (!finished) {
        const T i = gates[j], f = gates[hidden + j], g = gates[2 * hidden + j], o = gates[3 * hidden + j];
        const T k = tanh(c_next[j]);
        const T d = dh[j] + (dy ? dy[row * ld_dy + j] : 0);
        const T e = dc[j] + d * o * (1 - k * k);
        di = e * g * i * (1 - i);
        df = e * c[j] * f * (1 - f);
        dg = e * i * (1 - g * g);
        d_o = d * k * o * (1 - o);
        dc[j] = e * f;
        dh[j] = 0;
      }
      da[j] = di;
      da[hidden + j] = df;
      da[2 * hidden + j] = dg;
      da[3 * hidden + j] = d_o;
    }
  }
}
SEQGRAD_INSTANTIATE(lstm_gates_backward)

template <class T>
void rnn_gates(const T* a, i64 ld_a, const T* h, i64 ld_h, T* h_next, i64 ld_h_next, T* y, i64 ld_y, i64 rows, i64 hidden,
               const i64* lengths, i64 t) {
  for (i64 row = 0; row < rows; ++row) {
    const bool finished = lengths && t >= lengths[row];
    for (i64 j = 0; j < hidden; ++j) {
      const T next = finished ? h[row * ld_h + j] : tanh(a[row * ld_a + j]);
      h_next[row * ld_h_next + j] = next;
      if (y) y[row * ld_y + j] = finished ? 0 : next;
    }
  }
}
SEQGRAD_INSTANTIATE(rnn_gates)

template <class T>
void rnn_gates_backward(const T* dy, i64 ld_dy, const T* h_next, i64 ld_h_next, T* dh, i64 ld_dh, T* da, i64 ld_da, i64 rows,
                        i64 hidden, const i64* lengths, i64 t) {
  for (i64 row = 0; row < rows; ++row, h_next += ld_h_next, dh += ld_dh, da += ld_da) {
    const bool finished = lengths && t >= lengths[row];
    for (i64 j = 0; j < hidden; ++j) {
      const T d = dh[j] + (dy ? dy[row * ld_dy + j] : 0);
      da[j] = finished ? 0 : d * (1 - h_next[j] * h_next[j]);
      if (!finished) dh[j] = 0;
    }
  }
}
SEQGRAD_INSTANTIATE(rnn_gates_backward)

template <class T>
void additive_scores(const T* query, const T* keys, const T* v, T* score, i64 batch, i64 length, i64 dim) {
  for (i64 b = 0; b < batch; ++b) {
    for (i64 s = 0; s < length; ++s) {
      T sum = 0;
      for (i64 k = 0; k < dim; ++k) sum += v[k] * tanh(query[b * dim + k] + keys[(b * length + s) * dim + k]);
      score[b * length + s] = sum;
    }
  }
}
SEQGRAD_INSTANTIATE(additive_scores)

template <class T>
void additive_scores_backward(const T* query, const T* keys, const T* v, const T* dscore, T* dquery, T* dkeys, T* dv_rows,
                              i64 batch, i64 length, i64 dim) {
  for (i64 b = 0; b < batch; ++b) {
    for (i64 k = 0; k < dim; ++k) {
      T dq = 0, dv = 0;
      for (i64 s = 0; s < length; ++s) {
        const i64 at = (b * length + s) * dim + k;
        const T a = tanh(query[b * dim + k] + keys[at]);
        const T da = dscore[b * length + s] * v[k] * (1 - a * a);
        dq += da;
        dkeys[at] += da;
        dv += dscore[b * length + s] * a;
      }
      dquery[b * dim + k] = dq;
      dv_rows[b * dim + k] = dv;
    }
  }
}
SEQGRAD_INSTANTIATE(additive_scores_backward)

}  // namespace seqgrad::kernels::v1
