// Vocabulary shared by every room of the house.
#pragma once

#include <cstdint>

namespace seqgrad {

using i64 = std::int64_t;
using u64 = std::uint64_t;
using u32 = std::uint32_t;

enum class Device : std::uint8_t { cpu, cuda };

}  // namespace seqgrad
