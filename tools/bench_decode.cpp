#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "kernels/threads.h"
#include "seq2seq/benchmark.h"
#include "seq2seq/benchmark_decode.h"
#include "seq2seq/text.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/search_options.h"
#include "tools/setting_options.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct BenchDecode {
  SettingOptions settings;
  std::string model, source, device = "cpu";
  i64 batch = 64;
  SearchFlags flags;
  bool json = false;

  void run() const;
};

void BenchDecode::run() const {
  require_device(device);
  if (model.empty() != source.empty())
    throw_error("--model and --source go together: without both, a made-up model translates made-up sentences");
  SearchOptions options;
  options.batch = batch;
  options.weights = false;
  flags.apply(options);
  check_search(options);
  Settings all;
  settings.apply(all);
  check_settings(all);
  set_threads(static_cast<int>(all.threads));
  std::unique_ptr<Run> run;
  std::vector<std::vector<std::string>> sentences;
  DecodeBenchmark started;
  if (model.empty()) {
    run = made_up_run(all);
    sentences = made_up_sentences(*run, 1000);
    options = made_up_lengths(*run, options);
  } else {
    for_each_setting(all, [&](const std::string& name, const auto&, const char*, const char*) {
      if (name != "threads" && settings.given(name))
        throw_error("--{} has no effect beside --model, whose sizes are those of the run", name);
    });
    bench_start(model, started);
    run = open_run(model);
    for (const std::string& line : read_lines(source)) sentences.push_back(run->tokenizers.source->split(line));
    if (std::all_of(sentences.begin(), sentences.end(), [](const auto& words) { return words.empty(); }))
      throw_error("{} holds no sentence", source);
  }
  const std::string precision = flags.precision_of(*run);
  const DecodeBenchmark result = bench_decode(*run, sentences, options);
  if (json) {
    nlohmann::ordered_json object = {{"model", model.empty() ? "made up" : model},
                                     {"source", source.empty() ? "made up" : source},
                                     {"batch", batch},
                                     {"beam", options.beam},
                                     {"precision", precision},
                                     {"parameters", result.parameters},
                                     {"threads", result.threads},
                                     {"cpu_level", result.cpu_level},
                                     {"sentences", result.sentences},
                                     {"source_tokens", result.source_tokens},
                                     {"target_tokens", result.target_tokens},
                                     {"passes", result.passes},
                                     {"seconds", result.seconds},
                                     {"tokens_per_second", result.tokens_per_second},
                                     {"megaflop_per_token", result.megaflop_per_token},
                                     {"peak_gflops", result.peak_gflops},
                                     {"limit_tokens_per_second", result.limit_tokens_per_second},
                                     {"share_of_limit", result.share_of_limit},
                                     {"latency_median_ms", result.latency_median_ms},
                                     {"latency_p99_ms", result.latency_p99_ms},
                                     {"latency_sentences", result.latency_sentences},
                                     {"peak_memory_megabytes", result.peak_memory_megabytes}};
    if (!model.empty()) {
      object["start_seconds"] = started.start_seconds;
      object["read_seconds"] = started.read_seconds;
    }
    print("{}\n", object.dump());
    return;
  }
  print("text               {} sentences{}, {} source and {} target tokens\n", result.sentences,
        model.empty() ? ", made up, each translated into as many words" : "", result.source_tokens, result.target_tokens);
  print("model              {} attention, {} parameters, batch {}, beam {}, {}\n", run->settings.attention, result.parameters,
        batch, options.beam, precision);
  print("machine            {} threads, {} routines\n", result.threads, result.cpu_level);
  print("speed              {:.0f} target tokens/s, {:.3f} s a pass (median of {})\n", result.tokens_per_second, result.seconds,
        result.passes);
  print("limit              {:.0f} target tokens/s: {:.1f} MFLOP a token at {:.1f} GFLOP/s, what large products reached\n",
        result.limit_tokens_per_second, result.megaflop_per_token, result.peak_gflops);
  print("share of the limit {:.2f}\n", result.share_of_limit);
  print("one at a time      {:.1f} ms a sentence (median of {}), {:.1f} ms at the 99th percentile\n", result.latency_median_ms,
        result.latency_sentences, result.latency_p99_ms);
  if (!model.empty())
    print("start              {:.3f} s, of which {:.3f} s would read the weights alone\n", started.start_seconds,
          started.read_seconds);
  print("memory             at most {:.0f} MB in use\n", result.peak_memory_megabytes);
}

}  // namespace

void add_bench_decode(CLI::App& bench) {
  CLI::App* command = add_command(bench, "decode", "speed of translating: tokens/s, share of the limit, latency, start, memory",
                                  "seqgrad bench decode --model runs/sdp --source test_2016_flickr.lc.norm.tok.de\n\n"
                                  "The limit is what the matrix products of the search would take at the speed that large\n"
                                  "products reach in the same run. Without --model a made-up model of the given sizes\n"
                                  "translates made-up sentences of fixed lengths.");
  auto options = std::make_shared<BenchDecode>();
  command->add_option("--model", options->model, "folder that 'seqgrad train' wrote")->type_name("RUN");
  command->add_option("--source", options->source, "text to translate (plain or gzipped)")->type_name("FILE");
  command->add_option("--batch", options->batch, "sentences at a time")->type_name("N")->capture_default_str();
  options->flags.add_options(*command);
  command->add_flag("--json", options->json, "write the result as JSON");
  command->add_option("--device", options->device, "where to compute")->type_name("cpu|cuda")->capture_default_str();
  options->settings.add_options(*command, [] {
    std::set<std::string> without = settings_of_training;
    without.erase("threads");
    without.insert("precision");
    return without;
  }());
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
