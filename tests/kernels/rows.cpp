#include "kernels/philox.h"
#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

CONFORMANCE(gather_rows) {
  for (const i64 dim : {0, 1, 7, 33, 128}) {
    for (const i64 n : {0, 1, 700}) {
      const auto table = random<T>(50 * dim);
      const auto ids = random_ids(n, 50);
      agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
        r.gather_rows(table.data(), ids.data(), out.fresh(n * dim), n, dim);
      });
    }
  }
}

CONFORMANCE(scatter_add_rows) {
  for (const i64 dim : {0, 1, 7, 33, 130}) {
    for (const i64 n : {0, 1, 700}) {
      const auto dy = random<T>(n * dim), dtable = random<T>(50 * dim);
      const auto ids = random_ids(n, 50);
      for (const i64 skip : {-1, 3}) {
        agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
          r.scatter_add_rows(dy.data(), ids.data(), out.copy(dtable), n, dim, skip);
        });
      }
    }
  }
}

CONFORMANCE(dropout) {
  std::vector<i64> sizes = lengths;
  sizes.push_back(large);
  for (const i64 n : sizes) {
    const auto x = random<T>(n);
    for (const double p : {0.0, 0.1, 0.3, 0.5, 0.999, 1.0}) {
      agree(tested, [&](const Routines<T>& r, Outputs<T>& out) {
        T* y = out.fresh(n);
        r.dropout(x.data(), y, n, T(p), 0x123456789ABCDEF0, 0xFEDCBA9876543210);
        if (p == 0) REQUIRE(std::equal(x.begin(), x.end(), y));
        T* in_place = out.copy(x);
        r.dropout(in_place, in_place, n, T(p), 5, 1);
      });
    }
  }
}

// Salmon et al.'s known answers, from Random123's kat_vectors.
TEST_CASE("philox4x32-10 gives the published words") {
  const struct {
    u32 counter[4], key[2], words[4];
  } answers[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const auto& [c, k, words] : answers) {
    const Philox got = philox4x32_10(c[0], c[1], c[2], c[3], k[0], k[1]);
    for (int i = 0; i < 4; ++i) CHECK(got.word[i] == words[i]);
  }
}

TEST_CASE("dropout drops at its rate, the same elements in float and double") {
  const i64 n = 1000000;
  const std::vector<float> ones(n, 1.0f);
  const std::vector<double> double_ones(n, 1.0);
  for (const double p : {0.1, 0.3, 0.7}) {
    for (const u64 stream : {0, 1}) {
      std::vector<float> y(n);
      std::vector<double> z(n);
      cpu::dropout(ones.data(), y.data(), n, static_cast<float>(p), 42, stream);
      cpu::dropout(double_ones.data(), z.data(), n, p, 42, stream);
      i64 dropped = 0, differ = 0;
      double sum = 0;
      for (size_t i = 0; i < n; ++i) {
        dropped += y[i] == 0;
        differ += (y[i] == 0) != (z[i] == 0);
        sum += z[i];
      }
      const double deviation = std::sqrt(p * (1 - p) / n);
      CHECK(std::abs(static_cast<double>(dropped) / n - p) < 4 * deviation);
      CHECK(std::abs(sum / n - 1) < 4 * deviation / (1 - p));
      CHECK(differ == 0);
    }
  }
}

TEST_CASE("the threshold of dropout is exact") {
  CHECK(dropout_threshold(0) == 0);
  CHECK(dropout_threshold(0.5) == u64{1} << 31);
  CHECK(dropout_threshold(1) == u64{1} << 32);
  CHECK(dropout_threshold(0.3f) == dropout_threshold(0.3));
  CHECK(dropout_threshold(1e-30) == 1);  // word 0 is below any positive p
}

}  // namespace seqgrad::kernels::test
