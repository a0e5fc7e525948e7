// Readers of what comes from anywhere, run on any bytes. An Error is a good answer, in one line; a crash, a sanitizer's report,
// a hang or more memory than the input pays for is a finding, which joins the corpus.
//
//   FUZZ_TARGET(vocabulary) { Vocabulary::load(input.path()); }
//
// ctest runs every target on tests/fuzz/corpus/TARGET; the preset `clang` makes of all targets one program for libFuzzer:
//   build/clang/tests/fuzz vocabulary found tests/fuzz/corpus/vocabulary -max_total_time=600
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "kernels/error.h"

namespace seqgrad::fuzz {

// The bytes, as a file that needs no disk.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes), descriptor_(::memfd_create("input", MFD_CLOEXEC)) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t put = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
      if (put <= 0) throw_failure("no memory for the input");
      done += static_cast<std::size_t>(put);
    }
  }
  ~Input() { ::close(descriptor_); }
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  std::string_view bytes() const { return bytes_; }
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  std::string_view bytes_;
  int descriptor_;
};

using Target = void (*)(const Input&);
std::map<std::string, Target>& targets();

struct Registered {
  Registered(const char* name, Target target) { targets().emplace(name, target); }
};

#define FUZZ_TARGET(name)                                                       \
  static void fuzz_##name(const seqgrad::fuzz::Input& input);                   \
  static const seqgrad::fuzz::Registered name##_registered(#name, fuzz_##name); \
  static void fuzz_##name([[maybe_unused]] const seqgrad::fuzz::Input& input)

// Something that must hold, in a release build too.
inline void require(bool holds, const char* what) {
  if (holds) return;
  fmt::print(stderr, "broken: {}\n", what);
  __builtin_trap();
}

// Runs the target. What an Error says must be one line.
inline void run(Target target, std::string_view bytes) {
  try {
    const Input input(bytes);
    target(input);
  } catch (const Error& error) {
    require(std::string_view(error.what()).find('\n') == std::string_view::npos, "an error is one line");
  }
}

}  // namespace seqgrad::fuzz
