// The device as a level for conformance.h. In the emulation each run has another order of blocks and threads.
#include <cstdio>
#include <set>

#include "tests/cuda/device_routines.h"
#include "tests/kernels/conformance.h"
#ifdef SEQGRAD_CUDA_EMULATION
#include "tests/cuda_emulation/emulation.h"
#endif

namespace seqgrad::kernels::test {

template <class T>
static Routines<T> device_table() {
#define SEQGRAD_KERNEL(name, parameters, arguments) on_device::name<T>,
  return {
#include "kernels/ops.def"
  };
#undef SEQGRAD_KERNEL
}
template <class T>
static Routines<T> reference_table() {
#define SEQGRAD_KERNEL(name, parameters, arguments) reference::name<T>,
  return {
#include "kernels/ops.def"
  };
#undef SEQGRAD_KERNEL
}

template <class T>
const Routines<T>& v1_routines() {
  static const Routines<T> table = reference_table<T>();
  return table;
}
template const Routines<float>& v1_routines();
template const Routines<double>& v1_routines();

const std::vector<Level>& levels() {
  static const std::vector<Level> all = [] {
    cuda::set_cache_limit(0);  // allocations of exactly what is asked for
    return std::vector<Level>{{"on_device", device_table<float>(), device_table<double>()}};
  }();
  return all;
}

#ifdef SEQGRAD_CUDA_EMULATION
int variations() { return 3; }
void vary(int variation) { emulation::schedule(static_cast<u64>(variation)); }
#else
int variations() { return 2; }
void vary(int) {}
#endif
void vary_no_more() {}

// What the suite has done, once it is over.
static const struct Summary {
  ~Summary() {
    std::set<std::string> routines;
    for (const Case& one : cases()) routines.insert(one.name);
    std::printf("%zu routines and 4 elementwise families in f32 and f64, %lld inputs, %d runs of each\n", routines.size(),
                static_cast<long long>(inputs_compared), variations());
#ifdef SEQGRAD_CUDA_EMULATION
    const emulation::Counts done = emulation::counts();
    std::printf("emulated: %lld launches, %lld threads, %lld barriers, %lld allocations\n",
                static_cast<long long>(done.launches), static_cast<long long>(done.threads),
                static_cast<long long>(done.barriers), static_cast<long long>(done.allocations));
#endif
  }
} summary;

}  // namespace seqgrad::kernels::test
