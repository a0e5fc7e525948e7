#include "tensor/storage.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "kernels/error.h"

#if defined(__SANITIZE_ADDRESS__)
#define SEQGRAD_NO_CACHE  // every tensor its own allocation, so that a read past its end is seen
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SEQGRAD_NO_CACHE
#endif
#endif

namespace seqgrad {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t header = 64;  // Storage sits in front of its data
static_assert(sizeof(Storage) <= header);
constexpr std::size_t large = std::size_t{64} << 10;

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

// Small blocks: eight sizes to the octave, so that at most an eighth is wasted and nearly equal requests share blocks.
[[maybe_unused]] std::size_t size_class(std::size_t bytes) {
  if (bytes <= alignment) return alignment;
  std::size_t step = alignment;
  while (step * 16 < bytes) step *= 2;
  return round_up(bytes, step);
}

// Large blocks: address-ordered first fit with neighbours merged, so that batches of varying shape share one compact range of
// memory instead of each keeping blocks of its own sizes.
class Heap {
 public:
  // Null when the system has nothing left. `fresh` says whether memory was taken that the process did not hold before.
  void* take(std::size_t bytes, bool& fresh) {
    auto place = free_.begin();
    while (place != free_.end() && place->second.size < bytes) ++place;
    if (place == free_.end()) {
      place = add_segment(bytes);
      if (place == free_.end()) return nullptr;
    }
    char* const memory = place->first;
    const Range range = place->second;
    free_.erase(place);
    // Held pages lie at the front of a range more often than not; counting them so keeps the statistics simple.
    const std::size_t held = std::min(range.held, bytes);
    fresh = held < bytes;
    held_free_ -= held;
    if (range.size > bytes) free_[memory + bytes] = {range.size - bytes, range.held - held};
    return memory;
  }

  void give(char* memory, std::size_t bytes, bool keep) {
    if (!keep) madvise(memory, bytes, MADV_DONTNEED);
    if (keep) held_free_ += bytes;
    const auto place = free_.emplace(memory, Range{bytes, keep ? bytes : 0}).first;
    merge_with_next(place);
    if (place != free_.begin()) merge_with_next(std::prev(place));
  }

  void give_back_all() {
    for (auto& [memory, range] : free_) {
      if (range.held) madvise(memory, range.size, MADV_DONTNEED);
      range.held = 0;
    }
    held_free_ = 0;
  }

  std::size_t held_free() const { return held_free_; }

 private:
  struct Range {
    std::size_t size = 0;
    std::size_t held = 0;  // bytes of it that the process still holds
  };
  using Ranges = std::map<char*, Range>;

  void merge_with_next(Ranges::iterator place) {
    const auto next = std::next(place);
    if (next == free_.end() || place->first + place->second.size != next->first) return;
    place->second.size += next->second.size;
    place->second.held += next->second.held;
    free_.erase(next);
  }

  // Address space only: pages come when they are first touched.
  Ranges::iterator add_segment(std::size_t bytes) {
    constexpr std::size_t huge_page = std::size_t{2} << 20, usual = std::size_t{1} << 30;
    for (const std::size_t wanted : {usual, std::size_t{64} << 20, bytes}) {
      if (wanted < bytes) continue;
      const std::size_t size = round_up(wanted, huge_page) + huge_page;
      void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (mapped == MAP_FAILED) continue;
      const auto address = reinterpret_cast<std::uintptr_t>(mapped);
      char* const aligned = static_cast<char*>(mapped) + (round_up(address, huge_page) - address);
      madvise(aligned, size - huge_page, MADV_HUGEPAGE);
      return free_.emplace(aligned, Range{size - huge_page, 0}).first;
    }
    return free_.end();
  }

  Ranges free_;
  std::size_t held_free_ = 0;
};

class Cache {
 public:
  Storage* take(std::size_t bytes) {
#ifdef SEQGRAD_NO_CACHE
    const std::size_t capacity = bytes;
#else
    const std::size_t capacity = bytes < large ? size_class(bytes) : round_up(bytes + header, 4096) - header;
#endif
    std::lock_guard lock(mutex_);
    bool fresh = false;
    void* memory = nullptr;
#ifndef SEQGRAD_NO_CACHE
    if (capacity >= large)
      memory = heap_.take(header + capacity, fresh);
    else if (auto& blocks = small_[capacity]; !blocks.empty()) {
      memory = blocks.back();
      blocks.pop_back();
      small_cached_ -= capacity;
    } else
#endif
    {
      fresh = true;
      if (posix_memalign(&memory, alignment, header + capacity) != 0) memory = nullptr;
    }
    if (!memory) throw_failure("out of memory: a tensor of {} bytes was asked for", bytes);
    statistics_.system_calls += fresh;
    statistics_.in_use += capacity;
    if (const std::size_t total = statistics_.in_use + cached(); total > statistics_.peak) statistics_.peak = total;
    Storage* storage = new (memory) Storage;
    storage->capacity = capacity;
    storage->data = static_cast<char*>(memory) + header;
    return storage;
  }

  void give(Storage* storage) {
#ifdef SEQGRAD_DEBUG
    std::memset(storage->data, 0xFF, storage->capacity);  // NaN in f32 and f64: a stale pointer shows
#endif
    const std::size_t capacity = storage->capacity;
    std::lock_guard lock(mutex_);
    statistics_.in_use -= capacity;
    const bool keep = cached() + capacity <= limit_;
#ifdef SEQGRAD_NO_CACHE
    (void)keep;
    std::free(storage);
#else
    if (capacity >= large)
      heap_.give(reinterpret_cast<char*>(storage), header + capacity, keep);
    else if (keep) {
      small_cached_ += capacity;
      small_[capacity].push_back(storage);
    } else
      std::free(storage);
#endif
  }

  void set_limit(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    if (cached() <= limit_) return;
    heap_.give_back_all();
    for (auto& [capacity, blocks] : small_)
      while (cached() > limit_ && !blocks.empty()) {
        small_cached_ -= capacity;
        std::free(blocks.back());
        blocks.pop_back();
      }
  }

  MemoryStatistics statistics() {
    std::lock_guard lock(mutex_);
    MemoryStatistics now = statistics_;
    now.cached = cached();
    return now;
  }

 private:
  std::size_t cached() const { return small_cached_ + heap_.held_free(); }

  std::mutex mutex_;
  Heap heap_;
  std::map<std::size_t, std::vector<void*>> small_;
  std::size_t small_cached_ = 0;
  std::size_t limit_ = std::size_t{1} << 30;
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
