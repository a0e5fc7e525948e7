#include "kernels/profile.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

namespace seqgrad::kernels {
namespace {

using Clock = std::chrono::steady_clock;

struct Recorder {
  std::mutex mutex;
  // A clock that all threads inside routines share: it runs at 1 / threads of the real one.
  double shared_seconds = 0;
  Clock::time_point read = Clock::now();
  int threads = 0;

  u64 recording = 0;
  std::map<std::pair<std::string_view, ProductShape>, RoutineProfile> routines;

  double now() {
    const Clock::time_point time = Clock::now();
    if (threads > 0) shared_seconds += std::chrono::duration<double>(time - read).count() / threads;
    read = time;
    return shared_seconds;
  }
};

Recorder& recorder() {
  static Recorder* instance = new Recorder;  // threads may outlive static objects
  return *instance;
}

thread_local ProfileScope* innermost = nullptr;

}  // namespace

ProfileScope::ProfileScope(const char* routine, const Work& work)
    : routine_(routine), work_(work), around_(std::exchange(innermost, this)) {
  Recorder& all = recorder();
  std::lock_guard lock(all.mutex);
  start_ = all.now();
  recording_ = all.recording;
  if (!around_) ++all.threads;
}

ProfileScope::~ProfileScope() {
  Recorder& all = recorder();
  std::lock_guard lock(all.mutex);
  const double seconds = all.now() - start_;
  innermost = around_;
  if (around_)
    around_->inside_ += seconds;
  else
    --all.threads;
  if (recording_ != all.recording || !profiling()) return;
  RoutineProfile& mine = all.routines[{routine_, work_.product}];
  ++mine.calls;
  mine.seconds += seconds - inside_;
  mine.flops += work_.flops;
  mine.bytes += work_.bytes;
}

void start_profile() {
  Recorder& all = recorder();
  std::lock_guard lock(all.mutex);
  all.routines.clear();
  ++all.recording;
  profiling_is_on.store(true, std::memory_order_relaxed);
}

void stop_profile() { profiling_is_on.store(false, std::memory_order_relaxed); }

std::vector<RoutineProfile> profile() {
  Recorder& all = recorder();
  std::lock_guard lock(all.mutex);
  std::vector<RoutineProfile> routines;
  for (const auto& [key, recorded] : all.routines) {
    routines.push_back(recorded);
    routines.back().name = key.first;
    routines.back().product = key.second;
  }
  std::sort(routines.begin(), routines.end(),
            [](const RoutineProfile& a, const RoutineProfile& b) { return a.seconds > b.seconds; });
  return routines;
}

}  // namespace seqgrad::kernels
