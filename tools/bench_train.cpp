#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "kernels/threads.h"
#include "seq2seq/benchmark.h"
#include "seq2seq/train.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/setting_options.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

using Json = nlohmann::ordered_json;

struct BenchTrain {
  SettingOptions settings;
  std::string preset, data, device = "cpu";
  i64 steps = 30;
  bool compare = false, json = false;

  void run() const;
};

Json to_json(const std::vector<TimeShare>& shares, const TrainBenchmark& result) {
  Json rows = Json::array();
  for (const TimeShare& one : shares)
    rows.push_back({{"name", one.name},
                    {"calls", one.calls},
                    {"milliseconds", one.milliseconds},
                    {"share_of_step", one.share},
                    {"gflops", one.gflops},
                    {"share_of_peak", one.gflops / result.peak_gflops},
                    {"gigabytes_per_second", one.gigabytes_per_second},
                    {"share_of_copy_rate", one.gigabytes_per_second / result.copy_gigabytes_per_second}});
  return rows;
}

// Nothing where nothing was counted: "data" and "rest" move bytes that no routine tells of.
std::string number(double value, int width, int digits) {
  return value > 0 ? fmt::format("{:{}.{}f}", value, width, digits) : fmt::format("{:{}}", "", width);
}

void print_shares(const char* title, const std::vector<TimeShare>& shares, const TrainBenchmark& result, std::size_t most) {
  print("\n{:32} {:>7} {:>8} {:>6} {:>8} {:>7} {:>7} {:>8}\n", title, "calls", "ms", "%", "GFLOP/s", "of peak", "GB/s",
        "of copy");
  TimeShare others{"", 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const TimeShare& one = shares[i];
    if (i >= most) {
      others.calls += one.calls;
      others.milliseconds += one.milliseconds;
      others.share += one.share;
      continue;
    }
    print("  {:30} {} {:8.2f} {:6.1f} {} {} {} {}\n", one.name, number(one.calls, 7, one.calls < 10 ? 1 : 0), one.milliseconds,
          100 * one.share, number(one.gflops, 8, 1), number(one.gflops / result.peak_gflops, 7, 2),
          number(one.gigabytes_per_second, 7, 1), number(one.gigabytes_per_second / result.copy_gigabytes_per_second, 8, 2));
  }
  if (shares.size() > most)
    print("  {:30} {:7.0f} {:8.2f} {:6.1f}\n", fmt::format("{} others", shares.size() - most), others.calls,
          others.milliseconds, 100 * others.share);
}

void print_breakdown(const TrainBenchmark& result) {
  const Breakdown& b = result.breakdown;
  const std::vector<TimeShare> kinds = b.kinds();
  print_shares("where a step's time goes", kinds, result, kinds.size());
  print("  {:30} {:7} {:8.2f} {:6.1f}   means of {} steps under a profile\n", "all", "", b.milliseconds(), 100.0, b.steps());
  print_shares("matrix products, m x n x k", b.products(), result, 16);
  print_shares("other routines", b.routines(), result, 16);
}

void BenchTrain::run() const {
  require_device(device);
  if (steps < 1) throw_error("steps is {}: it must be at least 1", steps);
  if (preset.empty() && !data.empty()) throw_error("--data is the folder of a preset's text: add --preset multi30k");
  Settings all;
  if (!data.empty())
    apply_preset(all, preset, data);
  else if (!preset.empty())
    find_preset(preset).change(all);
  settings.apply(all);
  check_settings(all);
  set_threads(static_cast<int>(all.threads));
  if (compare && device != "cpu") throw_error("--compare-threads is about the CPU: leave --device {} out", device);
  if (compare && threads() == 1) throw_error("--compare-threads needs more than one thread: this is --threads 1");

  Prepared prepared;
  if (!data.empty()) {
    prepared = prepare(all);
  } else {
    prepared.run = made_up_run(all);
    prepared.data.train = made_up_pairs(*prepared.run, all.batch * std::min<i64>(steps + 4, 200));
  }
  const TrainBenchmark result = bench_train(*prepared.run, prepared.data.train, steps);
  ThreadComparison compared;
  if (compare) compared = compare_threads(*prepared.run, prepared.data.train, steps);
  if (json) {
    Json object = {{"data", data.empty() ? "made up" : data},
                   {"attention", all.attention},
                   {"batch", all.batch},
                   {"precision", all.precision},
                   {"steps", result.steps},
                   {"parameters", result.parameters},
                   {"threads", result.threads},
                   {"cpu_level", result.cpu_level},
                   {"device", result.device.empty() ? "cpu" : result.device},
                   {"target_tokens_per_second", result.target_tokens_per_second},
                   {"milliseconds_per_step", result.milliseconds_per_step},
                   {"gflop_per_step", result.gflop_per_step},
                   {"gflops", result.gflops},
                   {"peak_gflops", result.peak_gflops},
                   {"share_of_peak", result.share_of_peak},
                   {"copy_gigabytes_per_second", result.copy_gigabytes_per_second},
                   {"peak_memory_megabytes", result.peak_memory_megabytes},
                   {"tensor_memory_megabytes", result.tensor_memory_megabytes},
                   {"parameter_memory_megabytes", result.parameter_memory_megabytes},
                   {"steady_state",
                    {{"resident_growth_megabytes", result.steady.resident_growth_megabytes},
                     {"page_faults_per_step", result.steady.page_faults_per_step},
                     {"system_allocations_per_step", result.steady.system_allocations_per_step}}},
                   {"breakdown",
                    {{"steps", result.breakdown.steps()},
                     {"milliseconds_per_step", result.breakdown.milliseconds()},
                     {"kinds", to_json(result.breakdown.kinds(), result)},
                     {"matrix_products", to_json(result.breakdown.products(), result)},
                     {"routines", to_json(result.breakdown.routines(), result)}}}};
    if (compare)
      object["thread_comparison"] = {{"threads", compared.threads},
                                     {"milliseconds_per_step_on_one", compared.one_milliseconds},
                                     {"milliseconds_per_step", compared.all_milliseconds},
                                     {"speedup", compared.speedup},
                                     {"speedup_quartiles", {compared.least, compared.most}},
                                     {"peak_speedup", compared.peak_speedup}};
    print("{}\n", object.dump());
    return;
  }
  print("text               {}\n", data.empty() ? "made up, of Multi30k's lengths and vocabulary sizes" : data);
  print("model              {} attention, {} parameters, batch {}, {}\n", all.attention, result.parameters, all.batch,
        all.precision);
  if (result.device.empty())
    print("machine            {} threads, {} routines\n", result.threads, result.cpu_level);
  else
    print("machine            {}\n", result.device);
  print("speed              {:.0f} target tokens/s, {:.1f} ms a step (median of {})\n", result.target_tokens_per_second,
        result.milliseconds_per_step, result.steps);
  print("matrix products    {:.2f} GFLOP a step, {:.1f} GFLOP/s over the whole step\n", result.gflop_per_step, result.gflops);
  print("share of the peak  {:.2f} of {:.1f} GFLOP/s, what large products reached in this run\n", result.share_of_peak,
        result.peak_gflops);
  print("memory             {:.1f} GB/s copied; at most {:.0f} MB in use\n", result.copy_gigabytes_per_second,
        result.peak_memory_megabytes);
  print("                   at most {:.0f} MB for tensors, {:.0f} MB of it weights, gradients and moments\n",
        result.tensor_memory_megabytes, result.parameter_memory_megabytes);
  print("steady state       {:+.1f} MB resident over the run; {:.1f} page faults and {:.2f} requests for memory a step\n",
        result.steady.resident_growth_megabytes, result.steady.page_faults_per_step, result.steady.system_allocations_per_step);
  if (compare)
    print(
        "threads            {} are {:.2f} times as fast as 1 (median of {} steps on each in turns, quartiles {:.2f} and "
        "{:.2f}): "
        "{:.1f} and {:.1f} ms a step; large products {:.2f} times\n",
        compared.threads, compared.speedup, steps, compared.least, compared.most, compared.all_milliseconds,
        compared.one_milliseconds, compared.peak_speedup);
  if (result.device.empty()) print_breakdown(result);
}

}  // namespace

void add_bench_train(CLI::App& bench) {
  CLI::App* command = add_command(bench, "train", "speed of training: tokens/s, share of the peak, where the time goes, memory",
                                  "seqgrad bench train --preset multi30k --data data/multi30k --steps 50");
  auto options = std::make_shared<BenchTrain>();
  command->add_option("--preset", options->preset, "settings of a known experiment")->type_name(preset_names());
  command->add_option("--data", options->data, "folder of the preset's text (default: made-up text of its shape)")
      ->type_name("DIR");
  command->add_option("--steps", options->steps, "training steps to measure")->type_name("N")->capture_default_str();
  command->add_flag("--compare-threads", options->compare, "also train on one thread and on all in turns");
  command->add_flag("--json", options->json, "write the result as JSON");
  command->add_option("--device", options->device, "where to compute")->type_name("cpu|cuda")->capture_default_str();
  options->settings.add_options(*command, settings_of_the_loop);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
