// The subcommands: one function for each, in a source file of its name, that declares its options and what to do.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "kernels/types.h"

namespace seqgrad::tools {

void add_demo(CLI::App& program);
void add_train(CLI::App& program);
void add_translate(CLI::App& program);
void add_evaluate(CLI::App& program);
void add_bleu(CLI::App& program);
void add_check_gradients(CLI::App& check);
void add_check_parity(CLI::App& check);
void add_bench_train(CLI::App& bench);

// A subcommand with its example, which stands at the bottom of its --help.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description, const std::string& example);

// --threads and --device, where a command has no settings of its own. start() applies them.
struct Machine {
  i64 threads = 0;
  std::string device = "cpu";

  void add_options(CLI::App& command);
  void start() const;
};

// Error: "this build has no CUDA support: use --device cpu", or a device that does not exist.
void require_device(const std::string& device);

// Starts this program anew with OpenMP's threads told to sleep when they wait, unless the environment says how they should
// wait. By default they spin for milliseconds. While another program holds a core, every short loop then waits for a thread
// that does not run: training was up to seven times slower. The runtime reads its environment before main(), hence the new
// start.
void let_idle_threads_sleep(char** arguments);

}  // namespace seqgrad::tools
