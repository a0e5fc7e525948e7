// What decides a training, on the command line: a preset or a file of settings, then the settings one by one. For `train` and
// what trains as it does.
#pragma once

#include <vector>

#include "tools/setting_options.h"

namespace seqgrad::tools {

class TrainingOptions {
 public:
  TrainingOptions();

  // Those that say where settings come from, and --device; the settings themselves, but for those in `without`.
  // The former are returned: a run that is resumed has its settings already.
  std::vector<CLI::Option*> add_options(CLI::App& command, const std::set<std::string>& without = {});

  // All settings, checked: the preset's, then the file's, then those that the command line gives.
  seq2seq::Settings settings() const;
  bool has_preset() const { return !preset_.empty(); }
  const SettingOptions& given() const { return given_; }
  void check_device() const;

 private:
  SettingOptions given_;
  std::string preset_, data_, from_, to_, config_, device_ = "cpu";
};

}  // namespace seqgrad::tools
