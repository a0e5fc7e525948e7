#include "tensor/file.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <iterator>

#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

int entries(const TemporaryFolder& folder) {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder.path), {}));
}

}  // namespace

TEST_CASE("a file is read as it stands") {
  TemporaryFolder folder;
  const std::string content("a\r\n\0\xff", 5);
  CHECK(read_file(folder.file("some", content)) == content);
  CHECK(read_file(folder.file("empty", "")).empty());
  CHECK(!read_file("/proc/self/status").empty());  // says it has 0 bytes
}

TEST_CASE("pieces of a file are read where they stand, and of a pipe too") {
  TemporaryFolder folder;
  const std::string path = folder.file("some", "0123456789");
  const auto piece = [](const InputFile& file, std::size_t offset, std::size_t bytes) {
    std::string content(bytes, '?');
    file.read(offset, content.data(), bytes);
    return content;
  };
  const InputFile file(path);
  CHECK(file.size() == 10);
  CHECK(piece(file, 7, 3) == "789");
  CHECK(piece(file, 0, 10) == "0123456789");
  CHECK(piece(file, 10, 0) == "");
  CHECK(message_of([&] { piece(file, 8, 3); }) == "cannot read " + path + ": 3 bytes from 8 on are beyond its end at 10");
  std::filesystem::resize_file(path, 5);
  CHECK(message_of([&] { piece(file, 4, 3); }) == "cannot read " + path + ": it became shorter while it was read");
  CHECK(InputFile(folder.file("empty", "")).size() == 0);
  CHECK(InputFile("/proc/self/status").size() > 0);  // says it has 0 bytes
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  REQUIRE(::write(ends[1], "abcdef", 6) == 6);
  ::close(ends[1]);
  CHECK(piece(InputFile(fmt::format("/dev/fd/{}", ends[0])), 2, 3) == "cde");
  ::close(ends[0]);
  const std::string missing = folder / "missing";
  CHECK(message_of([&] { InputFile{missing}; }) == "cannot read " + missing + ": No such file or directory");
}

TEST_CASE("what cannot be read is bad input and says why") {
  TemporaryFolder folder;
  const std::string missing = folder / "train.de";
  CHECK(message_of([&] { read_file(missing); }) == "cannot read " + missing + ": No such file or directory");
  CHECK(message_of([&] { read_file(folder.path); }) == "cannot read " + folder.path.string() + ": Is a directory");
  try {
    read_file(missing);
  } catch (const Error& error) {
    CHECK(error.exit_status() == 2);
  }
}

TEST_CASE("a file is written whole, and replaces the old one") {
  TemporaryFolder folder;
  const std::string path = folder / "out";
  write_file(path, "old");
  const std::string big(300000, 'x');
  {
    AtomicFile file(path);
    file.write(big);
    file.write("end", 3);
    CHECK(read_file(path) == "old");
    file.commit();
    CHECK(read_file(path) == big + "end");
    CHECK(message_of([&] { file.write("more"); }) == "cannot write " + path + ": it is already complete");
  }
  CHECK(read_file(path) == big + "end");
  CHECK(entries(folder) == 1);
}

TEST_CASE("a file without commit leaves the old one and no trace") {
  TemporaryFolder folder;
  const std::string path = folder.file("out", "old");
  {
    AtomicFile file(path);
    file.write(std::string(100000, 'x'));
    CHECK(entries(folder) == 2);
  }
  CHECK(read_file(path) == "old");
  CHECK(entries(folder) == 1);
}

TEST_CASE("two writers of one name do not mix") {
  TemporaryFolder folder;
  const std::string path = folder / "out";
  AtomicFile first(path), second(path);
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  CHECK(read_file(path) == "first");
  CHECK(entries(folder) == 1);
}

TEST_CASE("a link is followed, not replaced") {
  TemporaryFolder folder;
  const std::string path = folder.file("out", "old");
  std::filesystem::create_symlink("out", folder.path / "link");
  write_file(folder / "link", "new");
  CHECK(read_file(path) == "new");
  CHECK(std::filesystem::is_symlink(folder.path / "link"));
}

TEST_CASE("what cannot be written is a failure and says why") {
  TemporaryFolder folder;
  CHECK(message_of([&] { write_file(folder / "none/out", "x"); }) ==
        "cannot write " + (folder / "none/out") + ": No such file or directory");
  CHECK(message_of([&] { write_file(folder.path, "x"); }) == "cannot write " + folder.path.string() + ": Is a directory");
  try {
    write_file(folder.path, "x");
  } catch (const Error& error) {
    CHECK(error.exit_status() == 1);
  }
}

TEST_CASE("a full disk is noticed, at once or at the end") {
  REQUIRE(std::filesystem::is_character_file("/dev/full"));
  CHECK(message_of([] { write_file("/dev/full", "x"); }) == "cannot write /dev/full: No space left on device");
  AtomicFile file("/dev/full");
  CHECK(message_of([&] { file.write(std::string(1 << 20, 'x')); }) == "cannot write /dev/full: No space left on device");
  CHECK(std::filesystem::is_character_file("/dev/full"));
}

TEST_CASE("a write that breaks off midway leaves the old file and no trace") {
  TemporaryFolder folder;
  const std::string path = folder.file("out", "old");
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit limit{100000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = message_of([&] { write_file(path, std::string(200000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(message == "cannot write " + path + ": File too large");
  CHECK(read_file(path) == "old");
  CHECK(entries(folder) == 1);
}

TEST_CASE("a device is written directly") {
  CHECK_NOTHROW(write_file("/dev/null", "x"));
  CHECK(std::filesystem::is_character_file("/dev/null"));
}

TEST_CASE("what a killed process left of its files is removed, and nothing else") {
  TemporaryFolder folder;
  for (const char* name : {"a.tmp-12-0", "model.safetensors.tmp-99999-17"}) folder.file(name, "x");
  for (const char* name :
       {"a", "a.tmp", ".tmp-12-0", "a.tmp-12", "a.tmp-12-", "a.tmp--0", "a.tmp-1-2-3", "a.tmp-1x-0", "tmp-12-0"})
    folder.file(name, "x");
  remove_unfinished_files(folder.path.string());
  CHECK(entries(folder) == 9);
  CHECK_FALSE(std::filesystem::exists(folder / "a.tmp-12-0"));
  remove_unfinished_files(folder / "none");
}
