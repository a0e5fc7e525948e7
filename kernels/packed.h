// The memory that kernels::pack_linear and pack_linear_bf16 fill. Values only.
#pragma once

#include "kernels/types.h"

namespace seqgrad::kernels {

// Elements of a packed weight (n, k): rows of w go together in groups of at most 32, and so do, in bf16, the terms of a row;
// the last group is filled up.
constexpr i64 packed_size(i64 n, i64 k) { return (n + 31) / 32 * 32 * ((k + 31) / 32 * 32); }

}  // namespace seqgrad::kernels
