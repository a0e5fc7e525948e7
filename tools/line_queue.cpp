#include "tools/line_queue.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "seq2seq/text.h"

namespace seqgrad::tools {

struct LineQueue::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  bool ended = false;
  std::exception_ptr error;
};

LineQueue::LineQueue(std::size_t ahead) : shared_(std::make_shared<Shared>()) {
  // Not joined: a read that waits for a terminal cannot be called off, and the end of the program need not wait for it.
  std::thread([shared = shared_, ahead] {
    std::exception_ptr error;
    try {
      seq2seq::LineReader reader("-");
      for (std::string line; reader.next(line);) {
        std::unique_lock lock(shared->mutex);
        shared->changed.wait(lock, [&] { return shared->lines.size() < ahead; });
        shared->lines.push_back(std::move(line));
        shared->changed.notify_all();
      }
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(shared->mutex);
    shared->ended = true;
    shared->error = error;
    shared->changed.notify_all();
  }).detach();
}

bool LineQueue::take(std::vector<std::string>& lines, std::size_t most) {
  lines.clear();
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [&] { return !shared_->lines.empty() || shared_->ended; });
  while (!shared_->lines.empty() && lines.size() < most) {
    lines.push_back(std::move(shared_->lines.front()));
    shared_->lines.pop_front();
  }
  shared_->changed.notify_all();
  if (lines.empty() && shared_->error) std::rethrow_exception(shared_->error);
  return !lines.empty();
}

}  // namespace seqgrad::tools
