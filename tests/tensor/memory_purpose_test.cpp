// What is said when there is no memory.
#include "tensor/memory_purpose.h"

#include <doctest/doctest.h>

#include <new>

#include "tensor/tensor.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

constexpr i64 too_much = i64{1} << 47;  // f32: half a petabyte

std::string complaint() {
  return message_of([] { Tensor({too_much}); });
}

std::string in_use() { return fmt::format("{} in use", memory_statistics().in_use); }

}  // namespace

TEST_CASE("more than the machine has is bad input, whatever the system would lend") {
  try {
    Tensor({too_much});
    FAIL("there was memory");
  } catch (const Error& error) {
    CHECK(error.exit_status() == 2);
    const std::string text = error.what();
    CHECK(text.starts_with("out of memory: "));
    CHECK(text.ends_with(" more bytes, with " + in_use()));
  }
  CHECK_NOTHROW(zeros({1000}));
}

TEST_CASE("the innermost purpose is named") {
  const MemoryPurpose outer("a training", "lower --hidden");
  CHECK(complaint().ends_with(" more bytes for a training, with " + in_use() + ": lower --hidden"));
  {
    const MemoryPurpose inner("a step", "lower --batch");
    CHECK(complaint().ends_with(" more bytes for a step, with " + in_use() + ": lower --batch"));
  }
  CHECK(complaint().ends_with(" more bytes for a training, with " + in_use() + ": lower --hidden"));
  CHECK(out_of_memory() == "out of memory for a training: lower --hidden");
}

TEST_CASE("an exception that is caught outside says the purpose that it ended") {
  const auto said_after = [](auto&& work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      return out_of_memory();
    }
    return std::string();
  };
  CHECK(said_after([] {
          const MemoryPurpose outer("a training", "lower --hidden");
          const MemoryPurpose inner("a step", "lower --batch");
          throw std::bad_alloc();
        }) == "out of memory for a step: lower --batch");
  CHECK(said_after([] {
          const MemoryPurpose outer("a training", "lower --hidden");
          { const MemoryPurpose inner("a step", "lower --batch"); }
          throw std::bad_alloc();
        }) == "out of memory for a training: lower --hidden");
}
