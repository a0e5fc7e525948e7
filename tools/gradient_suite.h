// The command line of a suite of gradient checks: its options, and running it as they say. Shared by `seqgrad check gradients`
// and every program that links seqgrad::gradcheck_main.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "autograd/cases.h"

namespace seqgrad::tools {

// Declares the options on a command and makes it run the suite on the cases that `collect` adds.
void make_gradient_suite(CLI::App& command, const std::function<void(Cases&)>& collect);

}  // namespace seqgrad::tools
