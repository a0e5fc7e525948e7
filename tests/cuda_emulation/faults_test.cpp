// The emulation must see what a GPU does not say. Each case plants a fault in a kernel that is right without it.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/cuda_emulation/cublas_v2.h"
#include "tests/cuda_emulation/emulation.h"

namespace {

// An array on the device with what is given in it.
struct Array {
  explicit Array(const std::vector<float>& values) : n(values.size()) {
    cudaMalloc(reinterpret_cast<void**>(&data), n * sizeof(float));
    cudaMemcpyAsync(data, values.data(), n * sizeof(float), cudaMemcpyHostToDevice, nullptr);
  }
  ~Array() { cudaFree(data); }
  Array(const Array&) = delete;
  std::vector<float> values() const {
    std::vector<float> result(n);
    cudaMemcpyAsync(result.data(), data, n * sizeof(float), cudaMemcpyDeviceToHost, nullptr);
    return result;
  }
  std::size_t n;
  float* data = nullptr;
};

cudaLaunchConfig_t shape(unsigned blocks, unsigned threads, std::size_t shared = 0) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  return config;
}

// The fault that a launch meets under any of 20 schedules, "" for none.
template <class... Parameters, class... Arguments>
std::string fault_of(void (*kernel)(Parameters...), const cudaLaunchConfig_t& config, Arguments... arguments) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    emulation::schedule(seed);
    try {
      const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
      REQUIRE(error == cudaSuccess);
    } catch (const emulation::Fault& fault) {
      return fault.what();
    }
  }
  return "";
}
// Whether the kernel leaves the same, right numbers under each of 20 schedules.
template <class... Parameters>
bool always_gives(const std::vector<float>& expected, void (*kernel)(Parameters...), const cudaLaunchConfig_t& config,
                  const std::vector<float>& x) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    emulation::schedule(seed);
    const Array from(x), to(std::vector<float>(expected.size(), 0.0f));
    REQUIRE(cudaLaunchKernelEx(&config, kernel, from.data, to.data) == cudaSuccess);
    if (to.values() != expected) return false;
  }
  return true;
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<float> ascending(int n) {
  std::vector<float> x;
  for (int i = 0; i < n; ++i) x.push_back(static_cast<float>(i));
  return x;
}
std::vector<float> reversed(std::vector<float> x) { return {x.rbegin(), x.rend()}; }

// y = x backwards, through shared memory.
template <bool barrier>
__global__ void reverse(const float* x, float* y) {
  SEQGRAD_SHARED(float, all, 64);
  all[threadIdx.x] = x[threadIdx.x];
  if (barrier) __syncthreads();
  y[threadIdx.x] = all[63 - threadIdx.x];
}

// The same in dynamic shared memory.
template <bool barrier>
__global__ void reverse_dynamic(const float* x, float* y) {
  SEQGRAD_DYNAMIC_SHARED(float, all);
  all[threadIdx.x] = x[threadIdx.x];
  if (barrier) __syncthreads();
  y[threadIdx.x] = all[63 - threadIdx.x];
}

// y[block] = the sum of the block's 64 elements; each thread adds to what the shared array holds.
template <bool cleared>
__global__ void sum_block(const float* x, float* y) {
  SEQGRAD_SHARED(float, total, 1);
  if (cleared && threadIdx.x == 0) total[0] = 0;
  __syncthreads();
  atomicAdd(&total[0], x[blockIdx.x * 64 + threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = total[0];
}

__global__ void scale(float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] *= 2;
}
__global__ void scale_off_by_one(float* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i <= n) x[i] *= 2;
}
__global__ void write_before(float* x) { x[-1] = 0; }
__global__ void read_before(const float* x, float* y) { *y = x[-1]; }

__global__ void divergent_barrier(float* x) {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
  x[threadIdx.x] = 1;
}
__global__ void early_exit(float* x) {
  if (threadIdx.x == 5) return;
  __syncthreads();
  x[threadIdx.x] = 1;
}
__global__ void half_at_the_barrier(float* x) {
  if (threadIdx.x < 32) __syncthreads();
  x[threadIdx.x] = 1;
}
__global__ void lane_missing(float* x) {
  if (threadIdx.x == 3) return;
  x[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFF, x[threadIdx.x], 1);
}
__global__ void divergent_shuffle(float* x) {
  float other;
  if (threadIdx.x < 16)
    other = __shfl_xor_sync(0xFFFFFFFF, x[threadIdx.x], 1);
  else
    other = __shfl_xor_sync(0xFFFFFFFF, x[threadIdx.x], 1);
  x[threadIdx.x] = other;
}
__global__ void lane_outside_the_mask(float* x) { x[threadIdx.x] = __shfl_sync(0x0000FFFF, x[threadIdx.x], 0); }

// Warps may not count on running in lockstep: without a barrier in between, a lane need not see what another wrote.
__global__ void lockstep(const float* x, float* y) {
  SEQGRAD_SHARED(float, all, 32);
  all[threadIdx.x] = x[threadIdx.x];
  y[threadIdx.x] = all[31 - threadIdx.x];
}
__global__ void warp_synced(const float* x, float* y) {
  SEQGRAD_SHARED(float, all, 32);
  all[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  y[threadIdx.x] = all[31 - threadIdx.x];
}

__global__ void votes(const float* x, float* y) {
  const unsigned big = __ballot_sync(0xFFFFFFFF, x[threadIdx.x] >= 16);
  const int any = __any_sync(0xFFFFFFFF, x[threadIdx.x] == 31), all = __all_sync(0xFFFFFFFF, x[threadIdx.x] < 31);
  const float above = __shfl_down_sync(0xFFFFFFFF, x[threadIdx.x], 1), first = __shfl_sync(0xFFFFFFFF, x[threadIdx.x], 7);
  y[threadIdx.x] = static_cast<float>(__popc(big)) + static_cast<float>(100 * any + 1000 * all) + above / 1024 + first / 65536;
}

struct TwoPointers {
  const float* x;
  float* y;
};
__global__ void copy_one(TwoPointers both) { *both.y = *both.x; }

__global__ void shared_overrun(float* x) {
  SEQGRAD_SHARED(float, all, 32);
  all[threadIdx.x + 1] = 1;
  x[threadIdx.x] = all[threadIdx.x];
}

}  // namespace

TEST_CASE("a missing barrier shows, in static and in dynamic shared memory") {
  const std::vector<float> x = ascending(64);
  CHECK(always_gives(reversed(x), reverse<true>, shape(1, 64), x));
  CHECK_FALSE(always_gives(reversed(x), reverse<false>, shape(1, 64), x));
  CHECK(always_gives(reversed(x), reverse_dynamic<true>, shape(1, 64, 256), x));
  CHECK_FALSE(always_gives(reversed(x), reverse_dynamic<false>, shape(1, 64, 256), x));
}

TEST_CASE("threads of a warp do not run in lockstep") {
  const std::vector<float> x = ascending(32);
  CHECK(always_gives(reversed(x), warp_synced, shape(1, 32), x));
  CHECK_FALSE(always_gives(reversed(x), lockstep, shape(1, 32), x));
}

TEST_CASE("uninitialised shared memory is NaN, in every block anew") {
  const std::vector<float> ones(3 * 64, 1.0f);
  CHECK(always_gives({64, 64, 64}, sum_block<true>, shape(3, 64), ones));
  const Array x(ones), y({0, 0, 0});
  const cudaLaunchConfig_t config = shape(3, 64);
  cudaLaunchKernelEx(&config, sum_block<false>, x.data, y.data);
  for (const float value : y.values()) CHECK(std::isnan(value));
}

TEST_CASE("an off-by-one bound is caught, whatever the number of elements") {
  for (const int n : {1, 31, 33, 63, 1000, 1023, 1024}) {
    const Array x(ascending(n));
    CHECK(fault_of(scale, shape(5, 256), x.data, n) == "");
    const std::string fault = fault_of(scale_off_by_one, shape(5, 256), x.data, n);
    CHECK(has(fault, "0 bytes behind a device allocation of " + std::to_string(4 * n) + " bytes"));
    CHECK(has(fault, "thread (" + std::to_string(n % 256) + ", 0, 0)"));
    CHECK(has(fault, "block (" + std::to_string(n / 256) + ", 0, 0)"));
  }
  const Array x(ascending(33)), y({0});
  CHECK(fault_of(write_before, shape(1, 1), x.data) == "something was written in front of a device allocation of 132 bytes");
  cudaLaunchConfig_t config = shape(1, 1);
  cudaLaunchKernelEx(&config, read_before, x.data, y.data);
  CHECK(std::isnan(y.values()[0]));
  CHECK(has(fault_of(shared_overrun, shape(1, 32), x.data), "thread (31, 0, 0) writes where there is no device memory"));
}

TEST_CASE("a divergent barrier is reported") {
  const Array x(ascending(64));
  CHECK(has(fault_of(divergent_barrier, shape(1, 64), x.data), "divergent barrier: "));
}

TEST_CASE("threads that do not reach a barrier are reported") {
  const Array x(ascending(64));
  const std::string early = fault_of(early_exit, shape(1, 64), x.data);
  CHECK(has(early, "waits at the barrier in faults_test.cpp:"));
  CHECK(has(early, ", but thread (5, 0, 0) has left the kernel"));
  CHECK(has(fault_of(half_at_the_barrier, shape(1, 64), x.data), "has left the kernel"));
}

TEST_CASE("lanes that do not reach a shuffle are reported") {
  const Array x(ascending(32));
  CHECK(has(fault_of(lane_missing, shape(1, 32), x.data), "for lane 3 of its warp, which has left the kernel"));
  CHECK(has(fault_of(divergent_shuffle, shape(1, 32), x.data), "divergent warp: "));
  CHECK(has(fault_of(lane_outside_the_mask, shape(1, 32), x.data), "is not in the mask of its own call"));
}

TEST_CASE("shuffles and votes give what CUDA gives") {
  std::vector<float> expected;
  for (int i = 0; i < 32; ++i) expected.push_back(16 + 100 + static_cast<float>(i < 31 ? i + 1 : i) / 1024 + 7.0f / 65536);
  CHECK(always_gives(expected, votes, shape(1, 32), ascending(32)));
}

TEST_CASE("pointers to the host's memory are caught, also within a struct") {
  std::vector<float> host = {1, 2};
  const Array x({5}), y({0});
  CHECK(fault_of(scale, shape(1, 32), host.data(), 2) == "a kernel was given a pointer to the host's memory");
  CHECK(fault_of(copy_one, shape(1, 1), TwoPointers{x.data, y.data}) == "");
  CHECK(y.values()[0] == 5);
  CHECK(has(fault_of(copy_one, shape(1, 1), TwoPointers{host.data(), y.data}), "a pointer to the host's memory"));
  CHECK(cudaMemcpyAsync(x.data, y.data, 4, cudaMemcpyHostToDevice, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyAsync(host.data(), host.data(), 4, cudaMemcpyDeviceToHost, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("memory that was freed is out of reach") {
  float* stale = nullptr;
  {
    const Array x(ascending(8));
    stale = x.data;
  }
  CHECK(has(fault_of(scale, shape(1, 8), stale, 8), "in device memory that was freed"));
}

TEST_CASE("a copy from pinned memory is made late, so that reusing the memory too early shows") {
  void* pinned = nullptr;
  cudaMallocHost(&pinned, 4);
  const Array x({0});
  *static_cast<float*>(pinned) = 1;
  cudaMemcpyAsync(x.data, pinned, 4, cudaMemcpyHostToDevice, nullptr);
  *static_cast<float*>(pinned) = 2;  // planted: nobody waited
  CHECK(x.values()[0] == 2);
  cudaMemcpyAsync(x.data, pinned, 4, cudaMemcpyHostToDevice, nullptr);
  cudaStreamSynchronize(nullptr);
  *static_cast<float*>(pinned) = 3;
  CHECK(x.values()[0] == 2);
  cudaFreeHost(pinned);
}

TEST_CASE("cuBLAS is column-major, and a wrong leading dimension is refused, caught or gives something else") {
  cublasHandle_t handle;
  cublasCreate(&handle);
  // Column-major a (2,3) = [1 3 5; 2 4 6], b (3,2) = [1 4; 2 5; 3 6]: c = [22 49; 28 64].
  const Array a({1, 2, 3, 4, 5, 6}), b({1, 2, 3, 4, 5, 6}), c({0, 0, 0, 0});
  const float one = 1, zero = 0;
  const auto multiply = [&](std::int64_t lda, std::int64_t ldb, std::int64_t ldc) {
    return cublasSgemm_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one, a.data, lda, b.data, ldb, &zero, c.data, ldc);
  };
  CHECK(multiply(2, 3, 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(c.values() == std::vector<float>{22, 28, 49, 64});
  CHECK(multiply(1, 3, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(multiply(2, 2, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK_THROWS_WITH_AS(multiply(3, 3, 2), "a range of 32 bytes ends 8 bytes behind its device allocation", emulation::Fault);
  const Array more(ascending(12));
  CHECK(cublasSgemm_64(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 3, &one, more.data, 4, b.data, 3, &zero, c.data, 2) ==
        CUBLAS_STATUS_SUCCESS);
  CHECK(c.values() != std::vector<float>{22, 28, 49, 64});
}

TEST_CASE("a launch that no device accepts is refused") {
  const Array x({1});
  for (const cudaLaunchConfig_t& config : {shape(1, 1025), shape(1, 0), shape(0, 32), shape(1, 32, 50000)})
    CHECK(cudaLaunchKernelEx(&config, write_before, x.data) == cudaErrorInvalidConfiguration);
}
