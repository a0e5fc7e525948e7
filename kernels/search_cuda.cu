// The largest of each row, one after another: each pass looks for the first behind the one found last.
#include "kernels/cuda_loops.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

template <class T>
void top_of_rows(const T* x, bool normalize, T* y, i64* index, i64 rows, i64 cols, i64 k) {
  each_row(rows, cols, [=] __device__(const Group& group, i64 r) {
    const T* const from = x + r * cols;
    Ranked<T> best = group.largest(from, cols, [](T, i64) { return true; });
    const T largest = best.value;
    const T log_sum = normalize ? log(group.sum<T>(cols, [&](i64 i) { return exp(from[i] - largest); })) : T(0);
    for (i64 place = 0; place < k; ++place) {
      if (place > 0)
        best = group.largest(from, cols, [&](T value, i64 i) {
          return i != best.index && first_of(best, Ranked<T>{value, i}).index == best.index;
        });
      if (group.rank() > 0) continue;
      index[r * k + place] = best.index;
      y[r * k + place] = normalize ? best.value - largest - log_sum : best.value;
    }
  });
}
SEQGRAD_INSTANTIATE(top_of_rows)

}  // namespace seqgrad::kernels::cuda
