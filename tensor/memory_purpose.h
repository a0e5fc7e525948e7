// What memory is wanted for, and what to do when there is none: a message can then say more than how many bytes there were not.
//
//   const MemoryPurpose purpose("a training step", "lower --batch");
//   // "out of memory: 4096 more bytes for a training step, with 1000000 in use: lower --batch"
//
// Each thread has purposes of its own, of which the innermost counts.
#pragma once

#include <cstddef>
#include <string>

namespace seqgrad {

class MemoryPurpose {
 public:
  MemoryPurpose(std::string what, std::string remedy);
  ~MemoryPurpose();
  MemoryPurpose(const MemoryPurpose&) = delete;
  MemoryPurpose& operator=(const MemoryPurpose&) = delete;

 private:
  friend std::string out_of_memory(std::size_t bytes);
  std::string what_, remedy_;
  MemoryPurpose* outer_;
  int exceptions_;
};

// The message. bytes 0: not known, as of std::bad_alloc; the purpose is then the one that the exception has ended.
std::string out_of_memory(std::size_t bytes = 0);

}  // namespace seqgrad
