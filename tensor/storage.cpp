#include "tensor/storage.h"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "kernels/cuda.h"
#include "kernels/error.h"
#include "tensor/memory_purpose.h"

#if defined(__SANITIZE_ADDRESS__)
#define SEQGRAD_NO_CACHE  // every tensor its own allocation, so that a read past its end is seen
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SEQGRAD_NO_CACHE
#endif
#endif

namespace seqgrad {
namespace {

#ifdef SEQGRAD_NO_CACHE
constexpr bool caching = false;
#else
constexpr bool caching = true;
#endif

constexpr std::size_t alignment = 64;
constexpr std::size_t header = 64;                    // Storage sits in front of its data,
constexpr std::size_t tiny = 32;                      // but behind so few bytes, so that both share a cache line
constexpr std::size_t large = std::size_t{60} << 10;  // more bytes than this are a large block
static_assert(sizeof(Storage) <= header && tiny + sizeof(Storage) <= alignment);

bool is_tiny(std::size_t capacity) { return caching && capacity == tiny; }

Storage* storage_in(void* block, std::size_t capacity) {
  char* const begin = static_cast<char*>(block);
  Storage* const storage = new (is_tiny(capacity) ? begin + tiny : begin) Storage;
  storage->capacity = capacity;
  storage->data = is_tiny(capacity) ? begin : begin + header;
  return storage;
}
char* block_of(Storage* storage) { return reinterpret_cast<char*>(storage) - (is_tiny(storage->capacity) ? tiny : 0); }

std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

// Small blocks: eight sizes to the octave, so that at most an eighth is wasted and nearly equal requests share blocks.
struct SizeClass {
  static constexpr std::size_t count = 64;
  std::size_t index, capacity;
};
SizeClass size_class(std::size_t bytes) {
  if (bytes <= tiny) return {0, tiny};
  std::size_t shift = 6, smaller = 0;  // steps of 64 bytes up to sixteen of them
  for (; std::size_t{16} << shift < bytes; ++shift) smaller += 8;
  const std::size_t steps = ((bytes - 1) >> shift) + 1;
  return {smaller + steps, steps << shift};
}

// Blocks of one size that nobody uses.
class Shelf {
 public:
  std::size_t count() const { return blocks_.size(); }
  void reserve(std::size_t count) { blocks_.reserve(count); }
  void put(Storage* storage) { blocks_.push_back(storage); }
  Storage* pick() {
    Storage* const storage = blocks_.back();
    blocks_.pop_back();
    // Who takes one takes more: fetch the header of the fourth from here, for a block that was long unused is far away.
    if (blocks_.size() >= 4) __builtin_prefetch(*(blocks_.end() - 4));
    return storage;
  }

 private:
  std::vector<Storage*> blocks_;
};

// The small blocks that one thread gave back last, for it to take again without a lock. The common cache fills its shelves and
// relieves them by the half.
struct Shelves {
  std::array<Shelf, SizeClass::count> of;
  std::atomic<std::size_t> bytes{0};  // changed by the thread alone, read by others

  Shelves() {
    for (std::size_t i = 0; i < SizeClass::count; ++i) of[i].reserve(most(i));
  }
  std::size_t held() const { return bytes.load(std::memory_order_relaxed); }
  void add(std::size_t more) { bytes.store(held() + more, std::memory_order_relaxed); }
  void subtract(std::size_t less) { bytes.store(held() - less, std::memory_order_relaxed); }

  // Blocks on one shelf: 128 of up to 1 KiB, then half as many for each octave.
  static constexpr std::size_t most(std::size_t index) { return std::size_t{128} >> (index > 16 ? (index - 9) / 8 : 0); }
};

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

// What the machine has, or a container may use. The system gives out address space beyond it, and kills whoever touches it.
std::size_t memory_of_machine() {
  struct sysinfo info;
  std::size_t bytes = std::numeric_limits<std::size_t>::max();
  if (::sysinfo(&info) == 0) bytes = (std::size_t{info.totalram} + info.totalswap) * info.mem_unit;
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"})
    if (std::size_t limit = 0; std::ifstream(file) >> limit) bytes = std::min(bytes, limit);  // it may also say "max"
  return bytes;
}

constinit std::atomic<bool> shelves_allowed{caching};

struct NoBlock {
  std::size_t capacity;
};

// What all threads share, under a lock. Blocks on a thread's shelves count as given out here.
class Cache {
 public:
  Storage* take(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    if (!caching || bytes <= large) {
      const SizeClass size = caching ? size_class(bytes) : SizeClass{0, bytes};
      return small_[size.index].count() > 0 ? from_common(size) : from_system(size.capacity);
    }
    const std::size_t capacity = round_up(bytes + header, 4096) - header;
    bool fresh = false;
    void* const block = is_beyond_machine(capacity) ? nullptr : heap_.take(header + capacity, fresh);
    return hand_out(block, capacity, fresh);
  }

  // The block that was asked for, and up to a batch more for the shelf.
  Storage* take(Shelves& shelves, SizeClass size) {
    std::lock_guard lock(mutex_);
    if (small_[size.index].count() == 0) return from_system(size.capacity);
    Storage* const storage = from_common(size);
    Shelf& shelf = shelves.of[size.index];
    while (small_[size.index].count() > 0 && shelf.count() + 1 < Shelves::most(size.index) / 2) {
      shelf.put(from_common(size));
      shelves.add(size.capacity);
    }
    return storage;
  }

  void give(Storage* storage) {
    std::lock_guard lock(mutex_);
    take_back(storage);
  }

  // All but `kept` blocks of a shelf.
  void relieve(Shelves& shelves, std::size_t index, std::size_t kept) {
    std::lock_guard lock(mutex_);
    relieve_locked(shelves, index, kept);
  }

  void empty(Shelves& shelves) {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < SizeClass::count; ++i) relieve_locked(shelves, i, 0);
  }

  Shelves* open_shelves() {
    std::lock_guard lock(mutex_);
    return shelves_.emplace_back(std::make_unique<Shelves>()).get();
  }
  void close(Shelves* shelves) {
    empty(*shelves);
    std::lock_guard lock(mutex_);
    std::erase_if(shelves_, [&](const auto& one) { return one.get() == shelves; });
  }

  void set_limit(std::size_t bytes) {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    // A limit not far above what shelves hold is kept to the byte, without them.
    shelves_allowed.store(caching && bytes >= std::size_t{64} << 20, std::memory_order_relaxed);
    if (cached() + on_shelves() <= limit_) return;
    heap_.give_back_all();
    for (Shelf& shelf : small_)
      while (cached() + on_shelves() > limit_ && shelf.count() > 0) {
        Storage* const storage = shelf.pick();
        small_cached_ -= storage->capacity;
        std::free(block_of(storage));
      }
  }

  MemoryStatistics statistics() {
    std::lock_guard lock(mutex_);
    MemoryStatistics now = statistics_;
    now.in_use -= on_shelves();
    now.cached = cached() + on_shelves();
    return now;
  }

 private:
  std::size_t cached() const { return small_cached_ + heap_.held_free(); }
  std::size_t on_shelves() const {
    std::size_t bytes = 0;
    for (const auto& shelves : shelves_) bytes += shelves->held();
    return bytes;
  }

  void note_peak() { statistics_.peak = std::max(statistics_.peak, statistics_.in_use + cached()); }

  Storage* from_common(SizeClass size) {
    small_cached_ -= size.capacity;
    statistics_.in_use += size.capacity;
    return small_[size.index].pick();
  }

  Storage* from_system(std::size_t capacity) {
    void* block = nullptr;
    if (is_beyond_machine(capacity) ||
        posix_memalign(&block, alignment, is_tiny(capacity) ? alignment : header + capacity) != 0)
      block = nullptr;
    return hand_out(block, capacity, true);
  }

  bool is_beyond_machine(std::size_t capacity) const { return capacity > machine_ - std::min(machine_, statistics_.in_use); }

  Storage* hand_out(void* block, std::size_t capacity, bool fresh) {
    if (!block) throw NoBlock{capacity};
    statistics_.system_calls += fresh;
    statistics_.in_use += capacity;
    note_peak();
    return storage_in(block, capacity);
  }

  void take_back(Storage* storage) {
    const std::size_t capacity = storage->capacity;
    statistics_.in_use -= capacity;
    const bool keep = caching && cached() + on_shelves() + capacity <= limit_;
    if (caching && capacity > large) {
      heap_.give(block_of(storage), header + capacity, keep);
      note_peak();  // the cache counts the header, too
    } else if (keep) {
      small_cached_ += capacity;
      small_[size_class(capacity).index].put(storage);
    } else {
      std::free(block_of(storage));
    }
  }

  void relieve_locked(Shelves& shelves, std::size_t index, std::size_t kept) {
    for (Shelf& shelf = shelves.of[index]; shelf.count() > kept;) {
      Storage* const storage = shelf.pick();
      shelves.subtract(storage->capacity);
      take_back(storage);
    }
  }

  std::mutex mutex_;
  Heap heap_;
  std::array<Shelf, SizeClass::count> small_;
  std::size_t small_cached_ = 0;
  std::size_t limit_ = std::size_t{1} << 30;
  const std::size_t machine_ = memory_of_machine();
  std::vector<std::unique_ptr<Shelves>> shelves_;
  MemoryStatistics statistics_;
};

Cache& cache() {
  // Never destroyed: tensors with static lifetime may outlive any order of destruction.
  static Cache* instance = new Cache;
  return *instance;
}

// This thread's shelves: none before its first tensor, none again once it ends.
constinit thread_local Shelves* own_shelves = nullptr;
constinit thread_local bool ending = false;

struct AtEndOfThread {
  ~AtEndOfThread() {
    ending = true;
    if (own_shelves) cache().close(std::exchange(own_shelves, nullptr));
  }
};

[[gnu::noinline]] Storage* take_slowly(std::size_t bytes) {
  if (!caching || bytes > large || ending || !shelves_allowed.load(std::memory_order_relaxed)) return cache().take(bytes);
  if (!own_shelves) {
    thread_local const AtEndOfThread closing;
    own_shelves = cache().open_shelves();
  }
  return cache().take(*own_shelves, size_class(bytes));
}

Storage* take(std::size_t bytes) {
  if (own_shelves && bytes <= large) {
    const SizeClass size = size_class(bytes);
    if (Shelf& shelf = own_shelves->of[size.index]; shelf.count() > 0) {
      own_shelves->subtract(size.capacity);
      return shelf.pick();
    }
  }
  return take_slowly(bytes);
}

[[gnu::noinline]] void give_slowly(Storage* storage) {
  cache().give(storage);
  if (own_shelves && !shelves_allowed.load(std::memory_order_relaxed)) cache().empty(*own_shelves);
}

[[gnu::noinline]] void relieve(std::size_t index) { cache().relieve(*own_shelves, index, own_shelves->of[index].count() / 2); }

void give(Storage* storage) {
  const std::size_t capacity = storage->capacity;
#ifdef SEQGRAD_DEBUG
  std::memset(storage->data, 0xFF, capacity);  // NaN in f32 and f64: a stale pointer shows
#endif
  if (!own_shelves || capacity > large || !shelves_allowed.load(std::memory_order_relaxed)) return give_slowly(storage);
  const std::size_t index = size_class(capacity).index;
  Shelf& shelf = own_shelves->of[index];
  shelf.put(storage);
  own_shelves->add(capacity);
  if (shelf.count() == Shelves::most(index)) relieve(index);
}

}  // namespace

// The device has a cache of its own (kernels/cuda.h).
static Storage* take_on_device(std::size_t bytes) {
  kernels::cuda::require();
  auto storage = std::make_unique<Storage>();
  storage->device = Device::cuda;
  storage->capacity = bytes;
  storage->data = kernels::cuda::allocate(bytes);
  return storage.release();
}

StorageRef::StorageRef(std::size_t bytes, Device device) {
  try {
    storage_ = device == Device::cpu ? take(bytes) : take_on_device(bytes);
  } catch (const NoBlock& none) {  // the message asks how much is in use, which takes the lock
    throw_error("{}", out_of_memory(none.capacity));
  }
  storage_->references.store(1, std::memory_order_relaxed);
}

void StorageRef::release(Storage* storage) {
  if (storage->device == Device::cpu) return give(storage);
  kernels::cuda::release(storage->data, storage->capacity);
  delete storage;
}

MemoryStatistics memory_statistics() { return cache().statistics(); }

void set_cache_limit(std::size_t bytes) {
  cache().set_limit(bytes);
  if (own_shelves && !shelves_allowed.load(std::memory_order_relaxed)) cache().empty(*own_shelves);
}

}  // namespace seqgrad
