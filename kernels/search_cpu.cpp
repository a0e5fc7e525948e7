// What a search does beside its products, a row at a time in vectors. Each row is summed in an order that its own length alone
// decides, so a translation's bits do not depend on its batch.
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
void attend(const T* query, i64 ld_query, const T* keys, const T* v, T scale, const i64* first, const i64* lengths, T* weights,
            i64 ld_weights, i64 rows, i64 key_dim) {
  const i64 length = rows > 0 ? lengths[0] : 0;  // a guess at the work
  parallel_rows(rows, length * key_dim * (v ? 4 : 1), [&](i64 begin, i64 end) {
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
    }
  });
}
SEQGRAD_INSTANTIATE(attend)

template <class T>
void mix_rows(const T* weights, i64 ld_weights, const T* values, i64 ld_values, const i64* first, const i64* lengths,
              bool accumulate, T* y, i64 ld_y, i64 rows, i64 dim) {
  constexpr i64 w = Vec<T>::width;
  constexpr int vectors = 8;                     // at a time: half a kilobyte of each value
  const i64 length = rows > 0 ? lengths[0] : 0;  // a guess at the work
  parallel_rows(rows, length * dim, [&](i64 begin, i64 end) {
    for (i64 r = begin; r < end; ++r) {
      const i64 n = lengths[r];
      const T *weights_r = weights + r * ld_weights, *values_r = values + first[r] * ld_values;
      T* y_r = y + r * ld_y;
      i64 c = 0;
      for (; c + vectors * w <= dim; c += vectors * w) {
        Vec<T> sum[vectors];
#pragma GCC unroll 8
        for (int i = 0; i < vectors; ++i) sum[i] = accumulate ? Vec<T>::load(y_r + c + i * w) : Vec<T>(T(0));
        const T* value = values_r + c;
        for (i64 s = 0; s < n; ++s, value += ld_values) {
          const Vec<T> weight(weights_r[s]);
#pragma GCC unroll 8
          for (int i = 0; i < vectors; ++i) sum[i] = fma(weight, Vec<T>::load(value + i * w), sum[i]);
        }
#pragma GCC unroll 8
        for (int i = 0; i < vectors; ++i) sum[i].store(y_r + c + i * w);
      }
      each<T>(c, dim, [&](i64 i, auto lanes) {
        Vec<T> sum = accumulate ? lanes.load(y_r + i) : Vec<T>(T(0));
        for (i64 s = 0; s < n; ++s) sum = fma(Vec<T>(weights_r[s]), lanes.load(values_r + s * ld_values + i), sum);
        lanes.store(y_r + i, sum);
      });
    }
  });
}
SEQGRAD_INSTANTIATE(mix_rows)

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
