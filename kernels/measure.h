// For those who measure the routines: which levels this machine runs and why, which code multiplies, and what the arithmetic
// could do at the most. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "kernels/types.h"

namespace seqgrad::kernels {

// "v1", "avx2", "avx512" as far as this machine goes; cpu_level() is the last of them unless SEQGRAD_CPU asks for less.
std::vector<std::string> cpu_levels();
// Why it is cpu_level(): "the best of what CPUID reports: avx2, fma", "what SEQGRAD_CPU asks for; CPUID reports ..."
std::string cpu_level_reason();

// What computes op(a) (m,k) times op(b) (k,n) at a level: "tiles", "OpenBLAS", "few rows", "small", "one row or column",
// "one term", "plain loop".
const char* gemm_way(const std::string& level, bool transpose_a, bool transpose_b, i64 m, i64 n, i64 k);

// "OpenBLAS 0.3.21, Haswell": its version and the kernels that it has chosen for this machine.
std::string openblas_name();

// Multiplies and adds floats in registers alone, on all threads at the level in use: the peak of the arithmetic. Returns the
// number of operations; `rounds` are done by each thread.
double multiply_and_add(i64 rounds);

}  // namespace seqgrad::kernels
