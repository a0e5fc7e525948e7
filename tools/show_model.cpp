#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "seq2seq/benchmark.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/setting_options.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct ShowModel {
  SettingOptions settings;
  std::string model;
  bool json = false;

  void run() const;
};

void ShowModel::run() const {
  std::unique_ptr<Run> run;
  if (model.empty()) {
    check_settings(settings.values());
    run = made_up_run(settings.values());
  } else {
    for_each_setting(settings.values(), [&](const std::string& name, const auto&, const char*, const char*) {
      if (settings.given(name)) throw_error("--{} has no effect beside --model, whose sizes are those of the run", name);
    });
    run = open_run(model);
  }
  i64 total = 0;
  std::size_t name_width = 9, shape_width = 5;
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Parameter* parameter : run->block.parameters()) {
    const Dims& shape = parameter->value.shape();
    total += shape.product();
    name_width = std::max(name_width, parameter->name.size());
    shape_width = std::max(shape_width, fmt::format("{}", shape).size());
    rows.push_back(
        {{"name", parameter->name}, {"shape", std::vector<i64>(shape.begin(), shape.end())}, {"count", shape.product()}});
  }
  const DType dtype = run->block.values().dtype();
  const i64 bytes = total * static_cast<i64>(size_of(dtype));
  if (json) {
    const nlohmann::ordered_json result = {{"attention", run->settings.attention},
                                           {"source_vocabulary", run->source.size()},
                                           {"target_vocabulary", run->target.size()},
                                           {"dtype", name_of(dtype)},
                                           {"total", total},
                                           {"bytes", bytes},
                                           {"parameters", rows}};
    print("{}\n", result.dump());
    return;
  }
  print("{:{}}  {:{}}  {:>12}\n", "parameter", name_width, "shape", shape_width, "count");
  for (const Parameter* parameter : run->block.parameters())
    print("{:{}}  {:{}}  {:>12}\n", parameter->name, name_width, fmt::format("{}", parameter->value.shape()), shape_width,
          parameter->value.numel());
  print("{:{}}  {:{}}  {:>12}\n\n", "total", name_width, "", shape_width, total);
  print("attention {}, {} source and {} target words, {:.1f} MB of {} weights\n", run->settings.attention, run->source.size(),
        run->target.size(), static_cast<double>(bytes) / 1e6, name_of(dtype));
}

}  // namespace

void add_show_model(CLI::App& show) {
  CLI::App* command = add_command(show, "model", "list a model's parameters: name, shape, count",
                                  "seqgrad show model --model runs/sdp\n"
                                  "         seqgrad show model --attention bahdanau --hidden 256\n\n"
                                  "Without --model, the model of the given sizes on vocabularies of Multi30k's sizes.");
  auto options = std::make_shared<ShowModel>();
  command->add_option("--model", options->model, "folder that 'seqgrad train' wrote")->type_name("RUN");
  command->add_flag("--json", options->json, "write the result as JSON");
  std::set<std::string> without = settings_of_training;
  without.insert("seed");
  options->settings.add_options(*command, without);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
