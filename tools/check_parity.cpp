#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "seq2seq/parity.h"
#include "tools/commands.h"
#include "tools/console.h"

namespace seqgrad::tools {
namespace {

struct CheckParity {
  std::vector<std::string> files;
  std::string dtype = "both";
  bool json = false;
  Machine machine;

  void run() const;
};

void CheckParity::run() const {
  machine.start();
  std::vector<DType> dtypes;
  if (dtype == "f64" || dtype == "both") dtypes.push_back(DType::f64);
  if (dtype == "f32" || dtype == "both") dtypes.push_back(DType::f32);
  if (dtypes.empty()) throw_error("dtype is '{}': it must be one of f64|f32|both", dtype);
  std::size_t width = 4;
  for (const std::string& file : files) width = std::max(width, file.size());

  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  i64 failed = 0, compared = 0;
  if (!json) print("{:{}}  dtype  {:>7}  {:>12}  {:>9}  worst tensor\n", "file", width, "tensors", "of tolerance", "deviation");
  for (const std::string& file : files) {
    for (const DType one : dtypes) {
      const seq2seq::ParityResult result = seq2seq::check_parity(file, one);
      failed += !result.ok();
      compared += result.compared;
      if (json) {
        rows.push_back({{"file", file},
                        {"dtype", name_of(one)},
                        {"kind", result.kind},
                        {"ok", result.ok()},
                        {"compared", result.compared},
                        {"worst", result.worst},
                        {"worst_name", result.worst_name},
                        {"worst_deviation", result.worst_deviation}});
        continue;
      }
      print("{:{}}  {:5}  {:>7}  {:>12.2g}  {:>9.1e}  {}{}\n", file, width, name_of(one), result.compared, result.worst,
            result.worst_deviation, result.worst_name, result.ok() ? "" : "  FAILED");
      flush_results();
    }
  }
  const std::size_t count = files.size() * dtypes.size();
  if (json) {
    const nlohmann::ordered_json result = {
        {"ok", failed == 0}, {"recordings", count}, {"failed", failed}, {"compared", compared}, {"results", rows}};
    print("{}\n", result.dump());
  } else {
    print("\n{} replays, {} tensors: {}\n", count, compared,
          failed == 0 ? "all within tolerance" : fmt::format("{} failed", failed));
  }
  if (failed > 0) throw_failure("{} of {} replays are out of tolerance", failed, count);
}

}  // namespace

void add_check_parity(CLI::App& check) {
  CLI::App* command = add_command(check, "parity", "replay recordings of another framework and compare",
                                  "seqgrad check parity recordings/*.safetensors");
  auto options = std::make_shared<CheckParity>();
  command->add_option("FILE", options->files, "recordings, safetensors files")->required();
  command->add_option("--dtype", options->dtype, "arithmetic")->type_name("f64|f32|both")->capture_default_str();
  command->add_flag("--json", options->json, "write the results as JSON");
  options->machine.add_options(*command);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
