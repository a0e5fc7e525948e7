// CUDA on the CPU, so that the .cu files of kernels/ can be compiled by g++ and tested without a GPU. It shows wrong indices,
// barriers, leading dimensions and uses of the wrong memory; it says nothing of speed, nor of the order in which a GPU's memory
// shows writes to other threads.
//
//   emulation::schedule(7);              // the order in which blocks and threads run from here on
//   softmax_rows(...);                   // launches kernels as on a device; throws emulation::Fault where one misbehaves
//
// Every thread of a block is a fiber. It runs until it waits for others; then any thread that can go on is picked at random.
// Threads of a warp are no exception: nothing happens in lockstep that the program does not ask for.
// Device memory cannot be touched but by a kernel, copy or product that was given a pointer into the allocation, and ends at a
// page that nobody may touch. New device memory, and shared memory at the start of each block, is NaN.
// Not thread-safe: one thread of the program uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace emulation {

// What a GPU would do wrongly without a word, or with "an illegal memory access was encountered".
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void schedule(std::uint64_t seed);

struct Counts {
  std::int64_t launches = 0, threads = 0, barriers = 0, allocations = 0, bytes = 0;  // bytes: of device memory in use
};
Counts counts();

// A machine without a usable device, for what follows: cudaGetDeviceCount() then fails.
void hide_device(bool hidden);

// ---- for the stand-ins of CUDA's headers -------------------------------------------------------------------------------

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  constexpr std::size_t count() const { return std::size_t{x} * y * z; }
};

struct Place {  // of the thread that runs
  Dim3 thread, block, threads, blocks;
};
extern Place here;

// Where a thread waits: two threads of a block that wait at different places are a fault.
struct Line {
  const char* file;
  int line;
  bool operator==(const Line& other) const { return line == other.line && file == other.file; }
};
void barrier(Line line);
// Every lane of `mask` gives its 64 bits; then each may read those of all.
const std::uint64_t* exchange(unsigned mask, std::uint64_t value, Line line);
unsigned lane();

// The array that a __shared__ declaration names, the same for all threads of a block.
class SharedArray {
 public:
  explicit SharedArray(std::size_t bytes);
  void* get();

 private:
  std::size_t bytes_;
  char* data_;
  std::uint64_t block_ = 0;  // whose contents these are
};
void* dynamic_shared();

// Calls body(argument) in every thread. `arguments` are the bytes of the kernel's arguments, in which pointers are looked for.
struct Bytes {
  const void* data;
  std::size_t size;
};
void run(Dim3 blocks, Dim3 threads, std::size_t shared_bytes, const std::vector<std::vector<char>>& arguments,
         void (*body)(void*), void* argument);

// Memory of the device.
void* allocate(std::size_t bytes);
void release(void* data);
bool on_device(const void* pointer);
// Lets what runs while this lives touch the allocations that hold these ranges; Fault where one reaches beyond its allocation.
class Opened {
 public:
  explicit Opened(const std::vector<Bytes>& ranges);
  ~Opened();
  Opened(const Opened&) = delete;

 private:
  std::vector<std::uintptr_t> opened_;
};

}  // namespace emulation
