#include "tools/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <system_error>

#include "kernels/error.h"

namespace seqgrad::tools {
namespace {

constexpr std::size_t buffer_bytes = 1 << 16;
std::string results;

// The number of bytes written; fewer than all of them with errno set.
std::size_t write_all(int descriptor, std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t put = ::write(descriptor, text.data() + done, text.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) break;
    done += static_cast<std::size_t>(put);
  }
  return done;
}

}  // namespace

void flush_results() {
  const std::string text = std::exchange(results, {});
  if (write_all(STDOUT_FILENO, text) == text.size()) return;
  if (errno == EPIPE) throw OutputClosed();
  throw_failure("cannot write to the standard output: {}", std::generic_category().message(errno));
}

void write_result(std::string_view text) {
  results += text;
  if (results.size() >= buffer_bytes) flush_results();
}

void write_remark(std::string_view text) { write_all(STDERR_FILENO, text); }

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

int terminal_width(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (!value || !*value) continue;
    const std::string_view locale = value;
    for (const char* spelling : {"UTF-8", "utf-8", "UTF8", "utf8"})
      if (locale.find(spelling) != locale.npos) return true;
    return false;
  }
  return false;
}

void prepare_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0) ::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  std::signal(SIGPIPE, SIG_IGN);
}

}  // namespace seqgrad::tools
