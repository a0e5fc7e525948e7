// The program: its commands. What all programs share stands in tools/program.cpp.
#include "kernels/cuda.h"
#include "kernels/kernels.h"
#include "tools/commands.h"
#include "tools/console.h"

namespace seqgrad::tools {
namespace {

void declare_commands(CLI::App& program) {
  program.require_subcommand(1);
  program.footer("Example: seqgrad demo\n'seqgrad COMMAND --help' lists a command's options.");
  add_demo(program);
  add_train(program);
  add_translate(program);
  add_score(program);
  add_evaluate(program);
  add_average(program);
  add_bleu(program);
  add_chrf(program);
  CLI::App* check = add_command(program, "check", "check that results are right", "seqgrad check gradients");
  check->require_subcommand(1);
  add_check_gradients(*check);
  add_check_parity(*check);
  add_check_invariance(*check);
  CLI::App* show = add_command(program, "show", "show what a model is made of", "seqgrad show graph --out graph.svg");
  show->require_subcommand(1);
  add_show_model(*show);
  add_show_graph(*show);
  CLI::App* bench = add_command(program, "bench", "measure speed", "seqgrad bench train");
  bench->require_subcommand(1);
  add_bench_train(*bench);
  add_bench_decode(*bench);
  add_bench_kernels(*bench);
  add_experiment(program);
  add_study(program);
}

}  // namespace
}  // namespace seqgrad::tools

int main(int count, char** arguments) {
  const std::string version = fmt::format("seqgrad {} (CPU routines: {}; {})", SEQGRAD_VERSION, seqgrad::kernels::cpu_level(),
                                          seqgrad::kernels::cuda::built() ? "with CUDA" : "no CUDA");
  return seqgrad::tools::run_program(
      "seqgrad", "Trains attention translators, translates with them, and shows that the gradients are right.", version, count,
      arguments, seqgrad::tools::declare_commands);
}
