// Matrix products. Large ones: with AVX-512 our own tiles, for OpenBLAS (0.3.21, and later ones when told another CPU's name)
// chooses AVX2 on many machines that have more; with AVX2 OpenBLAS, which is as fast as the tiles there. And loops of our own
// where a product is bound by memory (one row, one column, one term) or too small to be worth a call.
#include "kernels/gemm_tiles.h"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/limits.h"
#include "kernels/openblas.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

#ifdef __AVX512F__
template <class T>
static void large(bool ta, bool tb, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb, T beta, T* c,
                  i64 ldc) {
  tiled<Tiles<T>>(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
#else
template <class T>
static void large(bool ta, bool tb, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb, T beta, T* c,
                  i64 ldc) {
  openblas_gemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
#endif

// c = value + beta c, where beta = 0 does not read c.
template <class T, class Lanes>
SEQGRAD_INLINE static void put(T* c, Vec<T> value, T beta, Lanes lanes) {
  lanes.store(c, beta == 0 ? value : fma(Vec<T>(beta), lanes.load(c), value));
}
template <class T>
SEQGRAD_INLINE static void put(T* c, T value, T beta) {
  *c = beta == 0 ? value : value + beta * *c;
}

template <class T>
static void scale(i64 m, i64 n, T beta, T* c, i64 ldc) {
  if (beta == 1) return;
  for (i64 i = 0; i < m; ++i) {
    each<T>(0, n, [&](i64 j, auto lanes) { put(c + i * ldc + j, Vec<T>(T(0)), beta, lanes); });
  }
}

// y_j = alpha sum_p x_p b[p,j] + beta y_j: the rows of b (k,n), weighted.
template <class T>
static void weighted_rows(i64 n, i64 k, T alpha, const T* x, i64 x_step, const T* b, i64 ldb, T beta, T* y, i64 y_step) {
  constexpr i64 w = Vec<T>::width;
  const auto column = [&](i64 j, auto lanes) {
    Vec<T> s(T(0));
    for (i64 p = 0; p < k; ++p) s = fma(Vec<T>(x[p * x_step]), lanes.load(b + p * ldb + j), s);
    s = Vec<T>(alpha) * s;
    if (y_step == 1) {
      put(y + j, s, beta, lanes);
    } else {
      T scattered[w];
      s.store(scattered);
      for (i64 i = 0; i < lanes.count(); ++i) put(y + (j + i) * y_step, scattered[i], beta);
    }
  };
  parallel(ceil_divide(n, 4 * w), larger(1, grain * 2 / larger(1, 4 * w * k)), [&](i64 begin, i64 end) {
    i64 j = begin * 4 * w;
    const i64 last = smaller(end * 4 * w, n);
    const AllLanes<T> all;
    for (; y_step == 1 && j + 4 * w <= last; j += 4 * w) {
      Vec<T> s0(T(0)), s1(T(0)), s2(T(0)), s3(T(0));
      const T* row = b + j;
      for (i64 p = 0; p < k; ++p, row += ldb) {
        const Vec<T> x_p(x[p * x_step]);
        s0 = fma(x_p, Vec<T>::load(row), s0);
        s1 = fma(x_p, Vec<T>::load(row + w), s1);
        s2 = fma(x_p, Vec<T>::load(row + 2 * w), s2);
        s3 = fma(x_p, Vec<T>::load(row + 3 * w), s3);
      }
      put(y + j, Vec<T>(alpha) * s0, beta, all);
      put(y + j + w, Vec<T>(alpha) * s1, beta, all);
      put(y + j + 2 * w, Vec<T>(alpha) * s2, beta, all);
      put(y + j + 3 * w, Vec<T>(alpha) * s3, beta, all);
    }
    each<T>(j, last, column);
  });
}

// y_j = alpha sum_p x_p b[j,p] + beta y_j: products with the rows of b (n,k). x is contiguous.
template <class T>
static void row_dots(i64 n, i64 k, T alpha, const T* x, const T* b, i64 ldb, T beta, T* y, i64 y_step) {
  parallel(n, larger(1, grain * 2 / k), [&](i64 begin, i64 end) {
    i64 j = begin;
    for (; j + 4 <= end; j += 4) {  // four rows share the loads of x
      const T *b0 = b + j * ldb, *b1 = b0 + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb;
      Vec<T> s0(T(0)), s1(T(0)), s2(T(0)), s3(T(0));
      each<T>(0, k, [&](i64 p, auto lanes) {
        const Vec<T> x_p = lanes.load(x + p);
        s0 = fma(x_p, lanes.load(b0 + p), s0);
        s1 = fma(x_p, lanes.load(b1 + p), s1);
        s2 = fma(x_p, lanes.load(b2 + p), s2);
        s3 = fma(x_p, lanes.load(b3 + p), s3);
      });
      put(y + j * y_step, alpha * sum(s0), beta);
      put(y + (j + 1) * y_step, alpha * sum(s1), beta);
      put(y + (j + 2) * y_step, alpha * sum(s2), beta);
      put(y + (j + 3) * y_step, alpha * sum(s3), beta);
    }
    for (; j < end; ++j) {
      const T dot = sum_row<T>(k, [&](i64 p, auto lanes) { return lanes.load(x + p) * lanes.load(b + j * ldb + p); });
      put(y + j * y_step, alpha * dot, beta);
    }
  });
}

// y = alpha x op(b) + beta y for vectors x (k) and y (n) with any steps.
template <class T>
static void vector_product(bool transpose_b, i64 n, i64 k, T alpha, const T* x, i64 x_step, const T* b, i64 ldb, T beta, T* y,
                           i64 y_step) {
  if (!transpose_b) return weighted_rows(n, k, alpha, x, x_step, b, ldb, beta, y, y_step);
  if (x_step == 1) return row_dots(n, k, alpha, x, b, ldb, beta, y, y_step);
  T* packed = static_cast<T*>(__builtin_malloc(static_cast<u64>(k) * sizeof(T)));
  for (i64 p = 0; p < k; ++p) packed[p] = x[p * x_step];
  row_dots(n, k, alpha, packed, b, ldb, beta, y, y_step);
  __builtin_free(packed);
}

// c = alpha a b^T + beta c for a few rows of a: a block of dot products at a time, so that b, by far the larger, is read once
// and not packed. As many at a time as the registers hold. Beam search and the end of a batch's decoding live here.
#ifdef __AVX512F__
constexpr i64 block_rows = 4;
SEQGRAD_INLINE static i64 most_few_rows(i64 k) { return k >= 256 ? 16 : 4; }  // beyond, the tiles were measured as fast
#else
constexpr i64 block_rows = 2;
SEQGRAD_INLINE static i64 most_few_rows(i64) { return 8; }  // beyond, OpenBLAS 0.3.21 was
#endif
constexpr i64 min_few_rows_terms = 64;  // below, adding up the lanes costs more than the products

template <i64 rows, class T>
static void dots_block(i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb, T beta, T* c, i64 ldc) {
  Vec<T> s[rows][4];
  for (auto& row : s) {
    for (Vec<T>& x : row) x = Vec<T>(T(0));
  }
  each<T>(0, k, [&](i64 p, auto lanes) {
    const Vec<T> b0 = lanes.load(b + p), b1 = lanes.load(b + ldb + p), b2 = lanes.load(b + 2 * ldb + p),
                 b3 = lanes.load(b + 3 * ldb + p);
    for (i64 i = 0; i < rows; ++i) {
      const Vec<T> a_i = lanes.load(a + i * lda + p);
      s[i][0] = fma(a_i, b0, s[i][0]);
      s[i][1] = fma(a_i, b1, s[i][1]);
      s[i][2] = fma(a_i, b2, s[i][2]);
      s[i][3] = fma(a_i, b3, s[i][3]);
    }
  });
  for (i64 i = 0; i < rows; ++i) {
    for (i64 j = 0; j < 4; ++j) put(c + i * ldc + j, alpha * sum(s[i][j]), beta);
  }
}

template <class T>
static void few_rows(i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb, T beta, T* c, i64 ldc) {
  const i64 blocks = n / 4;
  parallel(blocks, larger(1, grain * 2 / (4 * k)), [&](i64 begin, i64 end) {
    for (i64 j = begin * 4; j < end * 4; j += 4) {
      const T* b_j = b + j * ldb;
      i64 i = 0;
      for (; i + block_rows <= m; i += block_rows)
        dots_block<block_rows>(k, alpha, a + i * lda, lda, b_j, ldb, beta, c + i * ldc + j, ldc);
      for (; i < m; ++i) dots_block<1>(k, alpha, a + i * lda, lda, b_j, ldb, beta, c + i * ldc + j, ldc);
    }
  });
  for (i64 i = 0; i < m; ++i) {
    for (i64 j = blocks * 4; j < n; ++j) {
      const T dot = sum_row<T>(k, [&](i64 p, auto lanes) { return lanes.load(a + i * lda + p) * lanes.load(b + j * ldb + p); });
      put(c + i * ldc + j, alpha * dot, beta);
    }
  }
}

// m n k up to this is not worth a call of BLAS, which packs both matrices.
constexpr i64 small_product = 4096;

// c = alpha op(a) op(b) + beta c, a vector of columns at a time. op(b) is packed when it is transposed.
template <class T>
static void small(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb,
                  T beta, T* c, i64 ldc) {
  T packed[small_product];  // k n <= m n k
  if (transpose_b) {
    for (i64 j = 0; j < n; ++j) {
      for (i64 p = 0; p < k; ++p) packed[p * n + j] = b[j * ldb + p];
    }
    b = packed;
    ldb = n;
  }
  const i64 a_row = transpose_a ? 1 : lda, a_column = transpose_a ? lda : 1;
  for (i64 i = 0; i < m; ++i) {
    each<T>(0, n, [&](i64 j, auto lanes) {
      Vec<T> s(T(0));
      for (i64 p = 0; p < k; ++p) s = fma(Vec<T>(a[i * a_row + p * a_column]), lanes.load(b + p * ldb + j), s);
      put(c + i * ldc + j, Vec<T>(alpha) * s, beta, lanes);
    });
  }
}

// k = 1: c = alpha a b + beta c for a column a and a row b.
template <class T>
static void outer_product(i64 m, i64 n, T alpha, const T* a, i64 a_step, const T* b, i64 b_step, T beta, T* c, i64 ldc) {
  parallel_rows(m, n, [&](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) {
      const T factor = alpha * a[i * a_step];
      T* c_i = c + i * ldc;
      if (b_step == 1) {
        each<T>(0, n, [&](i64 j, auto lanes) { put(c_i + j, Vec<T>(factor) * lanes.load(b + j), beta, lanes); });
      } else {
        for (i64 j = 0; j < n; ++j) put(c_i + j, factor * b[j * b_step], beta);
      }
    }
  });
}

enum class Way { row, column, term, small, few_rows, large };

static Way way(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k) {
  if (m == 1) return Way::row;
  if (n == 1) return Way::column;
  if (k == 1) return Way::term;
  if (m * n <= small_product && m * n * k <= small_product) return Way::small;
  if (m <= most_few_rows(k) && k >= min_few_rows_terms && !transpose_a && transpose_b) return Way::few_rows;
  return Way::large;
}

const char* gemm_way(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k) {
  switch (way(transpose_a, transpose_b, m, n, k)) {
    case Way::row:
    case Way::column:
      return "one row or column";
    case Way::term:
      return "one term";
    case Way::small:
      return "small";
    case Way::few_rows:
      return "few rows";
    default:
#ifdef __AVX512F__
      return "tiles";
#else
      return "OpenBLAS";
#endif
  }
}

template <class T>
void gemm(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb, T beta,
          T* c, i64 ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0 || alpha == 0) return scale(m, n, beta, c, ldc);
  switch (way(transpose_a, transpose_b, m, n, k)) {
    case Way::row:
      return vector_product(transpose_b, n, k, alpha, a, transpose_a ? lda : 1, b, ldb, beta, c, i64{1});
    case Way::column:  // c^T = op(b)^T op(a)^T
      return vector_product(!transpose_a, m, k, alpha, b, transpose_b ? 1 : ldb, a, lda, beta, c, ldc);
    case Way::term:
      return outer_product(m, n, alpha, a, transpose_a ? 1 : lda, b, transpose_b ? ldb : 1, beta, c, ldc);
    case Way::small:
      return small(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    case Way::few_rows:
      return few_rows(m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    default:
      return large(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
}
SEQGRAD_INSTANTIATE(gemm)

template <class T>
void gemm_batched(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, i64 stride_a,
                  const T* b, i64 ldb, i64 stride_b, T beta, T* c, i64 ldc, i64 stride_c, i64 batch) {
  if (batch == 0 || m == 0 || n == 0) return;
  if (m == 1) {  // a single row has any distance to the next
    if (!transpose_a) lda = stride_a;
    ldc = stride_c;
  }
  if (stride_b == 0 && !transpose_a && stride_a == m * lda && stride_c == m * ldc && lda >= k && ldc >= n) {  // one tall matrix
    return gemm(false, transpose_b, batch * m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
  const i64 work = m * n * larger(k, 1);
  const auto product = [&](i64 i) {
    gemm(transpose_a, transpose_b, m, n, k, alpha, a + i * stride_a, lda, b + i * stride_b, ldb, beta, c + i * stride_c, ldc);
  };
  if (batch < omp_get_max_threads() || work > (i64{1} << 24)) {  // let BLAS share each among the threads
    for (i64 i = 0; i < batch; ++i) product(i);
    return;
  }
  parallel(batch, larger(1, grain * 2 / work), [&](i64 begin, i64 end) {
    for (i64 i = begin; i < end; ++i) product(i);
  });
}
SEQGRAD_INSTANTIATE(gemm_batched)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
