// What the .cu files share on the host's side: checked calls, the stream, launches. Not for others: the rest of the program
// knows kernels/cuda.h alone.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "kernels/types.h"

namespace seqgrad::kernels::cuda {

[[noreturn]] void throw_cuda(const char* what, const char* reason);  // the files that nvcc compiles do without fmt

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw_cuda(what, cudaGetErrorString(error));
}

cudaStream_t stream();

// What is used of cuBLAS.
struct Cublas {
  cublasHandle_t handle;
  decltype(&cublasSgemm_64) sgemm;
  decltype(&cublasDgemm_64) dgemm;
  decltype(&cublasSgemmStridedBatched_64) sgemm_batched;
  decltype(&cublasDgemmStridedBatched_64) dgemm_batched;
  decltype(&cublasGemmEx_64) gemm_of_types;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasGetStatusString) text;
};
const Cublas& cublas();

inline void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw_cuda(what, cublas().text(status));
}

void* allocate(std::size_t bytes);
void release(void* data, std::size_t bytes);

// Device memory for the length of a scope.
template <class T>
class Scratch {
 public:
  explicit Scratch(i64 n) : bytes_(static_cast<std::size_t>(n) * sizeof(T)), data_(static_cast<T*>(allocate(bytes_))) {}
  ~Scratch() { release(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* get() const { return data_; }

 private:
  std::size_t bytes_;
  T* data_;
};

// Runs a kernel on `blocks` blocks of `threads` threads; on none, nothing.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), i64 blocks, int threads, Arguments... arguments) {
  if (blocks == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream();
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "launching a kernel");
}

}  // namespace seqgrad::kernels::cuda
