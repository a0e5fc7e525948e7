#include "tensor/storage.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "kernels/error.h"

namespace seqgrad {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t header = 64;  // Storage sits in front of its data
static_assert(sizeof(Storage) <= header);
constexpr std::size_t large = std::size_t{1} << 20;
constexpr std::size_t huge_page = std::size_t{2} << 20;

// Eight sizes to the octave: at most an eighth is wasted, and nearly equal requests share blocks.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= alignment) return alignment;
  std::size_t step = alignment;
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

class Cache {
 public:
  Storage* take(std::size_t bytes) {
    const std::size_t capacity = size_class(bytes);
    {
      std::lock_guard lock(mutex_);
      // A large block may serve a request somewhat smaller than itself, so that steps of varying shape share blocks.
      auto block = free_.lower_bound(capacity);
      const std::size_t limit = capacity >= large ? capacity + capacity / 2 : capacity;
      if (block != free_.end() && block->first <= limit && !block->second.empty()) {
        Storage* storage = block->second.back();
        block->second.pop_back();
        if (block->second.empty() && block->first >= large) free_.erase(block);
        statistics_.cached -= storage->capacity;
        statistics_.in_use += storage->capacity;
        return storage;
      }
    }
    Storage* storage = ask_system(capacity, bytes);
    std::lock_guard lock(mutex_);
    ++statistics_.system_calls;
    statistics_.in_use += capacity;
    note_peak();
    return storage;
  }

  void give(Storage* storage) {
#ifdef SEQGRAD_DEBUG
    std::memset(storage->data, 0xFF, storage->capacity);  // NaN in f32 and f64: a stale pointer shows
#endif
    std::lock_guard lock(mutex_);
    statistics_.in_use -= storage->capacity;
    if (statistics_.cached + storage->capacity > limit_) {
      std::free(storage);
      return;
    }
    statistics_.cached += storage->capacity;
    free_[storage->capacity].push_back(storage);
  }

  void set_limit(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    for (auto block = free_.rbegin(); block != free_.rend(); ++block)
      while (statistics_.cached > limit_ && !block->second.empty()) {
        statistics_.cached -= block->second.back()->capacity;
        std::free(block->second.back());
        block->second.pop_back();
      }
  }

  MemoryStatistics statistics() {
    std::lock_guard lock(mutex_);
    return statistics_;
  }

 private:
  static Storage* ask_system(std::size_t capacity, std::size_t requested) {
    const bool big = capacity >= 2 * huge_page;
    const std::size_t align = big ? huge_page : alignment;
    const std::size_t total = (header + capacity + align - 1) / align * align;
    void* memory = std::aligned_alloc(align, total);
    if (!memory) throw_failure("out of memory: a tensor of {} bytes was asked for", requested);
    if (big) madvise(memory, total, MADV_HUGEPAGE);
    Storage* storage = new (memory) Storage;
    storage->capacity = capacity;
    storage->data = static_cast<char*>(memory) + header;
    return storage;
  }

  void note_peak() {
    const std::size_t total = statistics_.in_use + statistics_.cached;
    if (total > statistics_.peak) statistics_.peak = total;
  }

  std::mutex mutex_;
  std::map<std::size_t, std::vector<Storage*>> free_;
  std::size_t limit_ = std::size_t{512} << 20;
  MemoryStatistics statistics_;
};

Cache& cache() {
  // Never destroyed: tensors with static lifetime may outlive any order of destruction.
  static Cache* instance = new Cache;
  return *instance;
}

}  // namespace

StorageRef::StorageRef(std::size_t bytes, Device device) {
  if (device != Device::cpu) throw_error("this build has no CUDA support: use --device cpu");
  storage_ = cache().take(bytes);
  storage_->references.store(1, std::memory_order_relaxed);
}

void StorageRef::release(Storage* storage) { cache().give(storage); }

MemoryStatistics memory_statistics() { return cache().statistics(); }

void set_cache_limit(std::size_t bytes) { cache().set_limit(bytes); }

}  // namespace seqgrad
