#include "kernels/profile.h"

#include <chrono>
#include <functional>
#include <thread>

#include "tests/kernels/conformance.h"

namespace seqgrad::kernels::test {

using namespace std::chrono_literals;

static RoutineProfile recorded(const std::string& name, i64 m = 0) {
  for (const RoutineProfile& one : profile())
    if (one.name == name && one.product.m == m) return one;
  return {};
}

TEST_CASE("a profile counts calls, operations and bytes, of matrix products by shape") {
  const auto a = random<float>(12), b = random<float>(20);
  std::vector<float> c(15);
  const auto product = [&](i64 m, float beta) {
    gemm.run<float>(Device::cpu, false, true, m, 5, 4, 1.0f, a.data(), 4, b.data(), 4, beta, c.data(), 5);
  };
  product(3, 0);
  start_profile();
  product(3, 0);
  product(3, 1);
  product(2, 0);
  unary<Tanh>.run<float>(Device::cpu, a.data(), c.data(), 10);
  unary_backward<Tanh>.run<double>(Device::cpu, nullptr, nullptr, nullptr, nullptr, 0);
  stop_profile();
  product(3, 0);

  CHECK(profile().size() == 4);
  const RoutineProfile of_three = recorded("gemm", 3);
  CHECK(of_three.calls == 2);
  CHECK(of_three.product == ProductShape{3, 5, 4, 1, false, true});
  CHECK(of_three.flops == 2 * 2 * 3 * 5 * 4);
  CHECK(of_three.bytes == 4 * ((12 + 20 + 15) + (12 + 20 + 2 * 15)));
  CHECK(recorded("gemm", 2).calls == 1);
  CHECK(recorded("tanh").flops == 10);
  CHECK(recorded("tanh").bytes == 80);
  CHECK(recorded("tanh_backward").calls == 1);
  start_profile();
  stop_profile();
  CHECK(profile().empty());
}

TEST_CASE("an axis that repeats is read once") {
  const float bias[3] = {1, 2, 3};
  float y[12] = {};
  const i64 shape[] = {4, 3}, rows[] = {0, 1}, whole[] = {3, 1};
  start_profile();
  copy_strided.run<float>(Device::cpu, bias, rows, y, whole, shape, 2);
  add_strided.run<float>(Device::cpu, 1.0f, y, whole, y, rows, shape, 2);
  binary<Add>.run<float>(Device::cpu, y, whole, bias, rows, y, shape, 2);
  stop_profile();
  CHECK(recorded("copy_strided").bytes == 4 * (3 + 12));
  CHECK(recorded("add_strided").bytes == 4 * (12 + 2 * 3));
  CHECK(recorded("add").bytes == 4 * (12 + 3 + 12));
  CHECK(recorded("add").flops == 12);
}

// The clock on the wall is shared out: parts of it are never counted twice, whatever runs side by side.
static double seconds_of_all() {
  double sum = 0;
  for (const RoutineProfile& one : profile()) sum += one.seconds;
  return sum;
}
static double on_the_clock(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST_CASE("a routine within a routine takes its time from the outer one") {
  start_profile();
  const double passed = on_the_clock([] {
    const ProfileScope outer("outer", {});
    std::this_thread::sleep_for(5ms);
    {
      const ProfileScope inner("inner", {});
      std::this_thread::sleep_for(20ms);
    }
  });
  stop_profile();
  CHECK(recorded("inner").seconds >= 0.020);
  CHECK(recorded("outer").seconds >= 0.005);
  CHECK(seconds_of_all() <= passed);
}

TEST_CASE("routines side by side share the time that passes") {
  start_profile();
  const double passed = on_the_clock([] {
    const auto sleep = [](const char* name) {
      const ProfileScope scope(name, {});
      std::this_thread::sleep_for(20ms);
    };
    std::thread other(sleep, "one");
    sleep("two");
    other.join();
  });
  stop_profile();
  CHECK(recorded("one").calls == 1);
  CHECK(recorded("two").calls == 1);
  CHECK(seconds_of_all() >= 0.020);
  CHECK(seconds_of_all() <= passed);
}

TEST_CASE("what started before the profile or ends after it is not in it") {
  {
    stop_profile();
    const ProfileScope before("before", {});
    start_profile();
  }
  {
    const ProfileScope after("after", {});
    stop_profile();
  }
  CHECK(profile().empty());
}

}  // namespace seqgrad::kernels::test
