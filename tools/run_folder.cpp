#include "tools/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "kernels/error.h"
#include "seq2seq/run.h"
#include "tensor/file.h"

namespace seqgrad::tools {

bool holds_run(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(seq2seq::path_in(folder, "config.toml"), ignored);
}

void check_writable(const std::string& folder) {
  if (folder.empty()) throw_error("the folder to write to has no name");
  // The folder itself, or the nearest one above it that exists.
  std::filesystem::path path = folder;
  std::error_code error;
  while (!std::filesystem::exists(path, error) && !error) {
    const std::filesystem::path above = path.parent_path();
    path = above.empty() || above == path ? std::filesystem::path(".") : above;
  }
  if (!error && !std::filesystem::is_directory(path, error) && !error) error = std::make_error_code(std::errc::not_a_directory);
  if (!error && ::access(path.c_str(), W_OK | X_OK) != 0) error = {errno, std::generic_category()};
  if (error) throw_error("cannot write to the folder {}: {}", folder, std::generic_category().message(error.value()));
}

std::unique_ptr<FileLock> lock_run(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_failure("cannot make the folder {}: {}", folder, std::generic_category().message(error.value()));
  auto lock = std::make_unique<FileLock>(folder, "lock", "wait for its end, or choose another --out");
  for (const std::filesystem::path& path : {std::filesystem::path(folder), std::filesystem::path(folder) / "kept"})
    remove_unfinished_files(path.string());
  return lock;
}

std::unique_ptr<FileLock> lock_if_free(const std::string& folder) {
  try {
    return lock_run(folder);
  } catch (const Error& error) {
    if (error.exit_status() != 2) throw;  // a failure: the folder cannot be written to
    return nullptr;
  }
}

}  // namespace seqgrad::tools
