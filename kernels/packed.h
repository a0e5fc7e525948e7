// The memory that kernels::pack_linear fills. Values only.
#pragma once

#include "kernels/types.h"

namespace seqgrad::kernels {

// Elements of a packed weight (n, k): rows of w go together in groups of at most 32, of which the last is filled up.
constexpr i64 packed_size(i64 n, i64 k) { return (n + 31) / 32 * 32 * k; }

}  // namespace seqgrad::kernels
