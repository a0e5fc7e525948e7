#include "kernels/threads.h"

#include <cblas.h>
#include <omp.h>
#include <pthread.h>

namespace seqgrad {
namespace {
bool forked = false;
}

void set_threads(int threads) {
  const int cores = omp_get_num_procs();  // of this process's affinity
  const int count = forked ? 1 : threads > 0 ? threads : cores;
  omp_set_num_threads(count);
  openblas_set_num_threads(count);
}

int threads() { return omp_get_max_threads(); }

void compute_alone_after_fork() {
  [[maybe_unused]] static const int registered = [] {
    omp_get_max_threads();  // clang's runtime starts here, and forgets in a forked process what was set before its own handler
    return pthread_atfork(nullptr, nullptr, [] {
      forked = true;
      set_threads(1);
    });
  }();
}

}  // namespace seqgrad
