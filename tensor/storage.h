// Reference-counted memory behind tensors, from a bounded cache: in the steady state of a training loop no step asks the
// system for memory, so no step pays page faults; small blocks come from shelves of the thread's own, so no step waits for a
// lock either. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

#include "kernels/types.h"

namespace seqgrad {

struct Storage {
  std::atomic<u32> references{0};
  u32 version = 0;  // counts the writes, so that a backward notices an overwritten tensor
  Device device = Device::cpu;
  std::size_t capacity = 0;  // bytes at data
  void* data = nullptr;

  // True where this was the last reference. Nobody can copy a reference that only the caller holds, so a count of one needs
  // no atomic subtraction.
  bool drop_reference() {
    return references.load(std::memory_order_acquire) == 1 || references.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
};

class StorageRef {
 public:
  StorageRef() = default;
  StorageRef(std::size_t bytes, Device device);
  StorageRef(const StorageRef& other) : storage_(other.storage_) {
    if (storage_) storage_->references.fetch_add(1, std::memory_order_relaxed);
  }
  StorageRef(StorageRef&& other) noexcept : storage_(std::exchange(other.storage_, nullptr)) {}
  StorageRef& operator=(StorageRef other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~StorageRef() {
    if (storage_ && storage_->drop_reference()) release(storage_);
  }

  Storage* operator->() const { return storage_; }
  explicit operator bool() const { return storage_ != nullptr; }
  bool operator==(const StorageRef& other) const { return storage_ == other.storage_; }
  bool unique() const { return storage_ && storage_->references.load(std::memory_order_acquire) == 1; }

 private:
  static void release(Storage* storage);
  Storage* storage_ = nullptr;
};

struct MemoryStatistics {
  std::size_t in_use = 0;        // bytes held by tensors
  std::size_t cached = 0;        // bytes kept for the next tensor
  std::size_t peak = 0;          // largest in_use + cached so far
  std::size_t system_calls = 0;  // how often memory came that the process did not hold before
};
MemoryStatistics memory_statistics();

// Blocks beyond this many cached bytes go back to the system (default 1 GiB). 0 returns everything at once, but what other
// threads have on their shelves only when they next give a block back, or end.
void set_cache_limit(std::size_t bytes);

}  // namespace seqgrad
