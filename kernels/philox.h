// Philox4x32-10, the counter-based generator of Salmon et al. 2011 (Random123): word i of stream s under a seed is a pure
// function of (seed, s, i), so that every device, dtype and thread count draws the same dropout mask.
// Thread-safe (values only).
#pragma once

#include "kernels/types.h"

namespace seqgrad::kernels {

struct Philox {
  u32 word[4];
};

// Ten rounds; each multiplies two words by constants, swaps halves and mixes in the key, which moves on by Weyl constants.
SEQGRAD_HOST_DEVICE inline Philox philox4x32_10(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1) {
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = u64{0xD2511F53} * c0;
    const u64 p1 = u64{0xCD9E8D57} * c2;
    c0 = static_cast<u32>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<u32>(p1);
    c2 = static_cast<u32>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<u32>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c0, c1, c2, c3}};
}

// The four words of block `index` of a stream.
SEQGRAD_HOST_DEVICE inline Philox philox(u64 seed, u64 stream, u64 index) {
  return philox4x32_10(static_cast<u32>(index), static_cast<u32>(index >> 32), static_cast<u32>(stream),
                       static_cast<u32>(stream >> 32), static_cast<u32>(seed), static_cast<u32>(seed >> 32));
}

// Dropout keeps element i where its word >= threshold, in [0, 2^32]. As word and p 2^32 are exact in double, this says
// word 2^-32 >= p. p is rounded to float first, so that float and double tensors get the same mask.
SEQGRAD_HOST_DEVICE [[gnu::always_inline]] inline u64 dropout_threshold(double p) {
  const double scaled = static_cast<double>(static_cast<float>(p)) * 4294967296.0;
  const u64 floor = static_cast<u64>(scaled);
  return floor + (static_cast<double>(floor) < scaled ? 1 : 0);
}

}  // namespace seqgrad::kernels
