// Memory, stream and options of the device (cuda.h).
#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <vector>

#include "kernels/cuda.h"
#include "kernels/cuda_device.cuh"
#include "kernels/kernels.h"

namespace seqgrad::kernels {

[[noreturn]] void throw_out_of_memory(u64 bytes, const char* what);  // dispatch.cpp

namespace cuda {

[[noreturn]] void throw_unavailable(const char* reason);

namespace {

// Pinned memory in halves that take turns: while one is filled, the copies from the other may still be under way.
class Staging {
 public:
  static constexpr std::size_t half = std::size_t{4} << 20;

  // Room for at most `half` bytes, which stays as it is until the copy that is asked for next is done.
  void* take(std::size_t bytes) {
    if (!memory_) start();
    if (used_ + bytes > half) {
      check(cudaEventRecord(copied_[turn_], stream()), "recording an event");
      turn_ = 1 - turn_;
      used_ = 0;
      check(cudaEventSynchronize(copied_[turn_]), "waiting for a copy");
    }
    void* const room = memory_ + turn_ * half + used_;
    used_ += (bytes + 63) / 64 * 64;
    return room;
  }

 private:
  void start() {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, 2 * half), "asking for pinned memory");
    memory_ = static_cast<char*>(memory);
    for (cudaEvent_t& event : copied_) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
      check(cudaEventRecord(event, stream()), "recording an event");
    }
  }

  char* memory_ = nullptr;
  std::size_t used_ = 0;
  int turn_ = 0;
  cudaEvent_t copied_[2] = {};
};

struct State {
  cudaStream_t stream = nullptr;
  Staging staging;
  std::map<void*, std::size_t> capacity;           // of the blocks in use
  std::map<std::size_t, std::vector<void*>> free;  // by capacity
  std::size_t limit = static_cast<std::size_t>(-1);
  Statistics statistics;
};

// Never destroyed: tensors with static lifetime may outlive any order of destruction, and CUDA itself ends with the process.
State& state() {
  static State* const instance = [] {
    require();
    State* const fresh = new State;
    check(cudaSetDevice(0), "choosing the device");
    check(cudaStreamCreateWithFlags(&fresh->stream, cudaStreamNonBlocking), "creating a stream");
    return fresh;
  }();
  return *instance;
}

// Four sizes to the octave, from 512 bytes on: at most a fifth is wasted, and batches of nearly one size share blocks.
std::size_t capacity_for(std::size_t bytes) {
  std::size_t step = 512;
  while (8 * step < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

void give_back_all(State& s) {
  check(cudaStreamSynchronize(s.stream), "waiting for the device");
  for (auto& [capacity, blocks] : s.free)
    for (void* block : blocks) check(cudaFree(block), "giving memory back");
  s.free.clear();
  s.statistics.cached = 0;
}

}  // namespace

cudaStream_t stream() { return state().stream; }

// cuBLAS is half a gigabyte, which takes seconds to load: it is looked for when the first product is asked for.
#ifdef SEQGRAD_CUDA_EMULATION
#define SEQGRAD_CUBLAS(function) (&function)
#else
#define SEQGRAD_TEXT_OF(x) #x
#define SEQGRAD_TEXT(x) SEQGRAD_TEXT_OF(x)
#define SEQGRAD_CUBLAS(function) reinterpret_cast<decltype(&function)>(find(SEQGRAD_TEXT(function)))
static void* find(const char* function) {
  static void* const library = [] {
    const char* const name = "libcublas.so." SEQGRAD_TEXT(CUBLAS_VER_MAJOR);
    if (void* const found = dlopen(name, RTLD_NOW)) return found;
    for (const char* at = SEQGRAD_CUDA_LIBRARIES; *at;) {  // folders between colons
      const std::size_t length = std::strcspn(at, ":");
      const std::string path = std::string(at, length) + "/" + name;
      if (void* const found = dlopen(path.c_str(), RTLD_NOW)) return found;
      at += length + (at[length] == ':');
    }
    throw_cuda("loading cuBLAS", dlerror());
  }();
  void* const found = dlsym(library, function);
  if (!found) throw_cuda("loading cuBLAS", dlerror());
  return found;
}
#endif

const Cublas& cublas() {
  static const Cublas loaded = [] {
    Cublas all{nullptr,
               SEQGRAD_CUBLAS(cublasSgemm_64),
               SEQGRAD_CUBLAS(cublasDgemm_64),
               SEQGRAD_CUBLAS(cublasSgemmStridedBatched_64),
               SEQGRAD_CUBLAS(cublasDgemmStridedBatched_64),
               SEQGRAD_CUBLAS(cublasGemmEx_64),
               SEQGRAD_CUBLAS(cublasSetMathMode),
               SEQGRAD_CUBLAS(cublasGetStatusString)};
    const auto check_start = [&](cublasStatus_t status) {
      if (status != CUBLAS_STATUS_SUCCESS) throw_cuda("starting cuBLAS", all.text(status));
    };
    check_start(SEQGRAD_CUBLAS(cublasCreate)(&all.handle));
    check_start(SEQGRAD_CUBLAS(cublasSetStream)(all.handle, stream()));
    return all;
  }();
  return loaded;
}

bool built() { return true; }

std::string why_unavailable() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();  // it stays behind otherwise
  if (error != cudaSuccess) return cudaGetErrorString(error);
  return count > 0 ? "" : "the machine has none";
}
void require() {
  if (const std::string reason = why_unavailable(); !reason.empty()) throw_unavailable(reason.c_str());
}
std::string device_name() {
  require();
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "asking for the device's name");
  char text[400];
  std::snprintf(text, sizeof text, "%s, %d multiprocessors, %.1f GiB", properties.name, properties.multiProcessorCount,
                static_cast<double>(properties.totalGlobalMem) / (1 << 30));
  return text;
}

void* allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  State& s = state();
  const std::size_t capacity = s.limit ? capacity_for(bytes) : bytes;
  void* block = nullptr;
  if (const auto found = s.free.find(capacity); found != s.free.end() && !found->second.empty()) {
    block = found->second.back();
    found->second.pop_back();
    s.statistics.cached -= capacity;
  } else if (cudaMalloc(&block, capacity) != cudaSuccess) {
    cudaGetLastError();
    give_back_all(s);
    if (cudaMalloc(&block, capacity) != cudaSuccess) {
      cudaGetLastError();
      throw_out_of_memory(bytes, "a tensor on the device");
    }
  }
  s.capacity[block] = capacity;
  s.statistics.in_use += capacity;
  if (s.statistics.in_use + s.statistics.cached > s.statistics.peak)
    s.statistics.peak = s.statistics.in_use + s.statistics.cached;
  return block;
}

void release(void* data, std::size_t) {
  if (!data) return;
  State& s = state();
  const auto found = s.capacity.find(data);
  const std::size_t capacity = found->second;
  s.capacity.erase(found);
  s.statistics.in_use -= capacity;
  if (s.limit && s.statistics.cached + capacity <= s.limit) {
    s.free[capacity].push_back(data);
    s.statistics.cached += capacity;
  } else {
    cudaFree(data);  // waits for what still runs
  }
}

void upload(void* to, const void* from, std::size_t bytes) {
  State& s = state();
  for (std::size_t done = 0; done < bytes; done += Staging::half) {
    const std::size_t n = bytes - done < Staging::half ? bytes - done : Staging::half;
    void* const staged = s.staging.take(n);
    std::memcpy(staged, static_cast<const char*>(from) + done, n);
    check(cudaMemcpyAsync(static_cast<char*>(to) + done, staged, n, cudaMemcpyHostToDevice, s.stream), "copying to the device");
  }
}
void download(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream()), "copying from the device");
  synchronize();
}
void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream()), "copying on the device");
}
void set_bytes(void* data, int value, std::size_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(data, value, bytes, stream()), "filling the device's memory");
}
void synchronize() {
  ++state().statistics.waits;
  check(cudaStreamSynchronize(stream()), "waiting for the device");
}

void allow_tf32(bool allowed) {
  check(cublas().set_math_mode(cublas().handle, allowed ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH), "choosing TF32");
}

Statistics statistics() { return state().statistics; }

void set_cache_limit(std::size_t bytes) {
  State& s = state();
  s.limit = bytes;
  if (s.statistics.cached > bytes) give_back_all(s);
}

}  // namespace cuda

bool cuda_available() { return cuda::why_unavailable().empty(); }

}  // namespace seqgrad::kernels
