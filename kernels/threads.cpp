#include "kernels/threads.h"

#include <cblas.h>
#include <omp.h>

namespace seqgrad {

void set_threads(int threads) {
  const int count = threads > 0 ? threads : omp_get_num_procs();  // the processors of this process's affinity
  omp_set_num_threads(count);
  openblas_set_num_threads(count);
}

int threads() { return omp_get_max_threads(); }

}  // namespace seqgrad
