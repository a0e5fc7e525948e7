// A training setting is an option of the command line of the same name: --attention, --hidden, ...
#pragma once

#include <CLI/CLI.hpp>
#include <map>
#include <set>
#include <string>

#include "seq2seq/settings.h"

namespace seqgrad::tools {

// For commands that do not train to an end: the text, and what is done from step to step and about validations.
inline const std::set<std::string> settings_of_the_loop{
    "train-source",   "train-target", "valid-source", "valid-target",      "batch-tokens",   "accumulate",
    "epochs",         "max-steps",    "max-time",     "schedule",          "warmup",         "decay",
    "decay-patience", "patience",     "ema",          "min-learning-rate", "validate-every", "validate-by",
    "average",        "average-of",   "keep-best",    "keep-last"};
// Those that neither say what a model is made of nor what its weights are at first.
inline const std::set<std::string> settings_of_training = [] {
  std::set<std::string> all{"min-frequency",
                            "max-length",
                            "batch",
                            "learning-rate",
                            "beta1",
                            "beta2",
                            "eps",
                            "clip",
                            "weight-decay",
                            "label-smoothing",
                            "word-dropout",
                            "output-dropout",
                            "dropout",
                            "teacher-forcing",
                            "threads",
                            "tokenizer",
                            "lowercase",
                            "spm-type",
                            "spm-source-model",
                            "spm-target-model",
                            "character-coverage",
                            "spm-alpha"};
  all.insert(settings_of_the_loop.begin(), settings_of_the_loop.end());
  return all;
}();

class SettingOptions {
 public:
  SettingOptions() = default;
  explicit SettingOptions(const seq2seq::Settings& defaults) : values_(defaults) {}

  // `without`: settings that the command has no use for.
  void add_options(CLI::App& command, const std::set<std::string>& without = {});

  // Overwrites the settings that the command line gives.
  void apply(seq2seq::Settings& settings) const;

  // Error: a setting that the command line gives otherwise than `settings` has it, unless a resumed run may change it.
  void check_same(const seq2seq::Settings& settings, const std::string& file) const;

  bool given(const std::string& name) const;
  const seq2seq::Settings& values() const { return values_; }

 private:
  seq2seq::Settings values_;
  std::map<std::string, CLI::Option*> options_;
};

}  // namespace seqgrad::tools
