// What a search does beside its products, as the definitions read.
#include <cmath>

#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::v1 {

template <class T>
void attend(const T* query, i64 ld_query, const T* keys, const T* v, T scale, const i64* first, const i64* lengths, T* weights,
            i64 ld_weights, i64 rows, i64 key_dim) {
  for (i64 r = 0; r < rows; ++r) {
    T* weight = weights + r * ld_weights;
    const T* q = query + r * ld_query;
    for (i64 s = 0; s < lengths[r]; ++s) {
      const T* key = keys + (first[r] + s) * key_dim;
      T score = 0;
      for (i64 k = 0; keys && k < key_dim; ++k) score += v ? v[k] * std::tanh(q[k] + key[k]) : scale * q[k] * key[k];
      weight[s] = score;
    }
    softmax(weight, weight, i64{1}, lengths[r]);
  }
}
SEQGRAD_INSTANTIATE(attend)

template <class T>
void mix_rows(const T* weights, i64 ld_weights, const T* values, i64 ld_values, const i64* first, const i64* lengths,
              bool accumulate, T* y, i64 ld_y, i64 rows, i64 dim) {
  for (i64 r = 0; r < rows; ++r) {
    for (i64 c = 0; c < dim; ++c) {
      T sum = accumulate ? y[r * ld_y + c] : T(0);
      for (i64 s = 0; s < lengths[r]; ++s) sum += weights[r * ld_weights + s] * values[(first[r] + s) * ld_values + c];
      y[r * ld_y + c] = sum;
    }
  }
}
SEQGRAD_INSTANTIATE(mix_rows)

template <class T>
void top_of_rows(const T* x, bool normalize, T* y, i64* index, i64 rows, i64 cols, i64 k) {
  for (i64 r = 0; r < rows; ++r, x += cols, y += k, index += k) {
    const auto before = [&](i64 a, i64 b) {
      if (std::isnan(x[a]) || std::isnan(x[b])) return std::isnan(x[a]) && (!std::isnan(x[b]) || a < b);
      return x[a] > x[b] || (x[a] == x[b] && a < b);
    };
    for (i64 i = 0; i < k; ++i) {  // the first of those behind the one found last
      index[i] = -1;
      for (i64 j = 0; j < cols; ++j) {
        const bool left = i == 0 || before(index[i - 1], j);
        if (left && (index[i] < 0 || before(j, index[i]))) index[i] = j;
      }
    }
    T total = 0;
    for (i64 j = 0; normalize && j < cols; ++j) total += std::exp(x[j] - x[index[0]]);
    for (i64 i = 0; i < k; ++i) y[i] = normalize ? x[index[i]] - x[index[0]] - std::log(total) : x[index[i]];
  }
}
SEQGRAD_INSTANTIATE(top_of_rows)

}  // namespace seqgrad::kernels::v1
