#include "tools/training_options.h"

#include "kernels/error.h"
#include "seq2seq/train.h"
#include "tools/program.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

// Pieces do well by any text, tokenised or not. A line that is a whole page would take the memory of a whole batch.
Settings defaults() {
  Settings settings;
  settings.tokenizer = "spm";
  settings.max_length = 200;
  return settings;
}

}  // namespace

TrainingOptions::TrainingOptions() : given_(defaults()) {}

std::vector<CLI::Option*> TrainingOptions::add_options(CLI::App& command, const std::set<std::string>& without) {
  const std::vector<CLI::Option*> sources{
      command.add_option("--config", config_, "file of settings; options given here come first")->type_name("FILE.toml"),
      command.add_option("--preset", preset_, "settings of a known experiment, with --data")->type_name(preset_names()),
      command.add_option("--data", data_, "folder of the preset's text")->type_name("DIR"),
      command.add_option("--from", from_, "language that a preset translates from [de]")->type_name("LANGUAGE"),
      command.add_option("--to", to_, "language that a preset translates to [en]")->type_name("LANGUAGE")};
  command.add_option("--device", device_, "where to compute")->type_name("cpu|cuda")->capture_default_str();
  given_.add_options(command, without);
  return sources;
}

Settings TrainingOptions::settings() const {
  Settings all = defaults();
  if (!preset_.empty())
    apply_preset(all, preset_, data_, from_, to_);
  else if (!data_.empty())
    throw_error(
        "--data is the folder of a preset's text: add --preset multi30k, or name the text with --train-source and so on");
  else if (!from_.empty() || !to_.empty())
    throw_error("--{} is a language of a preset's text: add --preset multi30k", from_.empty() ? "to" : "from");
  if (!config_.empty()) apply_toml(all, config_);
  given_.apply(all);
  check_settings(all);
  products_of(all);  // refuses what the device cannot
  if (all.epochs == 0) throw_error("epochs is 0: it must be at least 1");
  return all;
}

void TrainingOptions::check_device() const { require_device(device_); }

}  // namespace seqgrad::tools
