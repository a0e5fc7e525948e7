// The subcommands: one function for each, in a source file of its name, that declares its options and what to do.
#pragma once

#include "tools/program.h"

namespace seqgrad::tools {

void add_demo(CLI::App& program);
void add_train(CLI::App& program);
void add_translate(CLI::App& program);
void add_score(CLI::App& program);
void add_evaluate(CLI::App& program);
void add_average(CLI::App& program);
void add_bleu(CLI::App& program);
void add_chrf(CLI::App& program);
void add_check_gradients(CLI::App& check);
void add_check_parity(CLI::App& check);
void add_check_invariance(CLI::App& check);
void add_show_model(CLI::App& show);
void add_show_graph(CLI::App& show);
void add_bench_train(CLI::App& bench);
void add_bench_decode(CLI::App& bench);
void add_bench_kernels(CLI::App& bench);
void add_experiment(CLI::App& program);
void add_study(CLI::App& program);

}  // namespace seqgrad::tools
