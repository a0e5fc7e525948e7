// SIGINT, SIGTERM and SIGHUP while work is done that wants to be finished: the first is noted, the second ends the program as
// ever. Those that the caller had told to ignore (nohup) stay ignored. One object at a time, on the main thread.
#pragma once

#include <array>
#include <csignal>

namespace seqgrad::tools {

class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  int signal() const;  // the one that came; 0: none

 private:
  static constexpr std::array<int, 3> signals_{SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, 3> before_;
};

}  // namespace seqgrad::tools
