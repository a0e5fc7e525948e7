// One thread pool for BLAS and our own loops: OpenMP's. Not thread-safe: set once, before work starts.
#pragma once

namespace seqgrad {

void set_threads(int threads);  // 0: all cores of this process
int threads();

}  // namespace seqgrad
