// A small generator for shuffles and made-up text whose results are the same with every compiler and library, which
// std::shuffle and std::uniform_int_distribution do not promise. Each object belongs to one thread.
// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/types.h"

namespace seqgrad::seq2seq {

class SplitMix64 {
 public:
  explicit SplitMix64(u64 seed) : state_(seed) {}

  // The generator of one stream of a seed, e.g. of one epoch.
  SplitMix64(u64 seed, u64 stream) : state_(seed) { state_ = next() ^ SplitMix64(~stream).next(); }

  u64 next() {
    u64 z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // Uniform in [0, n), n > 0. Draws beyond the last full multiple of n are thrown away, so no value is favoured.
  u64 below(u64 n) {
    const u64 beyond = (0 - n) % n;  // 2^64 mod n
    u64 draw = next();
    while (draw < beyond) draw = next();
    return draw % n;
  }

 private:
  u64 state_;
};

// Fisher-Yates: every order is equally likely.
template <class T>
void shuffle(std::vector<T>& items, SplitMix64& generator) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[generator.below(i)]);
}

}  // namespace seqgrad::seq2seq
