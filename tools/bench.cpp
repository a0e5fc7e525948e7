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

struct BenchTrain {
  SettingOptions settings;
  std::string preset, data, device = "cpu";
  i64 steps = 30;
  bool json = false;

  void run() const;
};

void BenchTrain::run() const {
  require_device(device);
  if (steps < 1) throw_error("steps is {}: it must be at least 1", steps);
  if (!preset.empty() && preset != "multi30k") throw_error("there is no preset '{}': the presets are multi30k", preset);
  if (preset.empty() && !data.empty()) throw_error("--data is the folder of a preset's text: add --preset multi30k");
  Settings all;
  if (!data.empty()) apply_preset(all, preset, data);
  settings.apply(all);
  check_settings(all);
  set_threads(static_cast<int>(all.threads));

  Prepared prepared;
  if (!data.empty()) {
    prepared = prepare(all);
  } else {
    prepared.run = made_up_run(all);
    prepared.data.train = made_up_pairs(*prepared.run, all.batch * std::min<i64>(steps + 4, 200));
  }
  const TrainBenchmark result = bench_train(*prepared.run, prepared.data.train, steps);
  if (json) {
    const nlohmann::ordered_json object = {{"data", data.empty() ? "made up" : data},
                                           {"attention", all.attention},
                                           {"batch", all.batch},
                                           {"precision", all.precision},
                                           {"steps", result.steps},
                                           {"parameters", result.parameters},
                                           {"threads", result.threads},
                                           {"cpu_level", result.cpu_level},
                                           {"target_tokens_per_second", result.target_tokens_per_second},
                                           {"milliseconds_per_step", result.milliseconds_per_step},
                                           {"gflop_per_step", result.gflop_per_step},
                                           {"gflops", result.gflops},
                                           {"peak_gflops", result.peak_gflops},
                                           {"share_of_peak", result.share_of_peak},
                                           {"copy_gigabytes_per_second", result.copy_gigabytes_per_second},
                                           {"peak_memory_megabytes", result.peak_memory_megabytes}};
    print("{}\n", object.dump());
    return;
  }
  print("text               {}\n", data.empty() ? "made up, of Multi30k's lengths and vocabulary sizes" : data);
  print("model              {} attention, {} parameters, batch {}, {}\n", all.attention, result.parameters, all.batch,
        all.precision);
  print("machine            {} threads, {} routines\n", result.threads, result.cpu_level);
  print("speed              {:.0f} target tokens/s, {:.1f} ms a step (median of {})\n", result.target_tokens_per_second,
        result.milliseconds_per_step, result.steps);
  print("matrix products    {:.2f} GFLOP a step, {:.1f} GFLOP/s over the whole step\n", result.gflop_per_step, result.gflops);
  print("share of the peak  {:.2f} of {:.1f} GFLOP/s, what the BLAS library reached on large products in this run\n",
        result.share_of_peak, result.peak_gflops);
  print("memory             {:.1f} GB/s copied; at most {:.0f} MB in use\n", result.copy_gigabytes_per_second,
        result.peak_memory_megabytes);
}

}  // namespace

void add_bench_train(CLI::App& bench) {
  CLI::App* command = add_command(bench, "train", "speed of training: tokens/s, FLOP/s, share of the peak, memory",
                                  "seqgrad bench train --preset multi30k --data data/multi30k --steps 50");
  auto options = std::make_shared<BenchTrain>();
  command->add_option("--preset", options->preset, "settings of a known experiment")->type_name("multi30k");
  command->add_option("--data", options->data, "folder of the preset's text (default: made-up text of its shape)")
      ->type_name("DIR");
  command->add_option("--steps", options->steps, "training steps to measure")->type_name("N")->capture_default_str();
  command->add_flag("--json", options->json, "write the result as JSON");
  command->add_option("--device", options->device, "where to compute")->type_name("cpu|cuda")->capture_default_str();
  options->settings.add_options(*command,
                                {"train-source", "train-target", "valid-source", "valid-target", "epochs", "patience"});
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
