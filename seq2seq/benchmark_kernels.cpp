#include "seq2seq/benchmark_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>

#include "kernels/kernels.h"
#include "kernels/measure.h"
#include "kernels/openblas.h"
#include "kernels/packed.h"
#include "kernels/threads.h"
#include "seq2seq/benchmark.h"
#include "seq2seq/random.h"
#include "seq2seq/timing.h"
#include "seq2seq/train.h"

namespace seqgrad::seq2seq {
namespace {

using kernels::ProductShape;

// The fastest of `runs` runs, each of as many calls as take two milliseconds.
double fastest(const std::function<void()>& call, int runs = 12) {
  constexpr double long_enough = 2e-3, too_long = 0.25;
  call();
  i64 calls = 1;
  double best = std::numeric_limits<double>::infinity(), total = 0;
  for (int run = 0; run < runs; ++run) {
    const auto start = Clock::now();
    for (i64 i = 0; i < calls; ++i) call();
    const double seconds = seconds_since(start);
    best = std::min(best, seconds / static_cast<double>(calls));
    if (seconds < long_enough)
      calls = std::max(calls + 1, static_cast<i64>(static_cast<double>(calls) * long_enough / seconds));
    total += seconds;
    if (total > too_long) break;
  }
  return best;
}

enum class Level { v1, avx2, avx512, cpu };
constexpr const char* level_names[] = {"v1", "avx2", "avx512"};

// Calls one routine at any level: SEQGRAD_AT(level, softmax<float>(x, y, rows, cols)).
#define SEQGRAD_AT(level, ...)             \
  switch (level) {                         \
    case Level::v1:                        \
      return kernels::v1::__VA_ARGS__;     \
    case Level::avx2:                      \
      return kernels::avx2::__VA_ARGS__;   \
    case Level::avx512:                    \
      return kernels::avx512::__VA_ARGS__; \
    default:                               \
      return kernels::cpu::__VA_ARGS__;    \
  }

using Call = std::function<void(Level)>;

std::map<std::string, double> seconds_by_level(const Call& call, bool plain) {
  std::map<std::string, double> seconds;
  const std::size_t count = kernels::cpu_levels().size();
  for (std::size_t i = plain ? 0 : 1; i < count; ++i)
    seconds[level_names[i]] = fastest([&] { call(static_cast<Level>(i)); }, i == 0 ? 4 : 12);
  return seconds;
}

// Memory for operands, given back when a family is done.
class Operands {
 public:
  float* uniform(i64 n) {
    std::vector<float>& x = floats_.emplace_back(static_cast<std::size_t>(n));
    for (float& one : x) one = static_cast<float>(random_.below(2000)) * 1e-3f - 1;
    return x.data();
  }
  float* space(i64 n) { return floats_.emplace_back(static_cast<std::size_t>(n), 0.5f).data(); }
  i64* below(i64 n, i64 limit) {
    std::vector<i64>& x = ids_.emplace_back(static_cast<std::size_t>(n));
    for (i64& one : x) one = static_cast<i64>(random_.below(static_cast<u64>(limit)));
    return x.data();
  }
  bool* yes(i64 n) {
    std::unique_ptr<bool[]>& flags = flags_.emplace_back(std::make_unique<bool[]>(static_cast<std::size_t>(n)));
    std::fill_n(flags.get(), n, true);
    return flags.get();
  }

 private:
  SplitMix64 random_{1};
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<i64>> ids_;
  std::deque<std::unique_ptr<bool[]>> flags_;
};

class Bench {
 public:
  Bench(const Wanted& wanted, const std::function<void(const RoutineSpeed&)>& done) : wanted_(wanted), done_(done) {}

  bool wants(std::initializer_list<const char*> names) const { return std::any_of(names.begin(), names.end(), wanted_); }

  // plain: whether v1 is measured as well.
  void measure(const std::string& name, const std::string& shape, const Call& call, bool plain = true) const {
    if (!wanted_(name)) return;
    kernels::start_profile();  // counts the work
    call(Level::cpu);
    kernels::stop_profile();
    kernels::Work work;
    for (const kernels::RoutineProfile& one : kernels::profile()) work = {one.flops, one.bytes, one.product};
    done_({name, shape, seconds_by_level(call, plain), work});
  }

 private:
  const Wanted& wanted_;
  const std::function<void(const RoutineSpeed&)>& done_;
};

// The reference setting (--preset multi30k) with a batch of middling length.
constexpr i64 batch = 128, source = 14, steps = 14, embedding = 256, hidden = 512, context = 1024, vocabulary = 5921,
              words = 1600, parameters = 19'888'289;

void bench_gates(const Bench& bench) {
  if (!bench.wants({"gru_gates", "gru_gates_backward", "lstm_gates", "lstm_gates_backward", "rnn_gates", "rnn_gates_backward"}))
    return;
  for (const auto& [rows, H] : {std::pair{batch, hidden}, std::pair{i64{32}, i64{128}}}) {
    Operands o;
    const i64 n = rows * H;
    float *gi = o.uniform(4 * n), *gh = o.uniform(4 * n), *h = o.uniform(n), *c = o.uniform(n), *gates = o.uniform(4 * n),
          *y = o.space(n), *next = o.space(n), *c_next = o.space(n), *dy = o.uniform(n), *d_gi = o.space(4 * n),
          *d_gh = o.space(4 * n), *dh = o.uniform(n), *dc = o.uniform(n);
    const std::string shape = fmt::format("{} x {}", rows, H);
    bench.measure("gru_gates", shape, [=, rows = rows, H = H](Level level) {
      SEQGRAD_AT(level, gru_gates<float>(gi, 3 * H, gh, 3 * H, h, H, next, H, y, H, gates, 4 * H, rows, H, nullptr, 0))
    });
    bench.measure("gru_gates_backward", shape, [=, rows = rows, H = H](Level level) {
      SEQGRAD_AT(level,
                 gru_gates_backward<float>(dy, H, gates, 4 * H, h, H, dh, H, d_gi, 3 * H, d_gh, 3 * H, rows, H, nullptr, 0))
    });
    bench.measure("lstm_gates", shape, [=, rows = rows, H = H](Level level) {
      SEQGRAD_AT(level, lstm_gates<float>(gi, 4 * H, h, H, c, H, next, H, c_next, H, y, H, gates, 4 * H, rows, H, nullptr, 0))
    });
    bench.measure("lstm_gates_backward", shape, [=, rows = rows, H = H](Level level) {
      SEQGRAD_AT(level, lstm_gates_backward<float>(dy, H, gates, 4 * H, c, H, c_next, H, dh, H, dc, H, d_gi, 4 * H, rows, H,
                                                   nullptr, 0))
    });
    bench.measure("rnn_gates", shape, [=, rows = rows, H = H](Level level) {
      SEQGRAD_AT(level, rnn_gates<float>(gi, H, h, H, next, H, y, H, rows, H, nullptr, 0))
    });
    bench.measure("rnn_gates_backward", shape, [=, rows = rows, H = H](Level level) {
      SEQGRAD_AT(level, rnn_gates_backward<float>(dy, H, h, H, dh, H, d_gi, H, rows, H, nullptr, 0))
    });
  }
}

void bench_attention(const Bench& bench) {
  if (bench.wants({"additive_scores", "additive_scores_backward"})) {
    Operands o;
    const i64 K = hidden;
    float *q = o.uniform(batch * K), *keys = o.uniform(batch * source * K), *v = o.uniform(K), *score = o.space(batch * source),
          *dscore = o.uniform(batch * source), *dq = o.space(batch * K), *dkeys = o.space(batch * source * K),
          *dv = o.space(batch * K);
    const std::string shape = fmt::format("{} x {} x {}", batch, source, K);
    bench.measure("additive_scores", shape,
                  [=](Level level) { SEQGRAD_AT(level, additive_scores<float>(q, keys, v, score, batch, source, K)) });
    bench.measure("additive_scores_backward", shape, [=](Level level) {
      SEQGRAD_AT(level, additive_scores_backward<float>(q, keys, v, dscore, dq, dkeys, dv, batch, source, K))
    });
  }
  if (bench.wants({"gemm_batched"})) {
    Operands o;
    float *weights = o.uniform(batch * source), *values = o.uniform(batch * source * context), *y = o.space(batch * context),
          *keys = o.uniform(batch * source * 64), *q = o.uniform(batch * 64), *dvalues = o.space(batch * source * context);
    bench.measure("gemm_batched", fmt::format("weighted sum: {} of 1x{}x{}", batch, context, source), [=](Level level) {
      SEQGRAD_AT(level, gemm_batched<float>(false, false, 1, context, source, 1, weights, source, source, values, context,
                                            source * context, 0, y, context, context, batch))
    });
    bench.measure("gemm_batched", fmt::format("scores: {} of 1x{}x64, b transposed", batch, source), [=](Level level) {
      SEQGRAD_AT(level, gemm_batched<float>(false, true, 1, source, 64, 1, q, 64, 64, keys, 64, source * 64, 0, weights, source,
                                            source, batch))
    });
    bench.measure("gemm_batched", fmt::format("its gradient: {} of {}x{}x1", batch, source, context), [=](Level level) {
      SEQGRAD_AT(level, gemm_batched<float>(true, false, source, context, 1, 1, weights, source, source, y, context, context, 1,
                                            dvalues, context, source * context, batch))
    });
  }
}

void bench_softmax(const Bench& bench) {
  if (bench.wants({"softmax", "softmax_backward", "masked_softmax"})) {
    Operands o;
    float *x = o.uniform(batch * source), *y = o.space(batch * source), *dx = o.space(batch * source);
    bool* mask = o.yes(batch * source);
    const std::string shape = fmt::format("{} x {}", batch, source);
    bench.measure("softmax", shape, [=](Level level) { SEQGRAD_AT(level, softmax<float>(x, y, batch, source)) });
    bench.measure("masked_softmax", shape,
                  [=](Level level) { SEQGRAD_AT(level, masked_softmax<float>(x, mask, y, batch, source, 1)) });
    bench.measure("softmax_backward", shape,
                  [=](Level level) { SEQGRAD_AT(level, softmax_backward<float>(y, x, dx, batch, source)) });
  }
  if (bench.wants({"log_softmax", "log_softmax_backward", "cross_entropy", "max_reduce"})) {
    Operands o;
    float *x = o.uniform(words * vocabulary), *y = o.space(words * vocabulary), *loss = o.space(words),
          *dx = o.space(batch * vocabulary);
    i64 *target = o.below(words, vocabulary), *index = o.below(words, 1);
    const std::string some = fmt::format("{} x {}", batch, vocabulary), all = fmt::format("{} x {}", words, vocabulary);
    bench.measure("log_softmax", some, [=](Level level) { SEQGRAD_AT(level, log_softmax<float>(x, y, batch, vocabulary)) });
    bench.measure("log_softmax_backward", some,
                  [=](Level level) { SEQGRAD_AT(level, log_softmax_backward<float>(y, x, dx, batch, vocabulary)) });
    bench.measure("max_reduce", some,
                  [=](Level level) { SEQGRAD_AT(level, max_reduce<float>(x, y, index, batch, vocabulary, 1)) });
    bench.measure("cross_entropy", all,
                  [=](Level level) { SEQGRAD_AT(level, cross_entropy<float>(x, target, loss, y, words, vocabulary, -1, 0)) });
  }
  if (bench.wants({"layer_norm", "layer_norm_backward"})) {
    Operands o;
    const i64 rows = batch * source, cols = hidden;
    float *x = o.uniform(rows * cols), *y = o.space(rows * cols), *w = o.uniform(cols), *b = o.uniform(cols),
          *mean = o.space(rows), *rstd = o.space(rows), *dx = o.space(rows * cols), *dw = o.space(cols), *db = o.space(cols);
    const std::string shape = fmt::format("{} x {}", rows, cols);
    bench.measure("layer_norm", shape,
                  [=](Level level) { SEQGRAD_AT(level, layer_norm<float>(x, w, b, y, mean, rstd, rows, cols, 1e-5f)) });
    bench.measure("layer_norm_backward", shape, [=](Level level) {
      SEQGRAD_AT(level, layer_norm_backward<float>(y, x, w, mean, rstd, dx, dw, db, rows, cols))
    });
  }
}

void bench_rows(const Bench& bench) {
  if (!bench.wants({"gather_rows", "scatter_add_rows", "dropout"})) return;
  Operands o;
  const i64 rows = batch * source;
  float *table = o.uniform(vocabulary * embedding), *x = o.uniform(rows * embedding), *y = o.space(rows * embedding);
  i64* ids = o.below(rows, vocabulary);
  const std::string shape = fmt::format("{} x {}", rows, embedding);
  bench.measure("gather_rows", shape,
                [=](Level level) { SEQGRAD_AT(level, gather_rows<float>(table, ids, y, rows, embedding)) });
  bench.measure("scatter_add_rows", shape,
                [=](Level level) { SEQGRAD_AT(level, scatter_add_rows<float>(x, ids, table, rows, embedding, 0)) });
  bench.measure("dropout", shape, [=](Level level) { SEQGRAD_AT(level, dropout<float>(x, y, rows * embedding, 0.5f, 1, 2)) });
}

void bench_moves(const Bench& bench) {
  if (bench.wants({"fill", "affine", "copy_strided", "add_strided"})) {
    Operands o;
    const i64 rows = batch * steps, gates = 3 * hidden;
    float *x = o.uniform(rows * gates), *y = o.space(rows * gates), *bias = o.space(gates);
    const std::string whole = fmt::format("{} x {}", rows, gates);
    bench.measure("fill", whole, [=](Level level) { SEQGRAD_AT(level, fill<float>(y, 1, rows * gates)) });
    bench.measure("affine", whole, [=](Level level) { SEQGRAD_AT(level, affine<float>(x, y, 2, 0, rows * gates)) });
    using Strides = std::array<i64, 3>;
    const auto copy = [&](const std::string& what, Strides shape, Strides from, Strides to) {
      bench.measure("copy_strided", what,
                    [=](Level level) { SEQGRAD_AT(level, copy_strided<float>(x, from.data(), y, to.data(), shape.data(), 3)) });
    };
    copy(fmt::format("{} x {} of one row: a bias", batch, gates), {1, batch, gates}, {0, 0, 1}, {0, gates, 1});
    copy(fmt::format("{}: whole", whole), {1, rows, gates}, {0, gates, 1}, {0, gates, 1});
    copy(fmt::format("{} x {}: a step of a sequence", batch, hidden), {1, batch, hidden}, {0, steps * hidden, 1},
         {0, hidden, 1});
    copy(fmt::format("{} x {}: transposed", gates, hidden), {1, gates, hidden}, {0, 1, gates}, {0, hidden, 1});
    const auto add = [&](const std::string& what, float* to, Strides shape, Strides from, Strides into) {
      bench.measure("add_strided", what, [=](Level level) {
        SEQGRAD_AT(level, add_strided<float>(1, x, from.data(), to, into.data(), shape.data(), 3))
      });
    };
    add(fmt::format("{}: sum of rows", whole), bias, {1, rows, gates}, {0, gates, 1}, {0, 0, 1});
    add(fmt::format("{} x {}: a step of a sequence", batch, hidden), y, {1, batch, hidden}, {0, hidden, 1},
        {0, steps * hidden, 1});
  }
  const i64 n = batch * hidden;
  Operands o;
  float *x = o.uniform(n), *y = o.uniform(n), *dy = o.uniform(n), *dx = o.space(n), *db = o.space(n);
  const std::string shape = fmt::format("{} x {}", batch, hidden);
#define SEQGRAD_BENCH_UNARY(Op, name)                                                               \
  bench.measure(#name, shape, [=](Level level) { SEQGRAD_AT(level, unary<kernels::Op>(x, y, n)) }); \
  bench.measure(#name "_backward", shape, [=](Level level) { SEQGRAD_AT(level, unary_backward<kernels::Op>(x, y, dy, dx, n)) });
  SEQGRAD_UNARY_OPS(SEQGRAD_BENCH_UNARY)
  const std::array<i64, 2> sizes{batch, hidden}, whole{hidden, 1}, one_row{0, 1};
#define SEQGRAD_BENCH_BINARY(Op, name)                                                                                \
  bench.measure(#name, shape + ", one row", [=](Level level) {                                                        \
    SEQGRAD_AT(level, binary<kernels::Op>(x, whole.data(), y, one_row.data(), dx, sizes.data(), 2))                   \
  });                                                                                                                 \
  bench.measure(#name "_backward", shape, [=](Level level) {                                                          \
    SEQGRAD_AT(level, binary_backward<kernels::Op>(x, whole.data(), y, whole.data(), y, dy, dx, db, sizes.data(), 2)) \
  });
  SEQGRAD_BINARY_OPS(SEQGRAD_BENCH_BINARY)
}

void bench_optimisers(const Bench& bench) {
  if (!bench.wants({"norm_and_clip", "sgd_step", "adam_step"})) return;
  Operands o;
  float *w = o.space(parameters), *g = o.space(parameters), *m = o.space(parameters), *v = o.space(parameters);
  double norm[2];
  const std::string shape = fmt::format("{}", parameters);
  bench.measure("norm_and_clip", shape, [&](Level level) { SEQGRAD_AT(level, norm_and_clip<float>(g, parameters, 1, norm)) });
  bench.measure("sgd_step", shape,
                [=](Level level) { SEQGRAD_AT(level, sgd_step<float>(w, g, v, parameters, 0.0f, 0.9f, nullptr)) });
  bench.measure("adam_step", shape, [=](Level level) {
    SEQGRAD_AT(level, adam_step<float>(w, g, m, v, parameters, 0, 0.9, 0.999, 1e-8, 0.5, 0.5, nullptr))
  });
}

// a, b and c as large as any transposition needs them; c is only written (beta = 0).
struct Product {
  Operands operands;
  ProductShape shape;
  float *a, *b, *c, *laid_out;  // b as packed_linear_bf16 reads it

  explicit Product(const ProductShape& s)
      : shape(s),
        a(operands.uniform(s.m * s.k)),
        b(operands.uniform(s.k * s.n)),
        c(operands.space(s.m * s.n)),
        laid_out(operands.space(kernels::packed_size(s.n, s.k))) {}
  i64 lda() const { return shape.transpose_a ? shape.m : shape.k; }
  i64 ldb() const { return shape.transpose_b ? shape.k : shape.n; }

  void run(Level level) const {
    SEQGRAD_AT(level, gemm<float>(shape.transpose_a, shape.transpose_b, shape.m, shape.n, shape.k, 1, a, lda(), b, ldb(), 0, c,
                                  shape.n))
  }
  void run_bf16() const {
    kernels::cpu::gemm_bf16<float>(shape.transpose_a, shape.transpose_b, shape.m, shape.n, shape.k, 1, a, lda(), b, ldb(), 0, c,
                                   shape.n);
  }
  void lay_out() const { kernels::cpu::pack_linear_bf16<float>(!shape.transpose_b, b, ldb(), laid_out, shape.n, shape.k); }
  void run_laid_out() const {  // without transpose_a
    kernels::cpu::packed_linear_bf16<float>(a, lda(), laid_out, nullptr, false, c, shape.n, shape.m, shape.n, shape.k);
  }
  std::vector<double> exact() const {
    const std::vector<double> x(a, a + shape.m * shape.k), y(b, b + shape.k * shape.n);
    std::vector<double> z(static_cast<std::size_t>(shape.m * shape.n));
    kernels::cpu::gemm<double>(shape.transpose_a, shape.transpose_b, shape.m, shape.n, shape.k, 1, x.data(), lda(), y.data(),
                               ldb(), 0, z.data(), shape.n);
    return z;
  }
  double error(const std::vector<double>& z) const {
    double difference = 0, norm = 0;
    for (std::size_t i = 0; i < z.size(); ++i) {
      difference += (c[i] - z[i]) * (c[i] - z[i]);
      norm += z[i] * z[i];
    }
    return std::sqrt(difference / norm);
  }
  void run_openblas() const {
    kernels::openblas_gemm(shape.transpose_a, shape.transpose_b, shape.m, shape.n, shape.k, 1, a, lda(), b, ldb(), 0, c,
                           shape.n);
  }
};

double operations(const ProductShape& shape) {
  return 2 * static_cast<double>(shape.m) * static_cast<double>(shape.n * shape.k);
}

}  // namespace

MachineLimits machine_limits() {
  MachineLimits limits;
  const Product large({1536, 1536, 1536, 1, false, false});
  const double work = operations(large.shape);
  limits.gemm_gflops = 1e-9 * work / fastest([&] { large.run(Level::cpu); }, 20);
  limits.openblas_gflops = 1e-9 * work / fastest([&] { large.run_openblas(); }, 20);
  limits.bf16_gflops = 1e-9 * work / fastest([&] { large.run_bf16(); }, 20);
  constexpr i64 rounds = 200'000;
  double done = 0;
  limits.arithmetic_gflops = fastest([&] { done = kernels::multiply_and_add(rounds); });
  limits.arithmetic_gflops = 1e-9 * done / limits.arithmetic_gflops;
  constexpr i64 block = i64{1} << 23;
  Operands o;
  const float* from = o.space(block);
  float* to = o.space(block);
  const i64 stride = 1, size = block;
  const double seconds = fastest([&] { kernels::cpu::copy_strided<float>(from, &stride, to, &stride, &size, 1); });
  limits.copy_gigabytes_per_second = 2e-9 * sizeof(float) * static_cast<double>(block) / seconds;
  return limits;
}

void bench_routines(const Wanted& wanted, const std::function<void(const RoutineSpeed&)>& done) {
  const Bench bench(wanted, done);
  bench_gates(bench);
  bench_attention(bench);
  bench_softmax(bench);
  bench_rows(bench);
  bench_moves(bench);
  bench_optimisers(bench);
}

std::vector<ProductSpeed> training_products(Settings settings) {
  std::map<ProductShape, double> calls;
  for (const char* attention : {"sdp", "bahdanau"}) {
    settings.attention = attention;
    const auto run = made_up_run(settings);
    const std::vector<EncodedPair> pairs = made_up_pairs(*run, settings.batch);
    std::vector<std::size_t> rows(pairs.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
    std::sort(rows.begin(), rows.end(),
              [&](std::size_t a, std::size_t b) { return pairs[a].source.size() > pairs[b].source.size(); });
    nn::Adam adam(run->block);
    Tape tape;
    kernels::start_profile();
    train_step(*run, adam, tape, make_batch(pairs, rows), 0);
    kernels::stop_profile();
    for (const kernels::RoutineProfile& one : kernels::profile())
      if (one.name == "gemm") calls[one.product] = std::max(calls[one.product], static_cast<double>(one.calls));
  }
  std::vector<ProductSpeed> products;
  for (const auto& call : calls) {
    const ProductShape& shape = call.first;
    // Steps at which some rows have ended differ in rows only: the one with most rows speaks for them.
    ProductShape next = shape;
    const bool fewer_rows = std::any_of(calls.begin(), calls.end(), [&](const auto& other) {
      next.m = other.first.m;
      return next == other.first && shape.m < settings.batch && other.first.m > shape.m && other.first.m <= settings.batch;
    });
    if (fewer_rows) continue;
    ProductSpeed& product = products.emplace_back();
    product.shape = shape;
    product.calls = call.second;
  }
  std::sort(products.begin(), products.end(), [](const ProductSpeed& a, const ProductSpeed& b) {
    return a.calls * operations(a.shape) > b.calls * operations(b.shape);
  });
  return products;
}

void bench_product(ProductSpeed& product) {
  const Product operands(product.shape);
  constexpr double bearable = 1e9;  // the plain loop does as many operations in a second
  product.seconds = seconds_by_level([&](Level level) { operands.run(level); }, operations(product.shape) < bearable);
  product.openblas_seconds = fastest([&] { operands.run_openblas(); });
  const std::vector<double> exact = operands.exact();
  operands.run(Level::cpu);
  product.f32_error = operands.error(exact);
  product.bf16_seconds = fastest([&] { operands.run_bf16(); });
  product.bf16_error = operands.error(exact);
  if (!product.shape.transpose_a) {
    operands.lay_out();
    product.laid_out_seconds = fastest([&] { operands.run_laid_out(); });
  }
  const ProductShape& s = product.shape;
  product.way = kernels::gemm_way(kernels::cpu_level(), s.transpose_a, s.transpose_b, s.m, s.n, s.k);
}

std::vector<SmallProduct> bench_small_products() {
  std::vector<SmallProduct> products;
  const int all = threads();
  for (const bool transposed : {true, false})
    for (const auto& [m, n, k] : std::vector<std::array<i64, 3>>{{1, 512, 512},
                                                                 {4, 512, 512},
                                                                 {16, 16, 16},
                                                                 {25, 25, 25},
                                                                 {32, 32, 32},
                                                                 {32, 64, 128},
                                                                 {64, 64, 64},
                                                                 {32, 128, 384},
                                                                 {32, 384, 128},
                                                                 {96, 96, 96},
                                                                 {128, 64, 512},
                                                                 {128, 128, 128},
                                                                 {128, 384, 256},
                                                                 {128, 1536, 512}}) {
      const ProductShape shape{m, n, k, 1, false, transposed};
      const Product operands(shape);
      SmallProduct small{shape, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
      for (int turn = 0; turn < 3; ++turn) {  // in turns, so that what else the machine does meets both
        set_threads(1);
        small.one_seconds = std::min(small.one_seconds, fastest([&] { operands.run(Level::cpu); }, 6));
        set_threads(all);
        small.all_seconds = std::min(small.all_seconds, fastest([&] { operands.run(Level::cpu); }, 6));
      }
      products.push_back(small);
    }
  set_threads(all);
  return products;
}

}  // namespace seqgrad::seq2seq
