// Which block of the heap a pointer leads into. The program that links heap.cpp keeps a list of them, so that the arrays of a
// test can be mirrored on a device without the test's help. Not thread-safe.
#pragma once

#include <cstddef>

namespace seqgrad::kernels::test {

struct HeapBlock {
  char* begin = nullptr;  // null: the pointer leads into none
  std::size_t bytes = 0;
};
HeapBlock heap_block(const void* pointer);

}  // namespace seqgrad::kernels::test
