// The one pool of threads.
#include "kernels/threads.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "kernels/kernels.h"

using namespace seqgrad;

namespace {

// Of n x n matrices of ones.
float product(i64 n) {
  const std::vector<float> a(static_cast<std::size_t>(n * n), 1), b = a;
  std::vector<float> c(a.size());
  kernels::cpu::gemm(false, false, n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n);
  return c.back();
}

// The exit status of a child that works by itself: 128 + SIGALRM where it hung.
template <class F>
int status_of_child(F&& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(work());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a process that is forked after a product computes on one thread, and so do its own children") {
  set_threads(4);
  REQUIRE(product(512) == 512);
  const auto compute = [] { return product(512) == 512 && threads() == 1 ? 0 : 1; };
  CHECK(status_of_child(compute) == 0);
  CHECK(status_of_child([&] {
          set_threads(4);
          return compute();
        }) == 0);
  CHECK(status_of_child([&] { return status_of_child(compute); }) == 0);
  CHECK(threads() == 4);
  CHECK(product(512) == 512);
  set_threads(0);
}
