#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

static const i64 hiddens[] = {0, 1, 7, 16, 31, 33, 200};

CONFORMANCE(gru_gates) {
  for (const i64 H : hiddens) {
    for (const i64 rows : {0, 1, 5, 100}) {
      for (const double scale : {1.0, 300.0, 1000.0}) {
        for (const i64 slack : {0, 3}) {
          const i64 ld3 = 3 * H + slack, ld4 = 4 * H + slack, ld = H + slack;
          const auto gi = random<T>(rows * ld3, scale), gh = random<T>(rows * ld3, scale), h = random<T>(rows * ld);
          const auto kept = random<T>(rows * ld4);
          const auto lengths_of_rows = random_ids(rows, 5);
          for (int option = 0; option < 8; ++option) {
            const i64* row_lengths = option & 1 ? lengths_of_rows.data() : nullptr;
            agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
              T* next = slack ? out.copy(h) : out.fresh(rows * H);
              T* y = option & 2 ? (slack ? out.copy(h) : out.fresh(rows * H)) : nullptr;
              T* gates = option & 4 ? (slack ? out.copy(kept) : out.fresh(rows * 4 * H)) : nullptr;
              r.gru_gates(gi.data(), ld3, gh.data(), ld3, h.data(), ld, next, ld, y, ld, gates, ld4, rows, H, row_lengths, 2);
            });
          }
        }
      }
    }
  }
}

CONFORMANCE(gru_gates_backward) {
  for (const i64 H : hiddens) {
    for (const i64 rows : {0, 1, 5, 100}) {
      for (const i64 slack : {0, 3}) {
        const i64 ld3 = 3 * H + slack, ld4 = 4 * H + slack, ld = H + slack;
        const auto gates = random<T>(rows * ld4), h = random<T>(rows * ld), dy = random<T>(rows * ld);
        const auto dh = random<T>(rows * ld), kept = random<T>(rows * ld3);
        const auto lengths_of_rows = random_ids(rows, 5);
        for (int option = 0; option < 4; ++option) {
          const i64* row_lengths = option & 1 ? lengths_of_rows.data() : nullptr;
          agree(
              tested,
              [&](const Routines<T>& r, Outputs<T>& out) {
                T* dgi = slack ? out.copy(kept) : out.fresh(rows * 3 * H);
                T* dgh = slack ? out.copy(kept) : out.fresh(rows * 3 * H);
                r.gru_gates_backward(option & 2 ? dy.data() : nullptr, ld, gates.data(), ld4, h.data(), ld, out.copy(dh), ld,
                                     dgi, ld3, dgh, ld3, rows, H, row_lengths, 2);
              },
              100);
        }
      }
    }
  }
}

CONFORMANCE(additive_scores) {
  for (const i64 dim : hiddens) {
    for (const i64 length : {0, 1, 14}) {
      for (const i64 batch : {0, 1, 5, 40}) {
        for (const double scale : {1.0, 300.0}) {
          const auto query = random<T>(batch * dim, scale), keys = random<T>(batch * length * dim), v = random<T>(dim);
          agree(
              tested,
              [&](const Routines<T>& r, Outputs<T>& out) {
                r.additive_scores(query.data(), keys.data(), v.data(), out.fresh(batch * length), batch, length, dim);
              },
              10);
        }
      }
    }
  }
}

CONFORMANCE(additive_scores_backward) {
  for (const i64 dim : hiddens) {
    for (const i64 length : {0, 1, 14}) {
      for (const i64 batch : {0, 1, 5, 40}) {
        const auto query = random<T>(batch * dim), keys = random<T>(batch * length * dim), v = random<T>(dim);
        const auto dscore = random<T>(batch * length), dkeys = random<T>(batch * length * dim);
        agree(
            tested,
            [&](const Routines<T>& r, Outputs<T>& out) {
              T *dquery = out.fresh(batch * dim), *dv = out.fresh(batch * dim);
              r.additive_scores_backward(query.data(), keys.data(), v.data(), dscore.data(), dquery, out.copy(dkeys), dv, batch,
                                         length, dim);
            },
            10);
      }
    }
  }
}

CONFORMANCE(sgd_step) {
  for (const i64 n : {i64{0}, i64{1}, i64{7}, i64{33}, i64{1025}, large}) {
    const auto w = random<T>(n), g = random<T>(n), velocity = random<T>(n);
    const std::vector<double> half = {0.5}, none = {std::numeric_limits<double>::quiet_NaN()};
    agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
      r.sgd_step(out.copy(w), g.data(), nullptr, n, T(0.1), T(0), half.data());
      T* after = out.copy(w);
      r.sgd_step(after, g.data(), out.copy(velocity), n, T(0.1), T(0.9), nullptr);
      r.sgd_step(out.copy(w), g.data(), out.copy(velocity), n, T(0.1), T(0.9), none.data());
    });
  }
}

CONFORMANCE(adam_step) {
  for (const i64 n : {i64{0}, i64{1}, i64{7}, i64{33}, i64{1025}, large}) {
    auto w = random<T>(n), g = random<T>(n), m = random<T>(n), v = random<T>(n);
    for (size_t i = 0; i < v.size(); ++i) {
      v[i] *= v[i];
      if (i % 3 == 0) g[i] = m[i] = v[i] = 0;                       // a row of an embedding that was never used
      if (i % 3 == 1) m[i] = v[i] = std::numeric_limits<T>::min();  // and one whose moments are about to vanish
    }
    const std::vector<double> half = {0.5}, none = {std::numeric_limits<double>::quiet_NaN()};
    agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
      // One element off the alignment of vectors.
      T *w_after = out.copy(w), *m_after = out.copy(m), *v_after = out.copy(v);
      const i64 skip = n > 0;
      r.adam_step(w_after + skip, g.data() + skip, m_after + skip, v_after + skip, n - skip, 0.1, 0.9, 0.999, 1e-8, 0.1, 0.001,
                  half.data());
      r.adam_step(out.copy(w), g.data(), out.copy(m), out.copy(v), n, 0.1, 0.9, 0.999, 1e-8, 0.1, 0.001, none.data());
    });
  }
}

TEST_CASE("a step of Adam leaves the treatment of subnormal numbers as it was") {
  float w = 1, g = 1, m = 0, v = 0;
  cpu::adam_step(&w, &g, &m, &v, 1, 0.1, 0.9, 0.999, 1e-8, 0.1, 0.001, nullptr);
  CHECK(w == doctest::Approx(0.9));  // the first step moves by lr, whatever the gradient
  volatile float small = std::numeric_limits<float>::min();
  CHECK(small / 2 > 0);
}

}  // namespace seqgrad::kernels::test
