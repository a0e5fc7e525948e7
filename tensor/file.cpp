#include "tensor/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "kernels/error.h"

namespace seqgrad {
namespace {

constexpr std::size_t buffer_bytes = 1 << 16;

// strerror is not thread-safe.
std::string reason() { return std::generic_category().message(errno); }

[[noreturn]] void cannot_read(const std::string& path) { throw_error("cannot read {}: {}", path, reason()); }

}  // namespace

std::string read_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) cannot_read(path);
  struct Closer {
    int descriptor;
    ~Closer() { ::close(descriptor); }
  } closer{descriptor};

  // The size is only a hint: pipes and /proc say 0, and a file may grow.
  struct stat status;
  if (::fstat(descriptor, &status) != 0) cannot_read(path);
  std::string content(static_cast<std::size_t>(status.st_size) + 1, '\0');
  std::size_t used = 0;
  for (;;) {
    if (used == content.size()) content.resize(2 * content.size());
    const ssize_t got = ::read(descriptor, content.data() + used, content.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot_read(path);
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  content.resize(used);
  return content;
}

InputFile::InputFile(const std::string& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) cannot_read(path);
  struct stat status;
  if (::fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    return;
  }
  ::close(descriptor_);
  descriptor_ = -1;
  content_ = read_file(path);
  size_ = content_.size();
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read(std::size_t offset, void* to, std::size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset)
    throw_error("cannot read {}: {} bytes from {} on are beyond its end at {}", path_, bytes, offset, size_);
  if (descriptor_ < 0) {
    if (bytes > 0) std::memcpy(to, content_.data() + offset, bytes);
    return;
  }
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t got = ::pread(descriptor_, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) cannot_read(path_);
    if (got == 0) throw_error("cannot read {}: it became shorter while it was read", path_);
    done += static_cast<std::size_t>(got);
  }
}

void write_file(const std::string& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

namespace {

// "model.safetensors.tmp-1234-0"
constexpr const char* unfinished_mark = ".tmp-";

bool is_unfinished(const std::string& name) {
  const std::size_t at = name.rfind(unfinished_mark);
  if (at == name.npos || at == 0) return false;
  const std::string numbers = name.substr(at + std::char_traits<char>::length(unfinished_mark));
  const std::size_t dash = numbers.find('-');
  return dash != 0 && dash != numbers.npos && dash + 1 < numbers.size() &&
         numbers.find_first_not_of("0123456789-") == numbers.npos && numbers.find('-', dash + 1) == numbers.npos;
}

}  // namespace

void remove_unfinished_files(const std::string& folder) {
  std::error_code error, ignored;  // a file too many does no harm
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (is_unfinished(entry->path().filename().string())) std::filesystem::remove(entry->path(), ignored);
}

AtomicFile::AtomicFile(const std::string& path) : path_(path), target_(path) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(path, ignored)) target_ = std::filesystem::weakly_canonical(path, ignored).string();
  if (target_.empty()) target_ = path;

  struct stat status;
  const bool exists = ::stat(target_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    errno = EISDIR;
    fail();
  }
  if (exists && !S_ISREG(status.st_mode)) {
    descriptor_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail();
    return;
  }
  // A number beside the process id, since a killed process may have left a file of the same id behind.
  for (int number = 0; descriptor_ < 0; ++number) {
    temporary_ = fmt::format("{}{}{}-{}", target_, unfinished_mark, ::getpid(), number);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) {
      temporary_.clear();
      fail();
    }
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail() const { throw_failure("cannot write {}: {}", path_, reason()); }

void AtomicFile::write(const void* data, std::size_t bytes) {
  if (descriptor_ < 0) throw_failure("cannot write {}: it is already complete", path_);
  buffer_.append(static_cast<const char*>(data), bytes);
  if (buffer_.size() >= buffer_bytes) flush();
}

void AtomicFile::flush() {
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t put = ::write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail();
    done += static_cast<std::size_t>(put);
  }
  buffer_.clear();
}

void AtomicFile::commit() {
  if (descriptor_ < 0) throw_failure("cannot write {}: it is already complete", path_);
  flush();
  // A terminal or a pipe cannot be flushed to a disk.
  if (!temporary_.empty() && ::fsync(descriptor_) != 0) fail();
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0) fail();
  if (temporary_.empty()) return;

  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail();
  temporary_.clear();
  // The new name must reach the disk too. Some network file systems have no flush for folders (EINVAL).
  const std::filesystem::path folder = std::filesystem::path(target_).parent_path();
  const int folder_descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_descriptor < 0) {
    if (errno == EACCES) return;  // a folder that may be written but not listed
    fail();
  }
  const bool flushed = ::fsync(folder_descriptor) == 0 || errno == EINVAL;
  const int error = errno;
  ::close(folder_descriptor);
  if (!flushed) {
    errno = error;
    fail();
  }
}

}  // namespace seqgrad
