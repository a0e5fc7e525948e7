// Large matrix products: c = alpha op(a) op(b) + beta c, after Goto and van de Geijn, "Anatomy of High-Performance Matrix
// Multiplication" (2008). Both operands are copied ("packed") into the order in which they are read: a as panels of a few rows,
// b as panels of two vectors of columns. A tile of c, rows x two vectors, then stays in registers for a whole block of k terms:
//
//   for each block of k:                      pack b's panels
//     for each block of rows of a:            pack a's panels; kept in the inner cache
//       for each panel of b, each panel of a:     tile += a panel x b panel
//
// Each thread computes a rectangle of c. Every element's sum is taken in the order of k, in blocks that depend on k
// alone: neither the number of threads nor the other rows of the matrix change a bit of it.
//
// The numbers' format S gives what a panel's element is (one term of the sum, or a pair of bf16 ones), the sizes of tiles and
// blocks, pack_a, pack_b and multiply, the product of two panels: Tiles<T> below, RoundedTiles<T> in gemm_bf16_cpu.cpp,
// Bf16Tiles in gemm_bf16_avx512bf16.cpp, AmxTiles in gemm_bf16_amx.cpp.
#pragma once

#include <stdlib.h>

#include <utility>

#include "kernels/parallel.h"
#include "kernels/simd.h"

namespace seqgrad::kernels::SEQGRAD_LEVEL {

// op(x) seen as rows of `outer` steps and columns of `inner` steps, one of which is 1.
template <class T>
struct Operand {
  const T* data;
  i64 row_step, column_step;
  SEQGRAD_INLINE Operand from(i64 row, i64 column) const {
    return {data + row * row_step + column * column_step, row_step, column_step};
  }
};

// A weight (n, k), or, transposed, (k, n), as the right side of x w^T.
template <class T>
SEQGRAD_INLINE static Operand<T> weight_operand(bool transposed, const T* w, i64 ld_w) {
  return {w, transposed ? ld_w : 1, transposed ? 1 : ld_w};
}

// Memory for packed panels, which grows to the largest product its thread has seen and goes with the thread.
template <class T>
struct PackingBuffer {
  T* data = nullptr;
  i64 size = 0;
  ~PackingBuffer() { free(data); }
  T* reserve(i64 count) {
    if (count <= size) return data;
    free(data);
    void* memory = nullptr;
    const u64 bytes = static_cast<u64>(count) * sizeof(T);
    size = 0;
    data = nullptr;
    if (posix_memalign(&memory, 64, bytes) != 0) throw_out_of_memory(bytes, "a matrix product's packed panels");
    size = count;
    return data = static_cast<T*>(memory);
  }
};

template <bool high, class Raw, int... i>
SEQGRAD_INLINE static Raw interleave(Raw a, Raw b, std::integer_sequence<int, i...>) {
  constexpr int w = sizeof...(i), offset = high ? w / 2 : 0;
  return __builtin_shufflevector(a, b, (offset + i / 2 + (i % 2) * w)...);
}

// A square of width x width elements: log2(width) perfect shuffles of all of them turn rows into columns.
template <class T>
SEQGRAD_INLINE static void transpose_square(Vec<T> (&x)[Vec<T>::width]) {
  constexpr int w = Vec<T>::width;
  constexpr auto lanes = std::make_integer_sequence<int, w>();
  for (int stage = 1; stage < w; stage *= 2) {
    Vec<T> y[w];
    for (int i = 0; i < w / 2; ++i) {
      y[2 * i].raw = interleave<false>(x[i].raw, x[i + w / 2].raw, lanes);
      y[2 * i + 1].raw = interleave<true>(x[i].raw, x[i + w / 2].raw, lanes);
    }
    for (int i = 0; i < w; ++i) x[i] = y[i];
  }
}

// to[p * step + j] = from(j, p) for j < count <= width and p < k, where p is the contiguous direction. The lanes from count to
// `kept` are written as zeros.
template <class T>
static void pack_across(const T* from, i64 row_step, i64 count, i64 kept, i64 k, T* to, i64 step) {
  constexpr i64 w = Vec<T>::width;
  const auto square = [&](i64 p, auto lanes) {
    Vec<T> x[w];
    for (i64 j = 0; j < w; ++j) x[j] = j < count ? lanes.load(from + j * row_step + p) : Vec<T>(T(0));
    transpose_square<T>(x);
    T* row = to + p * step;
    if (kept == w) {
      for (i64 i = 0; i < lanes.count(); ++i) x[i].store(row + i * step);
    } else {
      const FirstLanes<T> part(kept);
      for (i64 i = 0; i < lanes.count(); ++i) part.store(row + i * step, x[i]);
    }
  };
  each<T>(0, k, square);
}

// Terms that lie apart are far from each other, so the processor does not see which come next: it is told so many before.
constexpr i64 terms_ahead = 32;

// The same where j is the contiguous direction.
template <class T>
static void pack_along(const T* from, i64 row_step, i64 count, i64 kept, i64 k, T* to, i64 step) {
  constexpr i64 w = Vec<T>::width;
  const auto all = [&](auto&& load, auto&& store) {
    for (i64 p = 0; p < k; ++p) {
      __builtin_prefetch(from + (p + terms_ahead) * row_step);
      store(to + p * step, load(from + p * row_step));
    }
  };
  const auto load_all = [](const T* x) { return Vec<T>::load(x); };
  const auto store_all = [](T* y, Vec<T> x) { x.store(y); };
  const FirstLanes<T> read(count), written(kept);
  const auto load_part = [&](const T* x) { return read.load(x); };
  if (count == w)
    all(load_all, store_all);
  else if (kept == w)
    all(load_part, store_all);
  else
    all(load_part, [&](T* y, Vec<T> x) { written.store(y, x); });
}

// A panel of `size` rows (of a) or columns (of b), of which `real` exist: element j of term p lands at to[p * size + j].
template <class T>
static void pack(const T* from, i64 panel_step, i64 k_step, i64 real, i64 size, i64 k, T* to) {
  constexpr i64 w = Vec<T>::width;
  for (i64 j = 0; j < size; j += w) {
    const i64 kept = smaller(w, size - j), count = larger(0, smaller(kept, real - j));
    if (k_step == 1)
      pack_across(from + j * panel_step, panel_step, count, kept, k, to + j, size);
    else
      pack_along(from + j, k_step, count, kept, k, to + j, size);
  }
}

// The lines of the cache that the next panel of b will be packed from, in pairs: `run` pairs follow each other, then comes a
// jump. The tiles of one panel ask the memory for the next one's, for the processor by itself does not look beyond a page.
struct Ahead {
  const char* pair = nullptr;
  i64 pairs = 0, left_in_run = 1, run = 1, jump = 0;
  static constexpr i64 bytes = 128;

  SEQGRAD_INLINE void fetch() {
    __builtin_prefetch(pair);
    __builtin_prefetch(pair + bytes / 2);
    pair += bytes;
    --pairs;
    if (--left_in_run == 0) {
      pair += jump;
      left_in_run = run;
    }
  }
};

// The share `part` of `parts` of a panel of terms x columns.
template <class T>
static Ahead ahead_of(Operand<T> b, i64 columns, i64 terms, i64 part, i64 parts) {
  constexpr i64 in_pair = Ahead::bytes / static_cast<i64>(sizeof(T));
  const bool along = b.column_step == 1;  // a run is a row of the panel's columns, else a column of its terms
  const i64 runs = along ? terms : columns, step = along ? b.row_step : b.column_step;
  const i64 run = ceil_divide(along ? columns : terms, in_pair), begin = runs * part / parts, end = runs * (part + 1) / parts;
  return {reinterpret_cast<const char*>(b.data + begin * step), (end - begin) * run, run, run,
          step * static_cast<i64>(sizeof(T)) - run * Ahead::bytes};
}

// The same of a panel that lies there packed, so many bytes.
inline Ahead ahead_of(const void* panel, i64 bytes, i64 part, i64 parts) {
  const i64 pairs = bytes / Ahead::bytes, begin = pairs * part / parts, run = pairs * (part + 1) / parts - begin;
  return {static_cast<const char*>(panel) + begin * Ahead::bytes, run, run, run, 0};
}

// c (rows x columns) = alpha sum_p a_p b_p + beta c for one packed panel of each; `real` columns are written.
template <int rows, class S, class T>
static void tile(i64 k, const typename S::Element* a, const typename S::Element* b, T alpha, T beta, T* c, i64 ldc, i64 real,
                 Ahead ahead) {
  constexpr i64 w = Vec<T>::width;
  Vec<T> s[rows][2];
  for (auto& row : s) row[0] = row[1] = Vec<T>(T(0));
  for (int i = 0; i < rows; ++i) __builtin_prefetch(c + i * ldc), __builtin_prefetch(c + i * ldc + w);
  const auto term = [&]() __attribute__((always_inline)) {
    const auto b0 = S::load(b), b1 = S::load(b + w);
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const auto a_i = S::repeat(a[i]);
      s[i][0] = S::add_product(a_i, b0, s[i][0]);
      s[i][1] = S::add_product(a_i, b1, s[i][1]);
    }
    a += rows;
    b += 2 * w;
  };
  i64 p = 0;
  for (; p + 4 <= k && ahead.pairs > 0; p += 4) {
    ahead.fetch();
    term();
    term();
    term();
    term();
  }
  for (; p < k; ++p) term();
  const Vec<T> factor(alpha), kept(beta);
  const auto put = [&](T* to, Vec<T> sum, auto lanes) {
    sum = factor * sum;
    lanes.store(to, beta == 0 ? sum : fma(kept, lanes.load(to), sum));
  };
  for (int i = 0; i < rows; ++i, c += ldc) {
    if (real == 2 * w) {
      put(c, s[i][0], AllLanes<T>());
      put(c + w, s[i][1], AllLanes<T>());
    } else {
      if (real >= w)
        put(c, s[i][0], AllLanes<T>());
      else
        put(c, s[i][0], FirstLanes<T>(real));
      if (real > w) put(c + w, s[i][1], FirstLanes<T>(real - w));
    }
  }
}

template <class S, class T>
using TileRoutine = void (*)(i64, const typename S::Element*, const typename S::Element*, T, T, T*, i64, i64, Ahead);

template <class S, class T, int... i>
static TileRoutine<S, T> tile_of(i64 rows, std::integer_sequence<int, i...>) {
  static constexpr TileRoutine<S, T> routines[] = {tile<i + 1, S, T>...};
  return routines[rows - 1];
}

template <class T>
struct Tiles {
  using Source = T;
  using Element = T;
  static constexpr i64 width = Vec<T>::width;
  // A block of a takes half a MB with AVX-512, whose processors have a MB or two of inner cache, and a quarter without.
#ifdef __AVX512F__
  static constexpr i64 rows = 14;  // 28 sums, two vectors of b and one element of a: all 32 registers
  static constexpr i64 block_k = 4096 / static_cast<i64>(sizeof(T)), block_m = 9 * rows;
#else
  static constexpr i64 rows = 6;
  static constexpr i64 block_k = 2048 / static_cast<i64>(sizeof(T)), block_m = 18 * rows;
#endif
  static constexpr i64 columns = 2 * width;

  static i64 elements(i64 terms) { return terms; }           // in a panel, for each row or column
  static i64 a_elements(i64 terms) { return rows * terms; }  // in a panel of a
  static void start() {}
  static void stop() {}
  static void pack_a(Operand<T> a, i64 height, i64 first, i64 count, i64, T* to) {
    pack(a.data, a.row_step, a.column_step, height, height, count, to + first * height);
  }
  static void pack_b(Operand<T> b, i64 real, i64 first, i64 count, T* to) {
    pack(b.data, b.column_step, b.row_step, real, columns, count, to + first * columns);
  }
  static Vec<T> load(const T* b) { return Vec<T>::load(b); }
  static Vec<T> repeat(T a) { return Vec<T>(a); }
  static Vec<T> add_product(Vec<T> a, Vec<T> b, Vec<T> sum) { return fma(a, b, sum); }
  static void multiply(i64 height, i64 count, const T* a, const T* b, T alpha, T beta, T* c, i64 ldc, i64 real, Ahead ahead) {
    constexpr auto heights = std::make_integer_sequence<int, static_cast<int>(rows)>();
    tile_of<Tiles, T>(height, heights)(count, a, b, alpha, beta, c, ldc, real, ahead);
  }
};

// Packs terms [0, terms) of panels: f(first, count) packs some terms of them all. Where the terms lie apart, a row of each next
// to the other, it is few at a time: what lies in a line of the cache is used before the next is needed.
template <class F>
static void pack_terms(bool apart, i64 terms, F&& f) {
  const i64 step = apart ? terms_ahead : terms;
  for (i64 first = 0; first < terms; first += step) f(first, smaller(step, terms - first));
}

// Panels of b: of each block of terms every panel, one after the other.
template <class S>
struct PackedPanels {
  using Element = typename S::Element;
  static i64 size(i64 terms) { return S::columns * S::elements(terms); }  // of a panel

  // Where the block of terms from p on begins, of n columns.
  static i64 block(i64 n, i64 p) { return p / S::block_k * ceil_divide(n, S::columns) * size(S::block_k); }

  // Panels [begin, end) of the block of terms.
  static void pack(Operand<typename S::Source> b, i64 n, i64 p, i64 terms, i64 begin, i64 end, Element* block) {
    pack_terms(b.column_step == 1, terms, [&](i64 first, i64 count) {
      for (i64 q = begin; q < end; ++q)
        S::pack_b(b.from(p + first, q * S::columns), smaller(S::columns, n - q * S::columns), first, count,
                  block + q * size(terms));
    });
  }
};

template <class S, class T>
static void pack_panels(Operand<T> b, i64 n, i64 k, typename S::Element* to) {
  using Panels = PackedPanels<S>;
  parallel_rows(ceil_divide(n, S::columns), S::columns * k, [&](i64 begin, i64 end) {
    for (i64 p = 0; p < k; p += S::block_k)
      Panels::pack(b, n, p, smaller(S::block_k, k - p), begin, end, to + Panels::block(n, p));
  });
}

// A part of the product that one thread computes by itself: m rows and n columns of c.
template <class S>
struct Rectangle {
  using T = typename S::Source;
  using Element = typename S::Element;
  Operand<T> a, b;
  i64 m, n, block;  // so many rows of a are packed at a time
  T alpha, beta;
  T* c;
  i64 ldc;

  // Elements of memory for a product of k terms: a panel of b and a block of a, rounded to lines of the cache.
  static i64 memory(i64 block, i64 k) {
    const i64 terms = smaller(S::block_k, k);
    return ceil_divide(PackedPanels<S>::size(terms) + ceil_divide(block, S::rows) * S::a_elements(terms), 16) * 16;
  }
  // Adds the block of terms from p on. b's panels of it are `ready`; null: each is packed just before its only use.
  void multiply(i64 p, i64 terms, const Element* ready, Element* memory) const;
};

template <class S>
void Rectangle<S>::multiply(i64 p, i64 terms, const Element* ready, Element* memory) const {
  const i64 size = PackedPanels<S>::size(terms);
  Element* const a_packed = memory + size;
  const T kept = p == 0 ? beta : T(1);
  S::start();
  for (i64 i0 = 0; i0 < m; i0 += block) {
    const i64 rows = smaller(block, m - i0), panels = ceil_divide(rows, S::rows);
    // Panels of nearly equal heights: 15 rows are 8 and 7, not 14 and 1.
    const auto start = [&](i64 panel) { return rows * panel / panels; };
    const auto height = [&](i64 panel) { return start(panel + 1) - start(panel); };
    const auto a_panel = [&](i64 panel) { return a_packed + panel * S::a_elements(terms); };
    pack_terms(a.row_step == 1, terms, [&](i64 first, i64 count) {
      for (i64 q = 0; q < panels; ++q) S::pack_a(a.from(i0 + start(q), p + first), height(q), first, count, terms, a_panel(q));
    });
    const auto ahead = [&](i64 j, i64 q) {
      if (j >= n || m > block) return Ahead();
      return ready ? ahead_of(ready + j / S::columns * size, size * static_cast<i64>(sizeof(Element)), q, panels)
                   : ahead_of(b.from(p, j), S::columns, terms, q, panels);
    };
    for (i64 j = 0; j < n; j += S::columns) {
      const i64 real = smaller(S::columns, n - j);
      if (!ready) S::pack_b(b.from(p, j), real, 0, terms, memory);
      const Element* const b_panel = ready ? ready + j / S::columns * size : memory;
      for (i64 q = 0; q < panels; ++q)
        S::multiply(height(q), S::elements(terms), a_panel(q), b_panel, alpha, kept, c + (i0 + start(q)) * ldc + j, ldc, real,
                    ahead(j + S::columns, q));
    }
  }
  S::stop();
}

// Splits c among the threads in a grid of rectangles. Unless b's panels are ready, or each serves few rows, the threads pack
// them together, a block of terms and columns at a time.
template <class S, class T>
static void in_rectangles(Operand<T> a, Operand<T> b, const typename S::Element* ready, i64 m, i64 n, i64 k, T alpha, T beta,
                          T* c, i64 ldc) {
  using Element = typename S::Element;
  using Panels = PackedPanels<S>;
  constexpr i64 worth_waking = i64{1} << 20, most_panels = 256;
  const i64 threads = omp_in_parallel() || m * n * k < worth_waking ? 1 : omp_get_max_threads();
  // The grid is down x across. A row is packed across times, a column down times unless all share it.
  const auto few_rows = [&](i64 d) { return ceil_divide(m, d) <= 2 * S::block_m; };
  const auto together = [&](i64 d) { return !ready && !few_rows(d); };
  const auto cost = [&](i64 d) { return m / d + n / (threads / d) / (ready || together(d) ? 4 : 1); };
  i64 down = 1;
  for (i64 d = 2; d <= threads; ++d) {
    if (threads % d == 0 && cost(d) < cost(down)) down = d;
  }
  const bool shared = together(down);
  const i64 across = threads / down, panels = ceil_divide(n, S::columns),
            block = shared ? smaller(panels, most_panels) : panels;
  const i64 b_size = shared ? ceil_divide(block * Panels::size(smaller(S::block_k, k)), 16) * 16 : 0;
  const i64 rows = few_rows(down) ? ceil_divide(m, down) : S::block_m, memory = Rectangle<S>::memory(rows, k);
  static thread_local PackingBuffer<Element> buffer;
  Element* const packed = buffer.reserve(b_size + threads * memory);

  const auto multiply_block = [&](i64 thread, i64 team, i64 p, i64 terms, i64 first, i64 count) {
    const Element* const b_packed = shared ? packed : ready ? ready + Panels::block(n, p) : nullptr;
    for (i64 part = thread; part < threads; part += team) {
      const i64 i = m * (part / across) / down, i_end = m * (part / across + 1) / down;
      const i64 panel = count * (part % across) / across, j = (first + panel) * S::columns;
      const i64 j_end = smaller(n, (first + count * (part % across + 1) / across) * S::columns);
      if (i < i_end && j < j_end)
        Rectangle<S>{a.from(i, 0), b.from(0, j), i_end - i, j_end - j, rows, alpha, beta, c + i * ldc + j, ldc}.multiply(
            p, terms, b_packed ? b_packed + panel * Panels::size(terms) : nullptr, packed + b_size + part * memory);
    }
  };
  const auto multiply = [&](i64 thread, i64 team, auto&& wait) {
    for (i64 p = 0; p < k; p += S::block_k) {
      const i64 terms = smaller(S::block_k, k - p);
      for (i64 first = 0; first < panels; first += block) {
        const i64 count = smaller(block, panels - first);
        if (shared) {
          Panels::pack(b.from(0, first * S::columns), n - first * S::columns, p, terms, count * thread / team,
                       count * (thread + 1) / team, packed);
          wait();
        }
        multiply_block(thread, team, p, terms, first, count);
        if (shared) wait();
      }
    }
  };
  if (threads == 1) return multiply(0, 1, [] {});
#pragma omp parallel
  multiply(omp_get_thread_num(), omp_get_num_threads(), [] {
#pragma omp barrier
  });
}

template <class S, class T = typename S::Source>
static void tiled(bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k, T alpha, const T* a, i64 lda, const T* b, i64 ldb,
                  T beta, T* c, i64 ldc) {
  const Operand<T> x{a, transpose_a ? 1 : lda, transpose_a ? lda : 1}, y{b, transpose_b ? 1 : ldb, transpose_b ? ldb : 1};
  in_rectangles<S>(x, y, nullptr, m, n, k, alpha, beta, c, ldc);
}

// c (m, n) = a (m, k) b + beta c for a b of pack_panels, bit for bit as `tiled`.
template <class S, class T = typename S::Source>
static void tiled_packed(i64 m, i64 n, i64 k, const T* a, i64 lda, const typename S::Element* b, T beta, T* c, i64 ldc) {
  in_rectangles<S>(Operand<T>{a, lda, 1}, Operand<T>{nullptr, 0, 0}, b, m, n, k, T(1), beta, c, ldc);
}

}  // namespace seqgrad::kernels::SEQGRAD_LEVEL
