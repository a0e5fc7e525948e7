// The errors of the .cu files, which nvcc compiles without fmt.
#include "kernels/error.h"

namespace seqgrad::kernels::cuda {

[[noreturn]] void throw_cuda(const char* what, const char* reason) { throw_failure("CUDA failed at {}: {}", what, reason); }

[[noreturn]] void throw_unavailable(const char* reason) {
  throw_error("no CUDA device can be used: {}; use --device cpu", reason);
}

}  // namespace seqgrad::kernels::cuda
