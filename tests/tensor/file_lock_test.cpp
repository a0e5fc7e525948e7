// One holder at a time, whatever became of the one before.
#include "tensor/file_lock.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

std::string who(pid_t pid) {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("process {} on {}", pid, host);
}

}  // namespace

TEST_CASE("a lock is held once, and says by whom") {
  const TemporaryFolder folder;
  const std::string path = folder.path.string();
  std::optional<FileLock> first;
  first.emplace(path, "lock", "wait");
  const std::string refused = path + " is in use by " + who(::getpid()) + ": wait";
  CHECK(message_of([&] { FileLock(path, "lock", "wait"); }) == refused);
  CHECK(message_of([&] { FileLock(path, "lock", "wait"); }) == refused);  // the refusal takes nothing away
  FileLock other(path, "other", "wait");
  first.reset();
  CHECK(read_file(folder / "lock").empty());
  CHECK(message_of([&] { FileLock(path, "lock", "wait"); }) == "");
}

TEST_CASE("a lock whose holder was killed is free, whatever stands in its file") {
  const TemporaryFolder folder;
  const std::string path = folder.path.string();
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const FileLock lock(path, "lock", "wait");
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  char byte;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(message_of([&] { FileLock(path, "lock", "wait"); }) == path + " is in use by " + who(child) + ": wait");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(read_file(folder / "lock") == who(child) + "\n");
  CHECK(message_of([&] { FileLock(path, "lock", "wait"); }) == "");
  for (const int descriptor : ready) ::close(descriptor);
}

TEST_CASE("a holder that has no name, or an odd one, is another process") {
  const TemporaryFolder folder;
  const std::string path = folder.path.string();
  const FileLock lock(path, "lock", "wait");
  for (const char* text : {"", "\n", "a\x1b[31mb\n", "two\nlines\n"}) {
    folder.file("lock", text);
    CHECK(message_of([&] { FileLock(path, "lock", "wait"); }) == path + " is in use by another process: wait");
  }
}

TEST_CASE("a lock that cannot be made is a failure") {
  const TemporaryFolder folder;
  CHECK(message_of([&] { FileLock(folder / "none", "lock", "wait"); }) ==
        "cannot write " + folder / "none/lock" + ": No such file or directory");
}
