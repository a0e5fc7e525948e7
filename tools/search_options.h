// The options of a search, where a command translates. For one thread.
#pragma once

#include "seq2seq/search.h"
#include "tools/program.h"

namespace seqgrad::tools {

// --beam, --length-penalty, --min-length, --max-length, --precision
struct SearchFlags {
  i64 beam = 1, min_length = 0, max_length = 0;
  double length_penalty = default_length_penalty;
  std::string precision = "f32";

  static constexpr double default_length_penalty = 1;

  void add_options(CLI::App& command);
  // The precision becomes this program's. Error: an option outside its domain.
  void apply(seq2seq::SearchOptions& options) const;
  // What a run is computed in. Error: bf16 for one of f64, whose products are not rounded.
  std::string precision_of(const seq2seq::Run& run) const;
};

// --max-source-length N: of a source of more tokens the rest is left out, so that no line takes all the memory.
constexpr i64 default_max_source_length = 1000;
void add_max_source_length(CLI::App& command, i64& tokens);
// Says so of `name`, a line, where it does it. most 0: no limit.
void cut_source(std::vector<std::string>& tokens, i64 most, const std::string& name);

// --model RUN, once for each model
void add_models(CLI::App& command, std::vector<std::string>& models);

}  // namespace seqgrad::tools
