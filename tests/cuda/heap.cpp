#include "tests/cuda/heap.h"

#include <cstdlib>
#include <functional>
#include <map>
#include <new>

namespace seqgrad::kernels::test {
namespace {

template <class T>
struct Plain {  // memory that the list itself does not hear of
  using value_type = T;
  Plain() = default;
  template <class U>
  Plain(const Plain<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(std::malloc(n * sizeof(T))); }
  void deallocate(T* p, std::size_t) { std::free(p); }
  bool operator==(const Plain&) const { return true; }
};
using Blocks = std::map<char*, std::size_t, std::less<char*>, Plain<std::pair<char* const, std::size_t>>>;

// OpenMP's threads allocate nothing by new; the tests run on one thread.
Blocks& blocks() {
  static Blocks* const all = new (std::malloc(sizeof(Blocks))) Blocks;
  return *all;
}

}  // namespace

HeapBlock heap_block(const void* pointer) {
  char* const at = static_cast<char*>(const_cast<void*>(pointer));
  auto next = blocks().upper_bound(at);
  if (next == blocks().begin()) return {};
  --next;
  return at <= next->first + next->second ? HeapBlock{next->first, next->second} : HeapBlock{};
}

}  // namespace seqgrad::kernels::test

void* operator new(std::size_t bytes) {
  void* const block = std::malloc(bytes ? bytes : 1);
  if (!block) throw std::bad_alloc();
  seqgrad::kernels::test::blocks()[static_cast<char*>(block)] = bytes;
  return block;
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* block) noexcept {
  if (block) seqgrad::kernels::test::blocks().erase(static_cast<char*>(block));
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept { operator delete(block); }
void operator delete[](void* block) noexcept { operator delete(block); }
void operator delete[](void* block, std::size_t) noexcept { operator delete(block); }
