// Products with weights that were laid out once: the panels of gemm_tiles.h, of which x's alone are packed at each call. Each
// element's sum has one order, whatever the other rows are, so a translation's bits do not depend on its batch.
#include "kernels/gemm_tiles.h"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"
#include "kernels/row_math.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

template <class T>
constexpr i64 line = 64 / sizeof(T);  // of the cache, in elements

// Panel p holds the rows of w from p columns on: packed[(p k + i) columns + j] = w[p columns + j, i], zeros beyond w's last
// row.
template <class T>
void pack_linear(const T* w, i64 ld_w, T* packed, i64 n, i64 k) {
  constexpr i64 columns = Tiles<T>::columns;
  parallel_rows(ceil_divide(n, columns), columns * k, [&](i64 begin, i64 end) {
    for (i64 p = begin; p < end; ++p)
      pack(w + p * columns * ld_w, ld_w, 1, smaller(columns, n - p * columns), columns, k, packed + p * columns * k);
  });
}
SEQGRAD_INSTANTIATE(pack_linear)

// gemm_tiles.h's tile with alpha = 1, which also asks the memory for `lines` cache lines every other term: of weights that few
// rows use, waiting for them would be most of the time, and the processor by itself does not look beyond a page.
template <int rows, int lines, class T>
static void tile_ahead(i64 k, const T* a, const T* b, T beta, T* c, i64 ldc, i64 real, const T* ahead) {
  constexpr i64 w = Vec<T>::width;
  Vec<T> s[rows][2];
  for (auto& row : s) row[0] = row[1] = Vec<T>(T(0));
  const auto term = [&](const T* a_p, const T* b_p) __attribute__((always_inline)) {
    const Vec<T> b0 = Vec<T>::load(b_p), b1 = Vec<T>::load(b_p + w);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const Vec<T> a_i(a_p[i]);
      s[i][0] = fma(a_i, b0, s[i][0]);
      s[i][1] = fma(a_i, b1, s[i][1]);
    }
  };
  i64 p = 0;
  for (; p + 2 <= k; p += 2, a += 2 * rows, b += 4 * w, ahead += lines * line<T>) {
#pragma GCC unroll 4
    for (int l = 0; l < lines; ++l) __builtin_prefetch(ahead + l * line<T>);
    term(a, b);
    term(a + rows, b + 2 * w);
  }
  if (p < k) term(a, b);
  const Vec<T> kept(beta);
  const auto put = [&](T* to, Vec<T> sum, auto lanes) { lanes.store(to, beta == 0 ? sum : fma(kept, lanes.load(to), sum)); };
  for (int i = 0; i < rows; ++i, c += ldc) {
    if (real >= w)
      put(c, s[i][0], AllLanes<T>());
    else
      put(c, s[i][0], FirstLanes<T>(real));
    if (real == 2 * w)
      put(c + w, s[i][1], AllLanes<T>());
    else if (real > w)
      put(c + w, s[i][1], FirstLanes<T>(real - w));
  }
}

template <class T>
using TileAhead = void (*)(i64, const T*, const T*, T, T*, i64, i64, const T*);

template <int lines, class T, int... i>
static TileAhead<T> tile_ahead_of(i64 rows, std::integer_sequence<int, i...>) {
  static constexpr TileAhead<T> routines[] = {tile_ahead<i + 1, lines, T>...};
  return routines[rows - 1];
}

// y[:, columns of panels begin..end] for x's packed tiles.
template <class T>
static void multiply_panels(i64 begin, i64 end, const T* x, const T* packed, const T* bias, bool accumulate, T* y, i64 ld_y,
                            i64 rows, i64 n, i64 k) {
  using S = Tiles<T>;
  constexpr auto heights = std::make_integer_sequence<int, static_cast<int>(S::rows)>();
  const i64 tiles = ceil_divide(rows, S::rows);
  for (i64 p = begin; p < end; ++p) {
    const i64 column = p * S::columns, real = smaller(S::columns, n - column);
    if (bias || (k == 0 && !accumulate))
      for (i64 r = 0; r < rows; ++r) start_row(bias ? bias + column : nullptr, accumulate, y + r * ld_y + column, real);
    for (i64 i = 0; i < k; i += S::block_k) {
      const i64 terms = smaller(S::block_k, k - i);
      const T kept = bias || accumulate || i > 0 ? T(1) : T(0);
      // The tiles share out the next block of weights among themselves: two terms' weights are `all` lines.
      const T* const next = packed + (p * k + i + terms) * S::columns;
      constexpr i64 all = 2 * S::columns / line<T>;
      static_assert(all == 4 || all == 2);
      const i64 lines = tiles >= 4 ? 1 : tiles >= 2 ? 2 : 4;
      for (i64 t = 0; t < tiles; ++t) {
        const i64 row = rows * t / tiles, height = rows * (t + 1) / tiles - row;
        const auto routine = t * lines >= all ? tile_ahead_of<0, T>(height, heights)
                             : lines == 1     ? tile_ahead_of<1, T>(height, heights)
                             : lines == 2     ? tile_ahead_of<2, T>(height, heights)
                                              : tile_ahead_of<all, T>(height, heights);
        routine(terms, x + row * k + i * height, packed + (p * k + i) * S::columns, kept, y + row * ld_y + column, ld_y, real,
                next + t * lines * line<T> * (terms / 2));
      }
    }
  }
}

template <class T>
void packed_linear(const T* x, i64 ld_x, const T* packed, const T* bias, bool accumulate, T* y, i64 ld_y, i64 rows, i64 n,
                   i64 k) {
  using S = Tiles<T>;
  if (rows == 0 || n == 0) return;
  const i64 tiles = ceil_divide(rows, S::rows), panels = ceil_divide(n, S::columns);
  static thread_local PackingBuffer<T> buffer;
  T* const x_packed = rows == 1 ? nullptr : buffer.reserve(rows * k);
  const auto pack_tiles = [&](i64 begin, i64 end) {
    for (i64 t = begin; x_packed && t < end; ++t) {
      const i64 row = rows * t / tiles, height = rows * (t + 1) / tiles - row;
      pack(x + row * ld_x, ld_x, 1, height, height, k, x_packed + row * k);
    }
  };
  const T* const x_tiles = x_packed ? x_packed : x;  // a single row is packed as it stands
  constexpr i64 worth_waking = i64{1} << 17;
  if (omp_in_parallel() || omp_get_max_threads() == 1 || rows * n * k < worth_waking) {
    pack_tiles(0, tiles);
    multiply_panels(0, panels, x_tiles, packed, bias, accumulate, y, ld_y, rows, n, k);
    return;
  }
#pragma omp parallel
  {
    const i64 id = omp_get_thread_num(), threads = omp_get_num_threads();
    pack_tiles(tiles * id / threads, tiles * (id + 1) / threads);
#pragma omp barrier
    multiply_panels(panels * id / threads, panels * (id + 1) / threads, x_tiles, packed, bias, accumulate, y, ld_y, rows, n, k);
  }
}
SEQGRAD_INSTANTIATE(packed_linear)

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
