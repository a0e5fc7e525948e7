// Threads, barriers, warps and shared memory.
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "tests/cuda_emulation/cuda_runtime.h"
#include "tests/cuda_emulation/memory.h"

namespace emulation {

Place here;

namespace {

namespace context = boost::context;

constexpr unsigned warp_size = 32, most_threads = 1024;
constexpr std::size_t most_shared = 48 << 10;

std::uint64_t random_state = 0x9E3779B97F4A7C15;
std::uint64_t random_word() {  // xorshift64*
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * 0x2545F4914F6CDD1D;
}
std::size_t random_below(std::size_t n) { return static_cast<std::size_t>((random_word() >> 33) % n); }

// A fiber that runs one thread after another, until one of them waits.
struct Worker {
  context::fiber fiber, scheduler;
  sigjmp_buf start;
};

enum class State : std::uint8_t { running, at_barrier, in_warp, done };

struct Thread {
  State state = State::running;
  Line line{};  // where it waits
  Worker* worker = nullptr;
};

struct Warp {
  unsigned mask = 0, arrived = 0;
  std::uint64_t given[warp_size], all[warp_size];
};

struct Launch;
Launch* launch = nullptr;

// One launch: the block that runs, and the workers for all blocks.
struct Launch {
  Dim3 threads;
  void (*body)(void*) = nullptr;
  void* argument = nullptr;

  std::vector<Thread> all;
  std::vector<Warp> warps;
  std::vector<unsigned> ready;  // threads that have not begun or may go on, in any order
  unsigned current = 0;
  unsigned waiting = 0, finished = 0;  // at the barrier, for good
  std::string fault;
  const void* touched = nullptr;  // what a thread could not touch
  bool touched_to_write = false;

  Worker* active = nullptr;
  bool suspended = false;  // the worker that ran last, with a thread that waits in it
  std::vector<Worker*> idle;

  void run_block();
  void go_on(unsigned thread);
  void work();
  void wait(State state, Line line);
  void release_barrier();
  std::string name_of(unsigned thread) const {
    const unsigned x = thread % threads.x, y = thread / threads.x % threads.y, z = thread / threads.x / threads.y;
    return "thread (" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + ")";
  }
  [[noreturn]] void report_standstill() const;
};

std::string place_of(Line line) {
  const std::string file = line.file;
  return file.substr(file.find_last_of('/') + 1) + ":" + std::to_string(line.line);
}

std::vector<std::unique_ptr<Worker>> workers;
std::uint64_t block_number = 0;
Counts counted;

struct Shared {
  char* memory = fenced(most_shared);
  std::size_t bytes = 0;
};
Shared& shared() {
  static Shared one;
  return one;
}

// ---- faults of memory ----------------------------------------------------------------------------------------------------

void on_fault(int signal, siginfo_t* info, void* machine) {
  if (!launch || !launch->active) {  // not ours
    ::signal(signal, SIG_DFL);
    return;
  }
  launch->touched = info->si_addr;
  launch->touched_to_write = static_cast<ucontext_t*>(machine)->uc_mcontext.gregs[REG_ERR] & 2;
  siglongjmp(launch->active->start, 1);
}

// While kernels run, a fault belongs to the thread that caused it.
class Handler {
 public:
  Handler() {
    static char* const stack = fenced(std::size_t{64} << 10);
    stack_t alternative{};
    alternative.ss_sp = stack;
    alternative.ss_size = std::size_t{64} << 10;
    sigaltstack(&alternative, &old_stack_);
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &old_segv_);
    sigaction(SIGBUS, &action, &old_bus_);
  }
  ~Handler() {
    sigaction(SIGSEGV, &old_segv_, nullptr);
    sigaction(SIGBUS, &old_bus_, nullptr);
    sigaltstack(&old_stack_, nullptr);
  }
  Handler(const Handler&) = delete;

 private:
  stack_t old_stack_;
  struct sigaction old_segv_, old_bus_;
};

// ---- the scheduler ---------------------------------------------------------------------------------------------------------

void set_here(unsigned thread) {
  const Dim3& t = launch->threads;
  here.thread = {thread % t.x, thread / t.x % t.y, thread / t.x / t.y};
}

Worker* take_worker() {
  if (launch->idle.empty()) {
    workers.push_back(std::make_unique<Worker>());
    Worker* const one = workers.back().get();
    one->fiber = context::fiber(std::allocator_arg, context::protected_fixedsize_stack(std::size_t{64} << 10),
                                [one](context::fiber&& scheduler) {
                                  one->scheduler = std::move(scheduler);
                                  for (;;) {
                                    launch->work();
                                    one->scheduler = std::move(one->scheduler).resume();
                                  }
                                  return std::move(one->scheduler);
                                });
    return one;
  }
  Worker* const one = launch->idle.back();
  launch->idle.pop_back();
  return one;
}

// Runs in a worker: threads that have not begun, until one waits or a released one is picked.
void Launch::work() {
  Worker* const self = active;
  for (;;) {
    const unsigned mine = current;
    all[mine].worker = self;
    set_here(mine);
    if (sigsetjmp(self->start, 0) == 0) {
      body(argument);
    } else {
      fault = name_of(current) + (touched_to_write ? " writes " : " reads ") + describe(touched);
    }
    all[current].state = State::done;
    all[current].worker = nullptr;
    ++finished;
    suspended = false;
    if (!fault.empty() || ready.empty()) return;
    const std::size_t at = random_below(ready.size());
    const unsigned next = ready[at];
    if (all[next].worker) return;  // the scheduler's to resume
    ready[at] = ready.back();
    ready.pop_back();
    current = next;
  }
}

void Launch::wait(State state, Line line) {
  Thread& mine = all[current];
  const unsigned self = current;
  mine.state = state;
  mine.line = line;
  Worker* const worker = active;
  suspended = true;
  worker->scheduler = std::move(worker->scheduler).resume();
  mine.state = State::running;
  current = self;
  set_here(self);
}

void Launch::run_block() {
  const auto n = static_cast<unsigned>(threads.count());
  all.assign(n, {});
  warps.assign((n + warp_size - 1) / warp_size, {});
  ready.resize(n);
  for (unsigned i = 0; i < n; ++i) ready[i] = i;
  waiting = finished = 0;
  ++block_number;
  if (shared().bytes) std::memset(dynamic_shared(), poison, shared().bytes);
  while (finished < n) {
    if (ready.empty()) report_standstill();
    const std::size_t at = random_below(ready.size());
    current = ready[at];
    ready[at] = ready.back();
    ready.pop_back();
    Worker* const worker = all[current].worker ? all[current].worker : take_worker();
    active = worker;
    suspended = false;
    worker->fiber = std::move(worker->fiber).resume();
    active = nullptr;
    if (!suspended) idle.push_back(worker);
    if (!fault.empty()) throw Fault(fault);
  }
}

void Launch::report_standstill() const {
  for (unsigned i = 0; i < all.size(); ++i) {
    if (all[i].state == State::in_warp) {
      const Warp& warp = warps[i / warp_size];
      const unsigned missing = warp.mask & ~warp.arrived;
      const unsigned lane = static_cast<unsigned>(__builtin_ctz(missing ? missing : 1));
      throw Fault(name_of(i) + " waits at " + place_of(all[i].line) + " for lane " + std::to_string(lane) +
                  " of its warp, which " +
                  (all[i / warp_size * warp_size + lane].state == State::done ? "has left the kernel" : "waits elsewhere"));
    }
  }
  unsigned at_barrier = 0, gone = 0;
  for (unsigned i = 0; i < all.size(); ++i) {
    if (all[i].state == State::at_barrier) at_barrier = i;
    if (all[i].state == State::done) gone = i;
  }
  throw Fault(name_of(at_barrier) + " waits at the barrier in " + place_of(all[at_barrier].line) + ", but " + name_of(gone) +
              " has left the kernel");
}

void Launch::release_barrier() {
  const Line line = all[current].line;
  for (unsigned i = 0; i < all.size(); ++i)
    if (!(all[i].line == line)) {
      fault = "divergent barrier: " + name_of(current) + " waits in " + place_of(line) + ", " + name_of(i) + " in " +
              place_of(all[i].line);
      return;
    }
  for (unsigned i = 0; i < all.size(); ++i) ready.push_back(i);
  waiting = 0;
}

}  // namespace

void barrier(Line line) {
  Launch& l = *launch;
  ++counted.barriers;
  l.all[l.current].line = line;
  l.all[l.current].state = State::at_barrier;
  if (++l.waiting == l.all.size()) l.release_barrier();
  l.wait(State::at_barrier, line);
}

unsigned lane() { return launch->current % warp_size; }

const std::uint64_t* exchange(unsigned mask, std::uint64_t value, Line line) {
  Launch& l = *launch;
  const unsigned self = l.current, first = self / warp_size * warp_size, mine = self - first;
  Warp& warp = l.warps[self / warp_size];
  const auto in_warp = static_cast<unsigned>(std::min<std::size_t>(warp_size, l.all.size() - first));
  const unsigned existing = in_warp == 32 ? ~0u : (1u << in_warp) - 1;
  if (mask & ~existing && mask != ~0u)
    l.fault = l.name_of(self) + " names lanes in " + place_of(line) + " that its warp does not have";
  // A full mask in the last warp of a block is taken for the lanes that there are, as devices do.
  mask &= existing;
  if (!(mask >> mine & 1)) l.fault = l.name_of(self) + " is not in the mask of its own call in " + place_of(line);
  for (unsigned i = 0; i < in_warp; ++i)
    if (warp.arrived >> i & 1 && (warp.mask != mask || !(l.all[first + i].line == line)))
      l.fault = "divergent warp: " + l.name_of(self) + " is in " + place_of(line) + ", " + l.name_of(first + i) + " in " +
                place_of(l.all[first + i].line);
  warp.mask = mask;
  warp.arrived |= 1u << mine;
  warp.given[mine] = value;
  l.all[self].line = line;
  if (l.fault.empty() && warp.arrived == mask) {
    for (unsigned i = 0; i < warp_size; ++i) warp.all[i] = mask >> i & 1 ? warp.given[i] : ~std::uint64_t{0};
    warp.arrived = 0;
    for (unsigned i = 0; i < in_warp; ++i)
      if (mask >> i & 1) l.ready.push_back(first + i);
  }
  l.wait(State::in_warp, line);
  return warp.all;
}

SharedArray::SharedArray(std::size_t bytes) : bytes_(bytes), data_(fenced(bytes)) {}
void* SharedArray::get() {
  if (block_ != block_number) std::memset(data_, poison, bytes_);
  block_ = block_number;
  return data_;
}
void* dynamic_shared() { return shared().memory + most_shared - shared().bytes; }

void schedule(std::uint64_t seed) { random_state = (seed + 1) * 0x9E3779B97F4A7C15; }

Counts counts() {
  count_memory(counted);
  return counted;
}

void run(Dim3 blocks, Dim3 threads, std::size_t shared_bytes, const std::vector<std::vector<char>>& arguments,
         void (*body)(void*), void* argument) {
  OpenedFor memory(arguments);
  {
    const Handler handler;
    Launch one;
    one.threads = threads;
    one.body = body;
    one.argument = argument;
    for (const auto& worker : workers) one.idle.push_back(worker.get());
    shared().bytes = shared_bytes;
    here.threads = threads;
    here.blocks = blocks;
    struct Running {
      Running(Launch* l) { launch = l; }
      ~Running() { launch = nullptr; }
    } running(&one);
    std::vector<std::uint32_t> order(blocks.count());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_below(i)]);
    ++counted.launches;
    counted.threads += static_cast<std::int64_t>(blocks.count() * threads.count());
    try {
      for (const std::uint32_t block : order) {
        here.block = {block % blocks.x, block / blocks.x % blocks.y, block / blocks.x / blocks.y};
        one.run_block();
      }
    } catch (const Fault& fault) {
      workers.clear();  // with the threads that will never go on
      const Dim3& b = here.block;
      throw Fault("block (" + std::to_string(b.x) + ", " + std::to_string(b.y) + ", " + std::to_string(b.z) +
                  "): " + fault.what());
    }
  }
  memory.close();
}

}  // namespace emulation

cudaError_t emulation::check_launch(const cudaLaunchConfig_t& config) {
  const Dim3 &blocks = config.gridDim, &threads = config.blockDim;
  const bool fits = threads.count() >= 1 && threads.count() <= most_threads && threads.z <= 64 && blocks.count() >= 1 &&
                    blocks.x <= 0x7FFFFFFF && blocks.y <= 65535 && blocks.z <= 65535 && config.dynamicSmemBytes <= most_shared;
  return fits ? cudaSuccess : cudaErrorInvalidConfiguration;
}
