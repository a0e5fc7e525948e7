// Stands in for the instructions of AMX that kernels/gemm_bf16_amx.cpp uses: eight registers of 16 rows x 64 bytes, in memory.
// As the CPU, it refuses what is not configured.
#pragma once

#include <doctest/doctest.h>

#include <cstring>

#include "kernels/bf16.h"

namespace seqgrad::kernels::test {

struct AmxState {
  bool configured = false;
  unsigned char tile[8][16][64];

  void configure(const void* description) {
    const auto* bytes = static_cast<const unsigned char*>(description);
    REQUIRE(bytes[0] == 1);  // the palette
    for (int t = 0; t < 8; ++t) {
      REQUIRE(bytes[16 + 2 * t] == 64);
      REQUIRE(bytes[48 + t] == 16);
    }
    configured = true;
    std::memset(tile, 0, sizeof tile);
  }
  void zero(int t) { std::memset(known(t), 0, sizeof tile[t]); }
  void load(int t, const void* from, i64 step) {
    unsigned char(*const rows)[64] = known(t);
    for (i64 i = 0; i < 16; ++i) std::memcpy(rows[i], static_cast<const unsigned char*>(from) + i * step, 64);
  }
  void store(int t, void* to, i64 step) {
    unsigned char(*const rows)[64] = known(t);
    for (i64 i = 0; i < 16; ++i) std::memcpy(static_cast<unsigned char*>(to) + i * step, rows[i], 64);
  }
  // sums[i][j] += the sum over p of a[i][2p] b[p][2j] + a[i][2p+1] b[p][2j+1]
  void add_product(int sums, int a, int b) {
    float c[16][16];
    u32 x[16][16], y[16][16];
    std::memcpy(c, known(sums), sizeof c);
    std::memcpy(x, known(a), sizeof x);
    std::memcpy(y, known(b), sizeof y);
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j)
        for (int p = 0; p < 16; ++p) {
          c[i][j] += std::bit_cast<float>(x[i][p] << 16) * std::bit_cast<float>(y[p][j] << 16);
          c[i][j] += std::bit_cast<float>(x[i][p] & 0xffff0000u) * std::bit_cast<float>(y[p][j] & 0xffff0000u);
        }
    std::memcpy(known(sums), c, sizeof c);
  }

 private:
  unsigned char (*known(int t))[64] {
    REQUIRE(configured);
    REQUIRE(t < 8);
    return tile[t];
  }
};

inline thread_local AmxState amx_state;

}  // namespace seqgrad::kernels::test

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(description) test::amx_state.configure(description)
#define _tile_release() test::amx_state.configured = false
#define _tile_zero(t) test::amx_state.zero(t)
#define _tile_loadd(t, from, step) test::amx_state.load(t, from, step)
#define _tile_stored(t, to, step) test::amx_state.store(t, to, step)
#define _tile_dpbf16ps(sums, a, b) test::amx_state.add_product(sums, a, b)
