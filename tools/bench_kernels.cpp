#include <fnmatch.h>

#include <nlohmann/json.hpp>

#include "kernels/bf16.h"
#include "kernels/error.h"
#include "kernels/kernels.h"
#include "kernels/measure.h"
#include "kernels/threads.h"
#include "seq2seq/benchmark_kernels.h"
#include "seq2seq/benchmark_tape.h"
#include "tools/commands.h"
#include "tools/console.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;
using Json = nlohmann::ordered_json;

struct BenchKernels {
  Machine machine;
  std::string filter = "*";
  bool json = false;

  void run();

 private:
  bool wanted(const std::string& name) const { return ::fnmatch(filter.c_str(), name.c_str(), 0) == 0; }
  void say(const std::string& text) const;
  void measure_routines();
  void measure_products();
  void measure_small_products();
  void measure_tape();

  std::vector<std::string> levels_;
  MachineLimits limits_;
  Json result_;
  bool found_ = false;
};

// "1.2 us", in seven places
std::string time_of(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:6.1f} us", 1e6 * seconds);
  return fmt::format("{:6.1f} ms", 1e3 * seconds);
}

std::string shape_of(const kernels::ProductShape& s) {
  return fmt::format("{}x{}x{} {}{}", s.m, s.n, s.k, s.transpose_a ? 't' : 'n', s.transpose_b ? 't' : 'n');
}

double operations(const kernels::ProductShape& s) {
  return 2 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

void BenchKernels::say(const std::string& text) const {
  if (json) return;
  write_result(text);
  flush_results();
}

void BenchKernels::measure_routines() {
  const auto is_wanted = [&](const std::string& name) { return wanted(name); };
  bool first = true;
  Json rows = Json::array();
  bench_routines(is_wanted, [&](const RoutineSpeed& one) {
    if (first) {
      std::string head = fmt::format("\n{:24} {:42}", "routine", "shape");
      for (const std::string& level : levels_) head += fmt::format(" {:>9}", level);
      say(head + "      GB/s  of copy   GFLOP/s  of peak\n");
    }
    first = false;
    found_ = true;
    std::string line = fmt::format("{:24} {:42}", one.routine, one.shape);
    Json seconds;
    for (const std::string& level : levels_) {
      const auto known = one.seconds.find(level);
      line += " " + (known == one.seconds.end() ? std::string(9, ' ') : time_of(known->second));
      if (known != one.seconds.end()) seconds[level] = known->second;
    }
    const double chosen = one.seconds.at(kernels::cpu_level()), rate = 1e-9 * one.work.bytes / chosen,
                 gflops = 1e-9 * one.work.flops / chosen;
    say(fmt::format("{}  {:8.1f} {:8.2f}  {:8.1f} {:8.2f}\n", line, rate, rate / limits_.copy_gigabytes_per_second, gflops,
                    gflops / limits_.gemm_gflops));
    rows.push_back({{"routine", one.routine},
                    {"shape", one.shape},
                    {"seconds", seconds},
                    {"flops", one.work.flops},
                    {"bytes", one.work.bytes},
                    {"gigabytes_per_second", rate},
                    {"share_of_copy_rate", rate / limits_.copy_gigabytes_per_second},
                    {"gflops", gflops},
                    {"share_of_peak", gflops / limits_.gemm_gflops}});
  });
  result_["routines"] = rows;
}

void BenchKernels::measure_products() {
  found_ = true;
  std::string head = fmt::format("\n{:22} {:>6}", "product, m x n x k", "calls");
  for (const std::string& level : levels_) head += fmt::format(" {:>9}", level);
  say(head + "  OpenBLAS   GFLOP/s  of peak  of OpenBLAS  chosen\n");
  Json rows = Json::array();
  std::vector<ProductSpeed> products = training_products();
  for (ProductSpeed& one : products) {
    bench_product(one);
    std::string line = fmt::format("{:22} {:6.0f}", shape_of(one.shape), one.calls);
    Json seconds;
    for (const std::string& level : levels_) {
      const auto known = one.seconds.find(level);
      line += " " + (known == one.seconds.end() ? std::string(9, ' ') : time_of(known->second));
      if (known != one.seconds.end()) seconds[level] = known->second;
    }
    const auto known = one.seconds.find(kernels::cpu_level());
    const double chosen = known == one.seconds.end() ? 0 : known->second;
    const double gflops = chosen > 0 ? 1e-9 * operations(one.shape) / chosen : 0;
    const double against = chosen > 0 ? one.openblas_seconds / chosen : 0;
    say(fmt::format("{} {} {:9.1f} {:8.2f} {:12.2f}  {}\n", line, time_of(one.openblas_seconds), gflops,
                    gflops / limits_.gemm_gflops, against, one.way));
    rows.push_back({{"m", one.shape.m},
                    {"n", one.shape.n},
                    {"k", one.shape.k},
                    {"transpose_a", one.shape.transpose_a},
                    {"transpose_b", one.shape.transpose_b},
                    {"calls", one.calls},
                    {"seconds", seconds},
                    {"openblas_seconds", one.openblas_seconds},
                    {"gflops", gflops},
                    {"share_of_peak", gflops / limits_.gemm_gflops},
                    {"speed_against_openblas", against},
                    {"chosen", one.way},
                    {"bf16_seconds", one.bf16_seconds},
                    {"bf16_laid_out_seconds", one.laid_out_seconds > 0 ? Json(one.laid_out_seconds) : Json()},
                    {"f32_error", one.f32_error},
                    {"bf16_error", one.bf16_error}});
  }
  result_["products"] = rows;
  say(fmt::format("\n{:22} {:>9}   GFLOP/s  of f32  of OpenBLAS  error  f32's error  GFLOP/s with b laid out before\n",
                  "operands in bf16", ""));
  for (const ProductSpeed& one : products) {
    const auto f32 = one.seconds.find(kernels::cpu_level());
    const double gflop = 1e-9 * operations(one.shape);
    say(fmt::format("{:22} {} {:9.1f} {:7.2f} {:12.2f}  {:.0e}  {:.0e} {:>17}\n", shape_of(one.shape),
                    time_of(one.bf16_seconds), gflop / one.bf16_seconds,
                    f32 == one.seconds.end() ? 0 : f32->second / one.bf16_seconds, one.openblas_seconds / one.bf16_seconds,
                    one.bf16_error, one.f32_error,
                    one.laid_out_seconds > 0 ? fmt::format("{:.1f}", gflop / one.laid_out_seconds) : "-"));
  }
}

void BenchKernels::measure_small_products() {
  say(fmt::format("\n{:22} {:>9} {:>9}  times as fast\n", "small product", "1 thread", fmt::format("{} threads", threads())));
  Json rows = Json::array();
  for (const SmallProduct& one : bench_small_products()) {
    const double speedup = one.one_seconds / one.all_seconds;
    say(fmt::format("{:22} {} {} {:8.2f}  {}\n", shape_of(one.shape), time_of(one.one_seconds), time_of(one.all_seconds),
                    speedup,
                    kernels::gemm_way(kernels::cpu_level(), one.shape.transpose_a, one.shape.transpose_b, one.shape.m,
                                      one.shape.n, one.shape.k)));
    rows.push_back({{"shape", shape_of(one.shape)},
                    {"seconds_on_one", one.one_seconds},
                    {"seconds_on_all", one.all_seconds},
                    {"speedup", speedup}});
  }
  result_["small_products"] = rows;
}

void BenchKernels::measure_tape() {
  found_ = true;
  const TapeBenchmark plain = bench_tape(TapeChain::alternating), mixed = bench_tape(TapeChain::mixed);
  const auto print_chain = [&](const char* what, const TapeBenchmark& one) {
    say(fmt::format("  {:30} {:6.3f} {:9.3f} {:13.0f}\n", what, one.forward_us, one.backward_us, one.nodes_per_second));
  };
  say(fmt::format("\n{:32} {:>6} {:>9} {:>13}\n", "tape, us a node", "forward", "backward", "nodes/s"));
  print_chain("products and sums in turn", plain);
  print_chain("functions, views and others too", mixed);
  result_["tape_nodes_per_second"] = plain.nodes_per_second;
  result_["tape_forward_us"] = plain.forward_us;
  result_["tape_backward_us"] = plain.backward_us;
  result_["tape_mixed_nodes_per_second"] = mixed.nodes_per_second;
  result_["tape_mixed_forward_us"] = mixed.forward_us;
  result_["tape_mixed_backward_us"] = mixed.backward_us;
}

void BenchKernels::run() {
  machine.start();
  levels_ = kernels::cpu_levels();
  limits_ = machine_limits();
  const std::string openblas = kernels::openblas_name(), reason = kernels::cpu_level_reason();
  result_ = {{"threads", threads()},
             {"cpu_level", kernels::cpu_level()},
             {"cpu_level_reason", reason},
             {"openblas", openblas},
             {"peak_gflops", limits_.gemm_gflops},
             {"openblas_gflops", limits_.openblas_gflops},
             {"bf16_gflops", limits_.bf16_gflops},
             {"bf16", kernels::bf16_way_name()},
             {"bf16_reason", kernels::bf16_way_reason()},
             {"arithmetic_gflops", limits_.arithmetic_gflops},
             {"copy_gigabytes_per_second", limits_.copy_gigabytes_per_second}};
  say(fmt::format("routines           {}: {}\n", kernels::cpu_level(), reason));
  say(fmt::format("threads            {}\n", threads()));
  say(fmt::format("arithmetic         {:.1f} GFLOP/s, multiplying and adding in registers\n", limits_.arithmetic_gflops));
  say(fmt::format("matrix products    {:.1f} GFLOP/s on large ones, here the peak; {} {:.1f}\n", limits_.gemm_gflops, openblas,
                  limits_.openblas_gflops));
  say(fmt::format("in bf16            {:.1f} GFLOP/s by {}: {}\n", limits_.bf16_gflops, kernels::bf16_way_name(),
                  kernels::bf16_way_reason()));
  say(fmt::format("memory             {:.1f} GB/s copied\n", limits_.copy_gigabytes_per_second));
  measure_routines();
  if (wanted("gemm")) {
    measure_products();
    measure_small_products();
  }
  if (wanted("tape")) measure_tape();
  if (!found_) throw_error("no routine matches --filter '{}': 'seqgrad bench kernels' lists all of them", filter);
  if (json) print("{}\n", result_.dump());
}

}  // namespace

void add_bench_kernels(CLI::App& bench) {
  CLI::App* command = add_command(bench, "kernels", "speed of every routine: each CPU level, OpenBLAS, threads, the tape",
                                  "seqgrad bench kernels --filter '*_gates*'");
  auto options = std::make_shared<BenchKernels>();
  command->add_option("--filter", options->filter, "only routines whose name matches; gemm: products, tape: the tape")
      ->type_name("GLOB")
      ->capture_default_str();
  command->add_flag("--json", options->json, "write the result as JSON");
  options->machine.add_options(*command);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
