// LSTM gates at every level against v1, and v1 against the equation where it saturates.
#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

static const i64 hiddens[] = {0, 1, 7, 16, 31, 33, 200};

CONFORMANCE(lstm_gates) {
  for (const i64 H : hiddens) {
    for (const i64 rows : {0, 1, 5, 60}) {
      for (const double scale : {1.0, 300.0, 1000.0}) {
        for (const i64 slack : {0, 3}) {
          const i64 ld4 = 4 * H + slack, ld = H + slack;
          const auto a = random<T>(rows * ld4, scale), h = random<T>(rows * ld), c = random<T>(rows * ld);
          const auto kept = random<T>(rows * ld4);
          const auto lengths_of_rows = random_ids(rows, 5);
          for (int option = 0; option < 8; ++option) {
            const i64* row_lengths = option & 1 ? lengths_of_rows.data() : nullptr;
            agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
              T* h_next = slack ? out.copy(h) : out.fresh(rows * H);
              T* c_next = slack ? out.copy(h) : out.fresh(rows * H);
              T* y = option & 2 ? (slack ? out.copy(h) : out.fresh(rows * H)) : nullptr;
              T* gates = option & 4 ? (slack ? out.copy(kept) : out.fresh(rows * 4 * H)) : nullptr;
              r.lstm_gates(a.data(), ld4, row_lengths ? h.data() : nullptr, ld, c.data(), ld, h_next, ld, c_next, ld, y, ld,
                           gates, ld4, rows, H, row_lengths, 2);
            });
          }
          agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {  // gates in place of a
            T *in_place = out.copy(a), *h_next = out.copy(h), *c_next = out.copy(h);
            r.lstm_gates(in_place, ld4, h.data(), ld, c.data(), ld, h_next, ld, c_next, ld, nullptr, 0, in_place, ld4, rows, H,
                         lengths_of_rows.data(), 2);
          });
        }
      }
    }
  }
}

CONFORMANCE(lstm_gates_backward) {
  for (const i64 H : hiddens) {
    for (const i64 rows : {0, 1, 5, 60}) {
      for (const i64 slack : {0, 3}) {
        const i64 ld4 = 4 * H + slack, ld = H + slack;
        const auto gates = random<T>(rows * ld4), c = random<T>(rows * ld), c_next = random<T>(rows * ld);
        const auto dy = random<T>(rows * ld), dh = random<T>(rows * ld), dc = random<T>(rows * ld),
                   kept = random<T>(rows * ld4);
        const auto lengths_of_rows = random_ids(rows, 5);
        for (int option = 0; option < 4; ++option) {
          const i64* row_lengths = option & 1 ? lengths_of_rows.data() : nullptr;
          agree(
              tested,
              [&](const Routines<T>& r, Outputs<T>& out) {
                T* da = slack ? out.copy(kept) : out.fresh(rows * 4 * H);
                r.lstm_gates_backward(option & 2 ? dy.data() : nullptr, ld, gates.data(), ld4, c.data(), ld, c_next.data(), ld,
                                      out.copy(dh), ld, out.copy(dc), ld, da, ld4, rows, H, row_lengths, 2);
              },
              100);
        }
      }
    }
  }
}

TEST_CASE("saturated LSTM gates are exactly open or shut") {
  // One unit: input gate open, forget gate open, candidate 1, output gate shut or open.
  for (const double o : {-300.0, 300.0}) {
    const double a[] = {300, 300, 300, o}, c[] = {0.5};
    double h_next = -1, c_next = -1, gates[4];
    cpu::lstm_gates<double>(a, 4, nullptr, 0, c, 1, &h_next, 1, &c_next, 1, nullptr, 0, gates, 4, 1, 1, nullptr, 0);
    CHECK(c_next == 1.5);
    if (o > 0)
      CHECK(h_next == doctest::Approx(std::tanh(1.5)).epsilon(1e-15));
    else
      CHECK(std::abs(h_next) < 1e-130);
    double dh = 1, dc = 1, da[4];
    cpu::lstm_gates_backward<double>(nullptr, 0, gates, 4, c, 1, &c_next, 1, &dh, 1, &dc, 1, da, 4, 1, 1, nullptr, 0);
    for (const double x : da) CHECK(std::abs(x) < 1e-130);
    CHECK(dh == 0);
    CHECK(dc == doctest::Approx(1 + (o > 0 ? 1 - std::tanh(1.5) * std::tanh(1.5) : 0)).epsilon(1e-15));
  }
}

}  // namespace seqgrad::kernels::test
