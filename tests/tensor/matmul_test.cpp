#include "tensor/matmul.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tensor/random.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

// A matrix (m, n), or a batch of them, inside memory of another shape.
struct Layout {
  const char* name;
  std::function<Dims(i64 m, i64 n)> memory;
  std::function<Tensor(const Tensor& memory, i64 m, i64 n)> view;
};
const Layout layouts[] = {
    {"row-major",
     [](i64 m, i64 n) {
       return Dims{m, n};
     },
     [](const Tensor& t, i64, i64) { return t; }},
    {"transposed",
     [](i64 m, i64 n) {
       return Dims{n, m};
     },
     [](const Tensor& t, i64, i64) { return t.transpose(-1, -2); }},
    {"columns of a wider one",
     [](i64 m, i64 n) {
       return Dims{m, n + 3};
     },
     [](const Tensor& t, i64, i64 n) { return t.slice(-1, 1, n + 1); }},
    {"rows of a wider transposed one",
     [](i64 m, i64 n) {
       return Dims{n, m + 2};
     },
     [](const Tensor& t, i64 m, i64) { return t.slice(-1, 2, m + 2).transpose(-1, -2); }},
    {"no unit stride",
     [](i64 m, i64 n) {
       return Dims{m, n, 2};
     },
     [](const Tensor& t, i64, i64) { return t.select(-1, 1); }},
    // Read only:
    {"one row repeated",
     [](i64, i64 n) {
       return Dims{1, n};
     },
     [](const Tensor& t, i64 m, i64) {
       Dims shape = t.shape();
       shape[shape.size() - 2] = m;
       return t.expand(shape);
     }},
    {"one column repeated",
     [](i64 m, i64) {
       return Dims{m, 1};
     },
     [](const Tensor& t, i64, i64 n) {
       Dims shape = t.shape();
       shape.back() = n;
       return t.expand(shape);
     }},
};
constexpr std::size_t writable = 5;

enum class Batch { none, plain, one_for_all, expanded, inner };

// The memory and the matrix in it.
std::pair<Tensor, Tensor> make(const Layout& layout, i64 m, i64 n, Batch batch, DType dtype, Generator& generator) {
  Dims shape = layout.memory(m, n);
  if (batch == Batch::none) {
    const Tensor memory = randn(shape, dtype, generator);
    return {memory, layout.view(memory, m, n)};
  }
  constexpr i64 count = 3;
  if (batch == Batch::inner) {  // (m, B, n): the matrices are interleaved
    shape.insert(1, count);
    const Tensor memory = randn(shape, dtype, generator);
    return {memory, layout.view(memory.transpose(0, 1), m, n)};
  }
  shape.insert(0, batch == Batch::plain ? count : 1);
  const Tensor memory = randn(shape, dtype, generator);
  const Tensor view = layout.view(memory, m, n);
  return {memory, batch == Batch::expanded ? view.expand({count, m, n}) : view};
}

std::vector<double> doubles(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

Tensor plain_product(const Tensor& a, const Tensor& b, const Tensor& c, double alpha, double beta) {
  const i64 m = a.size(-2), k = a.size(-1), n = b.size(-1), batch = c.dim() == 3 ? c.size(0) : 1;
  const std::vector<double> x = doubles(a), y = doubles(b), z = doubles(c);
  std::vector<double> result(z.size());
  for (i64 s = 0; s < batch; ++s)
    for (i64 i = 0; i < m; ++i)
      for (i64 j = 0; j < n; ++j) {
        double sum = 0;
        for (i64 l = 0; l < k; ++l) {
          const i64 xs = a.dim() == 3 && a.size(0) > 1 ? s : 0, ys = b.dim() == 3 && b.size(0) > 1 ? s : 0;
          sum += x[static_cast<std::size_t>((xs * m + i) * k + l)] * y[static_cast<std::size_t>((ys * k + l) * n + j)];
        }
        const std::size_t at = static_cast<std::size_t>((s * m + i) * n + j);
        result[at] = alpha * sum + (beta == 0 ? 0 : beta * z[at]);
      }
  return Tensor::from(result, c.shape()).to(c.dtype());
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = doubles(a), y = doubles(b);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double difference = std::fabs(x[i] - y[i]);
    if (!(difference <= worst)) worst = difference;
  }
  return worst;
}

void compare(DType dtype, Batch a_batch, Batch b_batch, Batch c_batch, i64 m, i64 k, i64 n) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), tolerance = dtype == DType::f32 ? 1e-5 : 1e-13;
  Generator generator(9);
  const struct { double alpha, beta; } factors[] = {{1, 0}, {1, 1}, {-0.5, 2}};
  for (const Layout& a_layout : layouts)
    for (const Layout& b_layout : layouts)
      for (std::size_t c_layout = 0; c_layout < writable; ++c_layout)
        for (const auto& factor : factors) {
          const double alpha = factor.alpha, beta = factor.beta;
          const Tensor a = make(a_layout, m, k, a_batch, dtype, generator).second;
          const Tensor b = make(b_layout, k, n, b_batch, dtype, generator).second;
          const auto [memory, c] = make(layouts[c_layout], m, n, c_batch, dtype, generator);
          if (beta == 0) c.fill(nan);
          // What the memory around c should look like afterwards: as before.
          const Tensor expected = memory.clone();
          const Tensor memory_view = c_batch == Batch::inner ? expected.transpose(0, 1) : expected;
          layouts[c_layout].view(memory_view, m, n).copy_from(plain_product(a, b, c, alpha, beta));
          matmul_into(a, b, beta, c, alpha);
          const double difference = largest_difference(memory, expected);
          if (!(difference <= tolerance)) {
            CAPTURE(a_layout.name);
            CAPTURE(b_layout.name);
            CAPTURE(layouts[c_layout].name);
            CAPTURE(beta);
            CHECK(difference <= tolerance);
          }
        }
}

}  // namespace

TEST_CASE("products of every pair of layouts into every layout") {
  const i64 sizes[][3] = {{3, 4, 5}, {1, 1, 1}, {1, 4, 5}, {3, 1, 5}, {3, 4, 1}, {0, 4, 5}, {3, 0, 5}, {3, 4, 0}};
  for (const auto& size : sizes)
    for (DType dtype : {DType::f32, DType::f64}) {
      const i64 m = size[0], k = size[1], n = size[2];
      CAPTURE(m);
      CAPTURE(k);
      CAPTURE(n);
      compare(dtype, Batch::none, Batch::none, Batch::none, m, k, n);
    }
}

TEST_CASE("batches: plain, one matrix for all, repeated by stride, interleaved") {
  const Batch kinds[] = {Batch::plain, Batch::one_for_all, Batch::expanded, Batch::inner};
  for (Batch a : kinds)
    for (Batch b : kinds)
      for (Batch c : {Batch::plain, Batch::inner}) {
        CAPTURE(static_cast<int>(a));
        CAPTURE(static_cast<int>(b));
        CAPTURE(static_cast<int>(c));
        compare(DType::f64, a, b, c, 2, 3, 4);
      }
  compare(DType::f32, Batch::plain, Batch::inner, Batch::plain, 1, 3, 1);
  compare(DType::f32, Batch::plain, Batch::plain, Batch::plain, 2, 0, 3);
}

TEST_CASE("a batch of one and of none") {
  const Tensor a = ones({1, 2, 3}), b = ones({1, 3, 4});
  CHECK(doubles(matmul(a, b)) == std::vector<double>(8, 3));
  CHECK(matmul(zeros({0, 2, 3}), zeros({0, 3, 4})).shape() == Dims{0, 2, 4});
  CHECK(matmul(ones({3, 1, 2}), ones({1, 2, 2})).shape() == Dims{3, 1, 2});
  CHECK(matmul(ones({1, 1, 2}), ones({3, 2, 2})).shape() == Dims{3, 1, 2});
}

TEST_CASE("what cannot be multiplied is named") {
  const auto f = [](const Dims& shape) { return zeros(shape); };
  const std::pair<std::function<void()>, const char*> table[] = {
      {[&] {
         matmul(f({32, 512}), f({256, 64}));
       },
       "[matmul] inner dimensions differ: (32, 512) x (256, 64)"},
      {[&] {
         matmul(f({2, 3, 4}), f({2, 3, 4}));
       },
       "[matmul] inner dimensions differ: (2, 3, 4) x (2, 3, 4)"},
      {[&] {
         matmul(f({3}), f({3, 4}));
       },
       "[matmul] needs matrices or batches of them, not (3) x (3, 4)"},
      {[&] {
         matmul(f({3, 4}), f({4}));
       },
       "[matmul] needs matrices or batches of them, not (3, 4) x (4)"},
      {[&] {
         matmul(f({2, 3, 4}), f({4, 5}));
       },
       "[matmul] needs matrices or batches of them, not (2, 3, 4) x (4, 5)"},
      {[&] {
         matmul(f({2, 3, 4}), f({3, 4, 5}));
       },
       "[matmul] (2, 3, 4) x (3, 4, 5) does not give (3, 3, 5)"},
      {[&] {
         matmul_into(f({2, 3}), f({3, 4}), 0, f({2, 5}));
       },
       "[matmul] (2, 3) x (3, 4) does not give (2, 5)"},
      {[&] {
         matmul(f({2, 3}), zeros({3, 4}, DType::f64));
       },
       "[matmul] f32 x f64: both sides need one dtype"},
      {[&] {
         matmul(zeros({2, 3}, DType::i64), zeros({3, 4}, DType::i64));
       },
       "[matmul] needs f32 or f64, not i64"},
      {[&] {
         matmul_into(f({2, 3}), f({3, 4}), 0, zeros({2, 4}, DType::f64));
       },
       "a tensor of f64 was used where f32 is needed"},
  };
  for (const auto& [mistake, text] : table) CHECK(message_of(mistake) == text);
}

TEST_CASE("at medium precision large products of f32 round their operands to bf16, the others do not") {
  const auto product = [](const Tensor& a, const Tensor& b, MatmulPrecision precision) {
    const MatmulPrecisionScope scope(precision);
    return matmul(a, b);
  };
  manual_seed(3);
  const Tensor a = randn({64, 80}), b = randn({80, 96});
  const auto exact = matmul(a.to(DType::f64), b.to(DType::f64)).to_vector<double>();
  const auto worst = [&](const Tensor& c) {
    const auto values = c.to(DType::f64).to_vector<double>();
    double most = 0;
    for (std::size_t i = 0; i < values.size(); ++i) most = std::max(most, std::abs(values[i] - exact[i]));
    return most;
  };
  CHECK(worst(product(a, b, MatmulPrecision::highest)) < 1e-4);
  const double rounded = worst(product(a, b, MatmulPrecision::medium));
  CHECK(rounded > 1e-3);
  CHECK(rounded < 0.3);  // 80 terms, each within 2^-7 of its size
  // Transposed views and a given c take the same way.
  const Tensor c = ones({64, 96});
  {
    const MatmulPrecisionScope scope(MatmulPrecision::medium);
    matmul_into(a.transpose(0, 1).clone().transpose(0, 1), b, 1, c);
  }
  CHECK(worst(c) > 0.5);
  CHECK(float32_matmul_precision() == MatmulPrecision::highest);

  const Tensor small_a = randn({8, 80}), a64 = a.to(DType::f64), b64 = b.to(DType::f64);
  CHECK(product(small_a, b, MatmulPrecision::medium).to_vector<float>() == matmul(small_a, b).to_vector<float>());
  CHECK(product(a64, b64, MatmulPrecision::medium).to_vector<double>() == exact);
}

TEST_CASE("constant matrices are laid out once, and their products have the same bits") {
  const MatmulPrecisionScope precision(MatmulPrecision::medium);
  manual_seed(4);
  const Tensor memory = randn({3 * 96 * 130}), other = randn({96, 130});
  const Tensor whole = memory.slice(0, 0, 96 * 130).reshape({96, 130});
  const std::pair<const char*, Tensor> matrices[] = {{"whole", whole},
                                                     {"transposed", whole.transpose(0, 1)},
                                                     {"columns", whole.slice(1, 30, 130)},
                                                     {"columns transposed", whole.slice(1, 30, 130).transpose(0, 1)},
                                                     {"rows", whole.slice(0, 20, 90)},
                                                     {"elsewhere", other}};
  for (const auto& one : matrices) {
    const Tensor& b = one.second;
    INFO(std::string(one.first));
    const Tensor a = randn({70, b.size(0)}), tall = randn({1100, b.size(0)}), given = randn({70, b.size(1)});
    const auto products = [&] {
      std::vector<std::vector<float>> all{matmul(a, b).to_vector<float>(), matmul(tall, b).to_vector<float>(),
                                          matmul(a.slice(0, 3, 40), b).to_vector<float>()};
      for (const double beta : {1.0, 0.5}) {
        const Tensor c = given.clone();
        matmul_into(a, b, beta, c, beta);
        all.push_back(c.to_vector<float>());
      }
      return all;
    };
    const auto expected = products();
    ConstantMatrices constant(memory);
    CHECK(products() == expected);
    CHECK(products() == expected);
    CHECK(constant.laid_out(b).defined() == b.shares_memory_with(memory));
    CHECK(constant.laid_out(b).shares_memory_with(constant.laid_out(b)));
  }
}

TEST_CASE("matrices are constant only as long as it was promised") {
  const MatmulPrecisionScope precision(MatmulPrecision::medium);
  const Tensor a = ones({70, 96}), b = ones({96, 130});
  {
    const ConstantMatrices constant(b);
    CHECK(matmul(a, b).to_vector<float>()[0] == 96);
  }
  b.fill(2);
  CHECK(matmul(a, b).to_vector<float>()[0] == 192);
  const ConstantMatrices again(b);
  CHECK(matmul(a, b).to_vector<float>()[0] == 192);
}
