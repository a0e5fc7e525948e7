// One thread pool for BLAS and our own loops: OpenMP's. Not thread-safe: set once, before work starts.
//
// A process that is forked after the first routine ran computes on one thread, whatever is set: OpenMP's threads stay behind in
// its parent, and a loop that is shared with them would never end.
#pragma once

namespace seqgrad {

void set_threads(int threads);  // 0: all cores of this process
int threads();
void compute_alone_after_fork();  // what makes it so; the routines call it

}  // namespace seqgrad
