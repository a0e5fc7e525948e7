// What a search does beside its products, a row at a time in vectors. Each row is summed in an order that its own length alone
// decides, so a translation's bits do not depend on its batch.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
void attend(const T* query, i64 ld_query, const T* keys, const T* values, const T* v, T scale, const i64* first,
            const i64* lengths, T* weights, i64 ld_weights, T* context, i64 ld_context, i64 rows, i64 key_dim, i64 value_dim) {
  constexpr i64 w = Vec<T>::width;
  const i64 length = rows > 0 ? lengths[0] : 0;  // a guess at the work
  parallel_rows(rows, length * (key_dim * (v ? 4 : 1) + value_dim), [&](i64 begin, i64 end) {
    for (i64 r = begin; r < end; ++r) {
      const i64 n = lengths[r];
      T* weights_r = weights + r * ld_weights;
      for (i64 s = 0; s < n; ++s) {
        if (!keys) {
          weights_r[s] = 0;
          continue;
        }
        const T *q = query + r * ld_query, *key = keys + (first[r] + s) * key_dim;
        weights_r[s] =
            v ? sum_row<T>(key_dim,
                           [&](i64 k, auto lanes) { return lanes.load(v + k) * tanh(lanes.load(q + k) + lanes.load(key + k)); })
              : scale * sum_row<T>(key_dim, [&](i64 k, auto lanes) { return lanes.load(q + k) * lanes.load(key + k); });
      }
      const T total = exp_row(weights_r, row_max(weights_r, n), weights_r, n);
      scale_row(weights_r, 1 / total, n);

      const T* values_r = values + first[r] * value_dim;
      T* context_r = context + r * ld_context;
      i64 c = 0;
      for (; c + 4 * w <= value_dim; c += 4 * w) {
        Vec<T> s0(T(0)), s1(T(0)), s2(T(0)), s3(T(0));
        const T* value = values_r + c;
        for (i64 s = 0; s < n; ++s, value += value_dim) {
          const Vec<T> weight(weights_r[s]);
          s0 = fma(weight, Vec<T>::load(value), s0);
          s1 = fma(weight, Vec<T>::load(value + w), s1);
          s2 = fma(weight, Vec<T>::load(value + 2 * w), s2);
          s3 = fma(weight, Vec<T>::load(value + 3 * w), s3);
        }
        s0.store(context_r + c);
        s1.store(context_r + c + w);
        s2.store(context_r + c + 2 * w);
        s3.store(context_r + c + 3 * w);
      }
      each<T>(c, value_dim, [&](i64 i, auto lanes) {
        Vec<T> sum(T(0));
        for (i64 s = 0; s < n; ++s) sum = fma(Vec<T>(weights_r[s]), lanes.load(values_r + s * value_dim + i), sum);
        lanes.store(context_r + i, sum);
      });
    }
  });
}
SEQGRAD_INSTANTIATE(attend)

// Whether a stands before b: NaNs first, then the larger. Equals keep the order of their columns.
template <class T>
SEQGRAD_INLINE static bool before(T a, T b) {
  return a > b || (a != a && b == b);
}

template <class T>
void top_of_rows(const T* x, bool normalize, T* y, i64* index, i64 rows, i64 cols, i64 k) {
  parallel_rows(rows, cols * (normalize ? 2 : 1), [&](i64 begin, i64 end) {
    for (i64 r = begin; r < end; ++r) {
      const T* x_r = x + r * cols;
      T* y_r = y + r * k;
      i64* index_r = index + r * k;
      i64 found = 0;
      const auto insert = [&](i64 j) {
        const T value = x_r[j];
        i64 place = found < k ? found++ : k - 1;
        for (; place > 0 && before(value, y_r[place - 1]); --place) {
          y_r[place] = y_r[place - 1];
          index_r[place] = index_r[place - 1];
        }
        y_r[place] = value;
        index_r[place] = j;
      };
      i64 j = 0;
      for (; j < k; ++j) insert(j);
      // A column is inserted unless it is at most the last of the best: so is a NaN, unless the last is one too.
      each<T>(j, cols, [&](i64 i, auto lanes) {
        unsigned hits = ~bits(lanes.load(x_r + i) <= Vec<T>(y_r[k - 1])) & ((1u << lanes.count()) - 1);
        for (; hits; hits &= hits - 1) {
          const i64 column = i + __builtin_ctz(hits);
          if (before(x_r[column], y_r[k - 1])) insert(column);
        }
      });
      if (!normalize) continue;
      const T shift = y_r[0];
      const Vec<T> shifts(shift);
      const T log_total = log_of(sum_row<T>(cols, [&](i64 i, auto lanes) { return exp(lanes.load(x_r + i) - shifts); }));
      for (i64 i = 0; i < k; ++i) y_r[i] = y_r[i] - shift - log_total;
    }
  });
}
SEQGRAD_INSTANTIATE(top_of_rows)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
