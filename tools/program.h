// What every program here does the same way: help, complaints of one line, exit statuses; the options of the machine.
// For one thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "kernels/types.h"

namespace seqgrad::tools {

// Thrown when a signal ended work that was brought to a good end: the message is said, and the exit status is 128 + signal.
struct Interrupted {
  int signal;
  std::string message;
};

// Parses the arguments, runs what they ask for, and turns every failure into one line and an exit status: 0, 1 where the work
// failed, 2 for bad usage or input and for more memory than there is. `declare` adds options and subcommands; version is what
// --version says.
int run_program(const std::string& name, const std::string& description, const std::string& version, int count,
                char** arguments, const std::function<void(CLI::App& program)>& declare);

// A subcommand with its example, which stands at the bottom of its --help.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description, const std::string& example);

// --threads and --device, where a command has no settings of its own. start() applies them.
struct Machine {
  i64 threads = 0;
  std::string device = "cpu";

  void add_options(CLI::App& command);
  void start() const;
};

// Makes it the default device. Errors: one that does not exist; "no CUDA device can be used: REASON; use --device cpu".
void require_device(const std::string& device);

// Starts this program anew with OpenMP's threads told to sleep when they wait, unless the environment says how they should
// wait. By default they spin for milliseconds. While another program holds a core, every short loop then waits for a thread
// that does not run: training was up to seven times slower. The runtime reads its environment before main(), hence the new
// start.
void let_idle_threads_sleep(char** arguments);

}  // namespace seqgrad::tools
