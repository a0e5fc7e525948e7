#include "tools/interrupt.h"

namespace seqgrad::tools {
namespace {

volatile std::sig_atomic_t received = 0;

void note(int signal) { received = signal; }

}  // namespace

Interrupt::Interrupt() {
  received = 0;
  for (std::size_t i = 0; i < signals_.size(); ++i) {
    ::sigaction(signals_[i], nullptr, &before_[i]);
    if (before_[i].sa_handler == SIG_IGN) continue;
    struct sigaction once = {};
    once.sa_handler = note;
    once.sa_flags = SA_RESTART | SA_RESETHAND;
    ::sigemptyset(&once.sa_mask);
    ::sigaction(signals_[i], &once, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < signals_.size(); ++i) ::sigaction(signals_[i], &before_[i], nullptr);
}

int Interrupt::signal() const { return received; }

}  // namespace seqgrad::tools
