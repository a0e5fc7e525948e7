// The part of CUDA's runtime that kernels/ uses, on emulation.h. What it takes and gives is as NVIDIA's documentation has it.
// Not thread-safe.
#pragma once

#include <math.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/cuda_emulation/emulation.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

using dim3 = emulation::Dim3;
inline const dim3& threadIdx = ::emulation::here.thread;
inline const dim3& blockIdx = ::emulation::here.block;
inline const dim3& blockDim = ::emulation::here.threads;
inline const dim3& gridDim = ::emulation::here.blocks;
constexpr int warpSize = 32;

// __shared__ T name[count] needs a name of its own here: a static array could not be found again to be poisoned.
#define SEQGRAD_SHARED(T, name, count)                          \
  T* const name = [] {                                          \
    static ::emulation::SharedArray array(sizeof(T) * (count)); \
    return static_cast<T*>(array.get());                        \
  }()
#define SEQGRAD_DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(::emulation::dynamic_shared())

#define SEQGRAD_EMULATED_LINE ::emulation::Line line = {__builtin_FILE(), __builtin_LINE()}

inline void __syncthreads(SEQGRAD_EMULATED_LINE) { ::emulation::barrier(line); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFF, SEQGRAD_EMULATED_LINE) { ::emulation::exchange(mask, 0, line); }

namespace emulation {
template <class T>
T from_lane(unsigned mask, T value, unsigned source, Line line) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  const std::uint64_t* const all = exchange(mask, bits, line);
  T result;
  std::memcpy(&result, &all[source], sizeof(T));
  return result;
}
}  // namespace emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int = 32, SEQGRAD_EMULATED_LINE) {
  return ::emulation::from_lane(mask, value, static_cast<unsigned>(source) % 32, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int difference, int = 32, SEQGRAD_EMULATED_LINE) {
  return ::emulation::from_lane(mask, value, (::emulation::lane() ^ static_cast<unsigned>(difference)) % 32, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned difference, int = 32, SEQGRAD_EMULATED_LINE) {
  const unsigned from = ::emulation::lane() + difference;
  return ::emulation::from_lane(mask, value, from < 32 ? from : ::emulation::lane(), line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, SEQGRAD_EMULATED_LINE) {
  const std::uint64_t* const all = ::emulation::exchange(mask, predicate != 0, line);
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; ++i)
    if (mask >> i & 1 && all[i]) bits |= 1u << i;
  return bits;
}
inline int __any_sync(unsigned mask, int predicate, SEQGRAD_EMULATED_LINE) {
  const std::uint64_t* const all = ::emulation::exchange(mask, predicate != 0, line);
  for (unsigned i = 0; i < 32; ++i)
    if (mask >> i & 1 && all[i]) return 1;
  return 0;
}
inline int __all_sync(unsigned mask, int predicate, SEQGRAD_EMULATED_LINE) {
  const std::uint64_t* const all = ::emulation::exchange(mask, predicate != 0, line);
  for (unsigned i = 0; i < 32; ++i)
    if (mask >> i & 1 && !all[i]) return 0;
  return 1;
}
inline int __ffs(int bits) { return __builtin_ffs(bits); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

// One fiber runs at a time, so an ordinary update is atomic.
template <class T>
T atomicAdd(T* address, T value) {
  const T old = *address;
  *address = old + value;
  return old;
}
template <class T>
T atomicMax(T* address, T value) {
  const T old = *address;
  if (value > old) *address = value;
  return old;
}
template <class T>
T atomicCAS(T* address, T expected, T value) {
  const T old = *address;
  if (old == expected) *address = value;
  return old;
}
inline void __threadfence() {}

// ---- the host's side -----------------------------------------------------------------------------------------------------

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
using cudaStream_t = struct EmulatedStream*;
using cudaEvent_t = struct EmulatedEvent*;

struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int multiProcessorCount, major, minor;
};

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  void* attrs;
  unsigned numAttrs;
};

const char* cudaGetErrorString(cudaError_t error);
const char* cudaGetErrorName(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total);
cudaError_t cudaMalloc(void** data, std::size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocHost(void** data, std::size_t bytes);
cudaError_t cudaFreeHost(void* data);
// From pinned memory the copy is made late: when its target is next used, or when the host waits.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

namespace emulation {
cudaError_t check_launch(const cudaLaunchConfig_t& config);
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (const cudaError_t error = emulation::check_launch(*config)) return error;
  // Every thread gets copies of its own, as a device's threads do.
  std::tuple<std::decay_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<std::decay_t<Parameters>...>* values;
  } call{kernel, &values};
  std::vector<std::vector<char>> bytes;
  const auto add = [&](auto value) {
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    __builtin_clear_padding(&value);  // else what lies in it by chance may look like half a pointer
#endif
#endif
    const char* const begin = reinterpret_cast<const char*>(&value);
    bytes.emplace_back(begin, begin + sizeof value);
  };
  std::apply([&](const auto&... value) { (add(value), ...); }, values);
  emulation::run(
      config->gridDim, config->blockDim, config->dynamicSmemBytes, bytes,
      [](void* call_of) {
        const Call& c = *static_cast<Call*>(call_of);
        std::apply([&](auto... value) { c.kernel(value...); }, *c.values);
      },
      &call);
  return cudaSuccess;
}
