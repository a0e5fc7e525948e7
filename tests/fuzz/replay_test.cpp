// The inputs that were found so far, on every target.
#include <doctest/doctest.h>

#include <filesystem>

#include "tensor/file.h"
#include "tests/fuzz/target.h"

using namespace seqgrad;

TEST_CASE("every reader answers every input of its corpus") {
  const std::filesystem::path corpus = SEQGRAD_SOURCE "/tests/fuzz/corpus";
  for (const auto& [target_name, target] : fuzz::targets()) {
    const std::string name = target_name;
    CAPTURE(name);
    int inputs = 0;
    for (const auto& entry : std::filesystem::directory_iterator(corpus / name)) {
      CAPTURE(entry.path());
      fuzz::run(target, read_file(entry.path().string()));
      ++inputs;
    }
    CHECK(inputs > 0);
  }
  CHECK(fuzz::targets().size() >= 11);
}

TEST_CASE("every reader answers what cannot be its file") {
  for (const auto& [target_name, target] : fuzz::targets())
    for (const std::string& bytes : {std::string(), std::string("\0", 1), std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}"),
                                     std::string("{\"\n"), std::string(100000, '['), std::string(100000, 'a')}) {
      const std::string name = target_name;
      CAPTURE(name);
      fuzz::run(target, bytes);
    }
}
