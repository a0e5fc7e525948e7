// What fibers.cpp asks of memory.cpp. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "tests/cuda_emulation/emulation.h"

namespace emulation {

// The allocations that pointers among these bytes lead into, opened; Fault where one is a pointer into the host's memory.
class OpenedFor {
 public:
  explicit OpenedFor(const std::vector<std::vector<char>>& arguments);
  ~OpenedFor();
  OpenedFor(const OpenedFor&) = delete;
  void close();  // Fault where something was written in front of one of them

 private:
  std::vector<std::uintptr_t> opened_;
};

// What lies at an address that could not be touched: "3 bytes behind a device allocation of 132 bytes".
std::string describe(const void* address);

// Memory between two pages that nobody may touch, ending right before the second. Never returned.
char* fenced(std::size_t bytes);

void count_memory(Counts& counts);

constexpr int poison = 0xFF;  // NaN in float and double, -1 in integers

}  // namespace emulation
