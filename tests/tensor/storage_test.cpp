#include "tensor/storage.h"

#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "tensor/tensor.h"

using namespace seqgrad;

namespace {

// Under AddressSanitizer every tensor is an allocation of its own (storage.cpp).
#ifdef __SANITIZE_ADDRESS__
constexpr bool no_cache = true;
#else
constexpr bool no_cache = false;
#endif

// Gives the other tests their cache back.
struct CacheLimit {
  explicit CacheLimit(std::size_t bytes) { set_cache_limit(bytes); }
  ~CacheLimit() { set_cache_limit(std::size_t{512} << 20); }
};

void step(i64 scale) {
  std::vector<Tensor> kept;
  for (i64 n : {1, 5, 1000, 70000, 300000}) kept.push_back(zeros({n * scale}));
  kept.push_back(zeros({0}));
}

}  // namespace

TEST_CASE("a step that repeats asks the system for nothing" * doctest::skip(no_cache)) {
  step(1);
  const MemoryStatistics before = memory_statistics();
  for (int i = 0; i < 100; ++i) step(1);
  const MemoryStatistics after = memory_statistics();
  CHECK(after.system_calls == before.system_calls);
  CHECK(after.in_use == before.in_use);
  CHECK(after.cached == before.cached);
  CHECK(after.peak >= after.in_use + after.cached);
}

TEST_CASE("steps of varying shape share large blocks" * doctest::skip(no_cache)) {
  const CacheLimit limit(0);
  set_cache_limit(std::size_t{512} << 20);
  { const Tensor x({1000000}); }
  const std::size_t calls = memory_statistics().system_calls;
  for (i64 n = 1000000; n >= 700000; n -= 10000) const Tensor x({n});
  CHECK(memory_statistics().system_calls == calls);
}

TEST_CASE("the cache keeps to its limit" * doctest::skip(no_cache)) {
  const CacheLimit limit(0);
  CHECK(memory_statistics().cached == 0);
  const MemoryStatistics before = memory_statistics();
  step(1);
  CHECK(memory_statistics().cached == 0);
  CHECK(memory_statistics().system_calls == before.system_calls + 6);
  CHECK(memory_statistics().in_use == before.in_use);

  constexpr std::size_t bytes = 1 << 20;
  set_cache_limit(bytes);
  for (int i = 0; i < 3; ++i) {
    step(3);
    CHECK(memory_statistics().cached <= bytes);
    CHECK(memory_statistics().cached > 0);
  }
  set_cache_limit(1000);
  CHECK(memory_statistics().cached <= 1000);
}

TEST_CASE("memory in use is what tensors hold, once each") {
  const std::size_t before = memory_statistics().in_use;
  {
    const Tensor x({1024, 1024});
    const Tensor view = x.transpose(0, 1), copy = x;
    const std::size_t held = memory_statistics().in_use - before;
    CHECK(held >= 4 << 20);
    CHECK(held <= 6 << 20);
  }
  CHECK(memory_statistics().in_use == before);
}

TEST_CASE("blocks are aligned for vector instructions and large enough") {
  for (i64 n : {1, 15, 16, 17, 1000, 4097, 1 << 20, 3 << 20}) {
    const Tensor x = zeros({n}, DType::f64);
    CHECK(reinterpret_cast<std::uintptr_t>(x.data<double>()) % 64 == 0);
    x.mutable_data<double>()[n - 1] = 1;
    CHECK(x.at({n - 1}) == 1);
  }
}

TEST_CASE("threads may take and give at once") {
  const std::size_t before = memory_statistics().in_use;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) {
        const Tensor x = full({100 + i}, i);
        const Tensor y = x.clone();
        if (y.at({99}) != i) std::abort();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(memory_statistics().in_use == before);
}

TEST_CASE("tiny tensors, whose bookkeeping lies behind their data, keep apart") {
  std::vector<Tensor> all;
  for (i64 n = 0; n <= 17; ++n)
    for (int k = 0; k < 3; ++k) all.push_back(full({n}, static_cast<double>(all.size())));
  for (std::size_t i = 0; i < all.size(); ++i) {
    CAPTURE(i);
    for (const float value : all[i].to_vector<float>()) CHECK(value == static_cast<float>(i));
    const u32 version = all[i].version();
    for (const Tensor& other : all)
      if (!other.shares_memory_with(all[i])) other.fill(-1);
    CHECK(all[i].version() == version);
    for (std::size_t k = 0; k < all.size(); ++k) all[k].fill(static_cast<double>(k));
  }
}

TEST_CASE("a thread that ends leaves its cached blocks to the others" * doctest::skip(no_cache)) {
  std::thread([] { step(1); }).join();
  const MemoryStatistics before = memory_statistics();
  for (int i = 0; i < 20; ++i) std::thread([] { step(1); }).join();
  const MemoryStatistics after = memory_statistics();
  CHECK(after.system_calls == before.system_calls);
  CHECK(after.in_use == before.in_use);
  CHECK(after.cached == before.cached);
}

TEST_CASE("blocks may be given back by another thread than took them" * doctest::skip(no_cache)) {
  const std::size_t in_use = memory_statistics().in_use;
  std::size_t calls = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<Tensor> made;
    std::thread([&] {
      for (int i = 0; i < 1000; ++i) made.push_back(full({i % 100}, i));
    }).join();
    for (int i = 0; i < 1000; ++i)
      if (i % 100) CHECK(made[static_cast<std::size_t>(i)].at({0}) == i);
    made.clear();
    CHECK(memory_statistics().in_use == in_use);
    if (round == 1) calls = memory_statistics().system_calls;
  }
  // What lies on this thread's shelves is not for the next thread: a little, and no more with every round.
  CHECK(memory_statistics().system_calls <= calls + 1000);
}

TEST_CASE("a thread that outlives a limit keeps to it from its next block on" * doctest::skip(no_cache)) {
  const CacheLimit limit(std::size_t{512} << 20);
  std::optional<Tensor> last;
  std::atomic<int> stage{0};
  std::thread other([&] {
    for (int i = 0; i < 50; ++i) full({10}, i);
    last = full({10}, 1);
    stage = 1;
    while (stage != 2) std::this_thread::yield();
    last.reset();
    stage = 3;
    while (stage != 4) std::this_thread::yield();
  });
  while (stage != 1) std::this_thread::yield();
  set_cache_limit(0);
  stage = 2;
  while (stage != 3) std::this_thread::yield();
  CHECK(memory_statistics().cached == 0);
  stage = 4;
  other.join();
}

TEST_CASE("a tensor of a thread's last moments is freed as well") {
  const std::size_t in_use = memory_statistics().in_use;
  struct Keeper {
    std::optional<Tensor> kept;
    ~Keeper() {
      kept.reset();
      kept = full({5}, 2);  // taken when the thread's own cache may be gone
    }
  };
  std::thread([] {
    thread_local Keeper keeper;
    keeper.kept = full({3}, 1);
  }).join();
  CHECK(memory_statistics().in_use == in_use);
}
