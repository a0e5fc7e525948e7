#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "tools/program.h"

namespace seqgrad::tools {

void let_idle_threads_sleep(char** arguments) {
  for (const char* set : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
    if (std::getenv(set)) return;
  setenv("GOMP_SPINCOUNT", "1000", 1);  // g++'s runtime, in turns of its loop
  setenv("KMP_BLOCKTIME", "0", 1);      // clang's, in milliseconds
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return;
  path[length] = 0;
  execv(path, arguments);  // on failure this process simply goes on
}

}  // namespace seqgrad::tools
