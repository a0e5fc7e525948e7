// Whole files in, whole files out. A file that is written here is at any instant either the old one or the new one,
// never a part: it is written under a temporary name, flushed to the disk and renamed.
// Errors: "cannot read NAME: REASON" is bad input, "cannot write NAME: REASON" a failure of the work; REASON is the system's.
// Thread-safe as long as no two threads share one AtomicFile; two writers of one name leave the file of the later commit.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace seqgrad {

// The whole content, in bytes as they stand in the file.
std::string read_file(const std::string& path);

// A file that is read in pieces, straight to where they belong. What tells no size (a pipe) is read whole at once.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::size_t size() const { return size_; }
  // Error where the file has become shorter than size().
  void read(std::size_t offset, void* to, std::size_t bytes) const;

 private:
  std::string path_;
  std::string content_;  // of a file that is read whole
  std::size_t size_ = 0;
  int descriptor_ = -1;
};

// Replaces the file or makes it; its folder must exist.
void write_file(const std::string& path, std::string_view content);

// Removes what killed processes left in the folder of files that they were writing (AtomicFile). Only for those who know that
// nobody is writing there now.
void remove_unfinished_files(const std::string& folder);

// A file that appears only with commit(). Without it the destructor leaves no trace.
// A symbolic link is followed; a device or a pipe (/dev/stdout) is written directly, for it cannot be replaced.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }

  // Flushes file and folder and gives the file its name; nothing can be written after it.
  void commit();

 private:
  void flush();
  [[noreturn]] void fail() const;  // says why, from errno

  std::string path_;       // as the caller named it, for messages
  std::string target_;     // what is replaced: path_, its links followed
  std::string temporary_;  // empty: target_ itself is being written
  std::string buffer_;
  int descriptor_ = -1;
};

}  // namespace seqgrad
