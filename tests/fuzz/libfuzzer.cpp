// The program `fuzz`: fuzz TARGET, then libFuzzer's arguments.
#include <algorithm>
#include <cstdlib>

#include "tests/fuzz/target.h"

using namespace seqgrad::fuzz;

namespace {
Target chosen = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  char** const all = *arguments;
  const auto found = *count > 1 ? targets().find(all[1]) : targets().end();
  if (found == targets().end()) {
    for (const auto& [name, target] : targets()) fmt::print("{}\n", name);
    std::exit(*count > 1 ? 2 : 0);
  }
  chosen = found->second;
  // libFuzzer sees the rest. It reads the name of the program again where it starts others of itself.
  std::copy(all + 2, all + *count + 1, all + 1);
  --*count;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run(chosen, {reinterpret_cast<const char*>(data), size});
  return 0;
}
