// The options of a search, where a command translates. For one thread.
#pragma once

#include "seq2seq/search.h"
#include "tools/program.h"

namespace seqgrad::tools {

// --beam, --length-penalty, --min-length, --max-length
struct SearchFlags {
  i64 beam = 1, min_length = 0, max_length = 0;
  double length_penalty = default_length_penalty;

  static constexpr double default_length_penalty = 1;

  void add_options(CLI::App& command);
  // Error: an option outside its domain.
  void apply(seq2seq::SearchOptions& options) const;
};

// --model RUN, once for each model
void add_models(CLI::App& command, std::vector<std::string>& models);

}  // namespace seqgrad::tools
