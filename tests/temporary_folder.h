// A folder for the files of one test, removed with all that is in it.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "kernels/error.h"

struct TemporaryFolder {
  std::filesystem::path path;

  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "seqgrad-test-XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }

  std::string operator/(const std::string& name) const { return (path / name).string(); }

  // Writes a file and gives its path.
  std::string file(const std::string& name, std::string_view content) const {
    std::ofstream(path / name, std::ios::binary) << content;
    return *this / name;
  }
};

// The message of the Error that `work` throws; "" if it throws none.
template <class Work>
std::string message_of(Work&& work) {
  try {
    work();
  } catch (const seqgrad::Error& error) {
    return error.what();
  }
  return "";
}
