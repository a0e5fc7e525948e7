#include "tools/graphviz.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include "kernels/error.h"

extern char** environ;

namespace seqgrad::tools {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

// A file without a name, gone when it is closed.
File scratch_file() {
  File file(std::tmpfile());
  if (!file) throw_failure("cannot make a temporary file for Graphviz");
  return file;
}

}  // namespace

std::optional<std::string> draw_svg(const std::string& dot) {
  const File in = scratch_file(), out = scratch_file();
  if (std::fwrite(dot.data(), 1, dot.size(), in.get()) != dot.size() || std::fflush(in.get()) != 0)
    throw_failure("cannot write a temporary file for Graphviz");
  std::rewind(in.get());

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(in.get()), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ::fileno(out.get()), STDOUT_FILENO);
  std::string name = "dot", option = "-Tsvg";
  char* arguments[] = {name.data(), option.data(), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, "dot", &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return std::nullopt;
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) return std::nullopt;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw_failure("Graphviz's 'dot' failed to draw the graph");

  std::rewind(out.get());
  std::string svg;
  char part[4096];
  for (std::size_t count; (count = std::fread(part, 1, sizeof part, out.get())) > 0;) svg.append(part, count);
  return svg;
}

}  // namespace seqgrad::tools
