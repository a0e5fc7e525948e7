// numpy.random.default_rng(seed), as far as significance tests need it, bit for bit: with the same seed they draw the same
// sentences as sacreBLEU. Each object belongs to one thread.
// PCG64 (XSL RR 128/64): O'Neill, "PCG: a family of simple fast space-efficient statistically good algorithms for random
// number generation", 2014. Draws below a limit: Lemire, "Fast random integer generation in an interval", 2019.
#pragma once

#include <array>
#include <bit>

#include "kernels/types.h"

namespace seqgrad::seq2seq {

class NumpyRandom {
 public:
  // The seed's words are spread over the generator's 256 bits as numpy.random.SeedSequence does it.
  explicit NumpyRandom(u64 seed) {
    std::array<u32, 4> pool{};
    u32 constant = 0x43b0d7e5;
    const auto hash = [&](u32 value) {
      value ^= constant;
      constant *= 0x931e8875;
      value *= constant;
      return value ^ value >> 16;
    };
    const auto mix = [](u32 x, u32 y) {
      const u32 value = x * 0xca01f9dd - y * 0x4973f715;
      return value ^ value >> 16;
    };
    for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = hash(i < 2 ? static_cast<u32>(seed >> 32 * i) : 0);
    for (std::size_t from = 0; from < pool.size(); ++from)
      for (std::size_t to = 0; to < pool.size(); ++to)
        if (from != to) pool[to] = mix(pool[to], hash(pool[from]));

    constant = 0x8b51f9dd;
    std::array<u64, 4> words{};
    for (std::size_t i = 0; i < 8; ++i) {
      u32 value = pool[i % 4] ^ constant;
      constant *= 0x58f38ded;
      value *= constant;
      words[i / 2] |= u64{value ^ value >> 16} << 32 * (i % 2);
    }
    increment_ = (u128{words[2]} << 64 | words[3]) << 1 | 1;
    step();
    state_ += u128{words[0]} << 64 | words[1];
    step();
  }

  u64 next64() {
    step();
    return std::rotr(static_cast<u64>(state_ >> 64) ^ static_cast<u64>(state_), static_cast<int>(state_ >> 122));
  }

  // Halves of a 64-bit draw, the lower one first.
  u32 next32() {
    if (has_half_) {
      has_half_ = false;
      return half_;
    }
    const u64 both = next64();
    has_half_ = true;
    half_ = static_cast<u32>(both >> 32);
    return static_cast<u32>(both);
  }

  // integers(n), for 0 < n < 2^32.
  u32 below(u32 n) {
    if (n == 1) return 0;
    u64 product = u64{next32()} * n;
    if (static_cast<u32>(product) < n) {
      const u32 threshold = (0 - n) % n;  // 2^32 mod n
      while (static_cast<u32>(product) < threshold) product = u64{next32()} * n;
    }
    return static_cast<u32>(product >> 32);
  }

 private:
  __extension__ using u128 = unsigned __int128;

  void step() { state_ = state_ * (u128{0x2360ed051fc65da4} << 64 | 0x4385df649fccf645) + increment_; }

  u128 state_ = 0, increment_ = 0;
  u32 half_ = 0;
  bool has_half_ = false;
};

}  // namespace seqgrad::seq2seq
