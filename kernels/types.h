// Vocabulary shared by every room of the house.
#pragma once

#include <cstdint>

// Marks the small functions that the CPU's loops and the CUDA kernels share.
#ifdef __CUDACC__
#define SEQGRAD_HOST_DEVICE __host__ __device__
#else
#define SEQGRAD_HOST_DEVICE
#endif

namespace seqgrad {

using i64 = std::int64_t;
using u64 = std::uint64_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;

enum class Device : std::uint8_t { cpu, cuda };

}  // namespace seqgrad
