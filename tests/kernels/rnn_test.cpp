// The plain recurrent network's step at every level against v1.
#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

static const i64 hiddens[] = {0, 1, 7, 16, 31, 33, 200};

CONFORMANCE(rnn_gates) {
  for (const i64 H : hiddens) {
    for (const i64 rows : {0, 1, 5, 100}) {
      for (const double scale : {1.0, 300.0}) {
        for (const i64 slack : {0, 3}) {
          const i64 ld = H + slack;
          const auto a = random<T>(rows * ld, scale), h = random<T>(rows * ld);
          const auto lengths_of_rows = random_ids(rows, 5);
          for (int option = 0; option < 4; ++option) {
            const i64* row_lengths = option & 1 ? lengths_of_rows.data() : nullptr;
            agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
              T* next = slack ? out.copy(h) : out.fresh(rows * H);
              T* y = option & 2 ? (slack ? out.copy(h) : out.fresh(rows * H)) : nullptr;
              r.rnn_gates(a.data(), ld, row_lengths ? h.data() : nullptr, ld, next, ld, y, ld, rows, H, row_lengths, 2);
            });
          }
        }
      }
    }
  }
}

CONFORMANCE(rnn_gates_backward) {
  for (const i64 H : hiddens) {
    for (const i64 rows : {0, 1, 5, 100}) {
      for (const i64 slack : {0, 3}) {
        const i64 ld = H + slack;
        const auto next = random<T>(rows * ld), dy = random<T>(rows * ld), dh = random<T>(rows * ld),
                   kept = random<T>(rows * ld);
        const auto lengths_of_rows = random_ids(rows, 5);
        for (int option = 0; option < 4; ++option) {
          const i64* row_lengths = option & 1 ? lengths_of_rows.data() : nullptr;
          agree(
              tested,
              [&](const Routines<T>& r, Outputs<T>& out) {
                T* da = slack ? out.copy(kept) : out.fresh(rows * H);
                r.rnn_gates_backward(option & 2 ? dy.data() : nullptr, ld, next.data(), ld, out.copy(dh), ld, da, ld, rows, H,
                                     row_lengths, 2);
              },
              10);
        }
      }
    }
  }
}

}  // namespace seqgrad::kernels::test
