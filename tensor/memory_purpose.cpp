#include "tensor/memory_purpose.h"

#include <exception>
#include <utility>

#include "kernels/error.h"
#include "tensor/storage.h"

namespace seqgrad {
namespace {

constinit thread_local MemoryPurpose* innermost = nullptr;
// Of the innermost purpose that an exception has ended. Two fixed places: there may be no memory to keep more.
struct Ended {
  std::string what, remedy;
};
thread_local Ended ended;

}  // namespace

MemoryPurpose::MemoryPurpose(std::string what, std::string remedy)
    : what_(std::move(what)),
      remedy_(std::move(remedy)),
      outer_(std::exchange(innermost, this)),
      exceptions_(std::uncaught_exceptions()) {
  ended.what.clear();
}

MemoryPurpose::~MemoryPurpose() {
  innermost = outer_;
  if (std::uncaught_exceptions() == exceptions_ || !ended.what.empty()) return;
  ended.what.swap(what_);
  ended.remedy.swap(remedy_);
}

std::string out_of_memory(std::size_t bytes) {
  const std::string more = bytes > 0 ? fmt::format(": {} more bytes", bytes) : "";
  const std::string in_use = bytes > 0 ? fmt::format(", with {} in use", memory_statistics().in_use) : "";
  const bool now = innermost != nullptr;
  const std::string& what = now ? innermost->what_ : ended.what;
  if (what.empty()) return "out of memory" + more + in_use;
  return fmt::format("out of memory{} for {}{}: {}", more, what, in_use, now ? innermost->remedy_ : ended.remedy);
}

}  // namespace seqgrad
