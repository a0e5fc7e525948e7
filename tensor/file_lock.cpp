#include "tensor/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "kernels/error.h"

namespace seqgrad {
namespace {

// What the holder wrote; it may not have come to that yet, or its disk was full.
std::string holder(int descriptor) {
  char text[256];
  const ssize_t size = ::pread(descriptor, text, sizeof text, 0);
  std::string found(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!found.empty() && (found.back() == '\n' || found.back() == '\0')) found.pop_back();
  for (const char c : found)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return "another process";
  return found.empty() ? "another process" : found;
}

}  // namespace

FileLock::FileLock(const std::string& folder, const char* name, const char* remedy) {
  const std::string path = (std::filesystem::path(folder) / name).string();
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) throw_failure("cannot write {}: {}", path, std::generic_category().message(errno));
  int taken = 0;
  do taken = ::flock(descriptor_, LOCK_EX | LOCK_NB);
  while (taken != 0 && errno == EINTR);
  if (taken != 0) {
    const bool held = errno == EWOULDBLOCK;
    const std::string who = held ? holder(descriptor_) : "";
    ::close(descriptor_);
    descriptor_ = -1;
    if (held) throw_error("{} is in use by {}: {}", folder, who, remedy);
    return;
  }
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::string text = fmt::format("process {} on {}\n", ::getpid(), host);
  // Who holds it is a courtesy: on a full disk the lock holds without.
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, text.data(), text.size(), 0) < 0) errno = 0;
}

FileLock::~FileLock() {
  if (descriptor_ < 0) return;
  if (::ftruncate(descriptor_, 0) != 0) errno = 0;
  ::close(descriptor_);
}

}  // namespace seqgrad
