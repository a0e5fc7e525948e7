#include "tests/kernels/conformance.h"
#ifdef SEQGRAD_TEST_CUDA
#include "tests/cuda/device_routines.h"
#define SEQGRAD_TESTED_LEVELS(X) X(on_device)
#else
#define SEQGRAD_TESTED_LEVELS(X) X(avx2) X(avx512)
namespace seqgrad::kernels {
namespace reference = v1;
}
#endif

namespace seqgrad::kernels::test {

// The four families at one level, for one functor.
template <class T>
struct Families {
  decltype(&v1::unary<Exp, T>) unary;
  decltype(&v1::unary_backward<Exp, T>) unary_backward;
  decltype(&v1::binary<Add, T>) binary;
  decltype(&v1::binary_backward<Add, T>) binary_backward;
};

struct Broadcast {
  std::vector<i64> shape, a, b;  // strides
};
static const std::vector<Broadcast> broadcasts = {
    {{}, {}, {}},
    {{0, 3}, {3, 1}, {0, 1}},
    {{33}, {1}, {1}},
    {{33}, {1}, {0}},
    {{33}, {0}, {1}},
    {{33}, {0}, {0}},
    {{33}, {2}, {3}},
    {{7, 33}, {33, 1}, {0, 1}},          // a row
    {{7, 33}, {33, 1}, {1, 0}},          // a column
    {{7, 33}, {0, 1}, {1, 0}},           // an outer sum
    {{7, 33}, {1, 7}, {33, 1}},          // transposed
    {{3, 4, 5}, {20, 5, 1}, {5, 0, 1}},  // over the middle
    {{5, 1, 6, 3}, {18, 1, 3, 1}, {0, 0, 1, 0}},
    {{200, 301}, {301, 1}, {0, 1}},
    {{200, 301}, {301, 1}, {301, 1}},
    {{201, 300}, {1, 201}, {300, 1}},
};

template <class T>
static void agree_unary(const char* name, const Families<T>& level, const Families<T>& plain, bool positive) {
  std::vector<i64> sizes = lengths;
  sizes.push_back(large);
  for (const i64 n : sizes) {
    for (const double scale : {1.0, 100.0}) {
      auto x = random<T>(n, scale);
      const auto dy = random<T>(n);
      if (positive) {
        for (T& value : x) value = std::abs(value);
      }
      const T special[] = {0, T(-0.0), 300, -300, 1000, -1000, std::numeric_limits<T>::infinity(), nan<T>};
      for (size_t i = 0; i < 8 && n > 8; ++i) x[i] = special[i];
      const T* at = x.data();
      INFO(name, " ", n, " ", scale);
      Routines<T> tested{};  // agree() only passes these on
      agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
        const Families<T>& f = &r == &tested ? level : plain;
        T* y = out.fresh(n);
        f.unary(at, y, n);
        f.unary_backward(at, y, dy.data(), out.fresh(n), n);
        T* in_place = out.copy(dy);
        f.unary_backward(at, y, in_place, in_place, n);
      });
    }
  }
}

template <class T>
static void agree_binary(const char* name, const Families<T>& level, const Families<T>& plain) {
  for (const Broadcast& one : broadcasts) {
    INFO(name, " broadcast ", &one - broadcasts.data());
    i64 n = 1, a_size = 1, b_size = 1;
    const i64 ndim = static_cast<i64>(one.shape.size());
    for (size_t i = 0; i < one.shape.size(); ++i) {
      n *= one.shape[i];
      a_size += std::max<i64>(0, one.shape[i] - 1) * one.a[i];
      b_size += std::max<i64>(0, one.shape[i] - 1) * one.b[i];
    }
    const auto a = random<T>(a_size), b = random<T>(b_size), y = random<T>(n), dy = random<T>(n);
    Routines<T> tested{};
    agree(
        tested,
        [&](const Routines<T>& r, Outputs<T>& out) {
          const Families<T>& f = &r == &tested ? level : plain;
          f.binary(a.data(), one.a.data(), b.data(), one.b.data(), out.fresh(n), one.shape.data(), ndim);
          for (int option = 0; option < 4; ++option) {
            T *da = option & 1 ? out.fresh(n) : nullptr, *db = option & 2 ? out.fresh(n) : nullptr;
            f.binary_backward(a.data(), one.a.data(), b.data(), one.b.data(), y.data(), dy.data(), da, db, one.shape.data(),
                              ndim);
          }
        },
        10);
  }
}

#define SEQGRAD_UNARY_FAMILIES(level, Op, T) \
  Families<T> { level::unary<Op, T>, level::unary_backward<Op, T>, nullptr, nullptr }
#define SEQGRAD_BINARY_FAMILIES(level, Op, T) \
  Families<T> { nullptr, nullptr, level::binary<Op, T>, level::binary_backward<Op, T> }

template <class T>
static void agree_elementwise(const std::string& level) {
#define SEQGRAD_AGREE(Op, name)             \
  {                                         \
    const char* const function = #name;     \
    using Functor = Op;                     \
    SEQGRAD_TESTED_LEVELS(SEQGRAD_AGREE_AT) \
  }
#define SEQGRAD_AGREE_AT(tested)                                                                                        \
  if (level == #tested)                                                                                                 \
    agree_unary<T>(function, SEQGRAD_UNARY_FAMILIES(tested, Functor, T), SEQGRAD_UNARY_FAMILIES(reference, Functor, T), \
                   std::is_same_v<Functor, Log> || std::is_same_v<Functor, Sqrt>);
  SEQGRAD_UNARY_OPS(SEQGRAD_AGREE)
#undef SEQGRAD_AGREE_AT
#define SEQGRAD_AGREE_AT(tested) \
  if (level == #tested)          \
    agree_binary<T>(function, SEQGRAD_BINARY_FAMILIES(tested, Functor, T), SEQGRAD_BINARY_FAMILIES(reference, Functor, T));
  SEQGRAD_BINARY_OPS(SEQGRAD_AGREE)
#undef SEQGRAD_AGREE_AT
#undef SEQGRAD_AGREE
}

TEST_CASE("every elementwise operation agrees with v1") {
  for (const Level& level : levels()) {
    INFO(level.name);
    generator().seed(7);
    agree_elementwise<float>(level.name);
    agree_elementwise<double>(level.name);
  }
}

TEST_CASE("float functions are within 3 units in the last place") {
  std::vector<float> x;
  for (float value = 1e-20f; value < 87; value *= 1.0003f) {
    x.push_back(value);
    x.push_back(-value);
  }
  std::vector<float> y(x.size());
  const auto worst = [&](auto exact) {
    double units = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = exact(static_cast<double>(x[i]));
      const float rounded = std::max(std::abs(static_cast<float>(want)), std::numeric_limits<float>::min());
      units =
          std::max(units, std::abs(y[i] - want) / (std::nextafter(rounded, std::numeric_limits<float>::infinity()) - rounded));
    }
    return units;
  };
  const i64 n = static_cast<i64>(x.size());
  cpu::unary<Tanh>(x.data(), y.data(), n);
  CHECK(worst([](double v) { return std::tanh(v); }) < 3);
  cpu::unary<Sigmoid>(x.data(), y.data(), n);
  CHECK(worst([](double v) { return 1 / (1 + std::exp(-v)); }) < 3);
  cpu::unary<Exp>(x.data(), y.data(), n);
  CHECK(worst([](double v) { return std::exp(v); }) < 3);
}

TEST_CASE("saturated inputs stay finite") {
  const float x[] = {-1000, -300, -0.0f, 0, 300, 1000};
  const float sigmoids[] = {0, 0, 0.5, 0.5, 1, 1}, tanhs[] = {-1, -1, 0, 0, 1, 1};
  float y[6];
  cpu::unary<Sigmoid>(x, y, 6);
  for (int i = 0; i < 6; ++i) CHECK(y[i] == sigmoids[i]);
  cpu::unary<Tanh>(x, y, 6);
  for (int i = 0; i < 6; ++i) CHECK(y[i] == tanhs[i]);
}

}  // namespace seqgrad::kernels::test
