#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "seq2seq/search.h"
#include "seq2seq/text.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/search_options.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct Score {
  std::vector<std::string> models;
  std::string source, target;
  SearchOptions search;
  bool json = false;
  Machine machine;

  void run();
};

void Score::run() {
  machine.start();
  search.weights = false;
  check_search(search);
  const std::vector<std::unique_ptr<Run>> runs = open_ensemble(models);
  const std::vector<std::string> source_lines = read_lines(source), target_lines = read_lines(target);
  if (source_lines.size() != target_lines.size()) {
    const bool more = source_lines.size() > target_lines.size();
    throw_error("{}:{}: no such line, but {} has one: a source and its target must match line by line", more ? target : source,
                std::min(source_lines.size(), target_lines.size()) + 1, more ? source : target);
  }
  std::vector<const Run*> pointers;
  for (const auto& one : runs) pointers.push_back(one.get());
  Translator translator(pointers, search);
  const std::size_t part = 16 * static_cast<std::size_t>(search.batch);
  for (std::size_t begin = 0; begin < source_lines.size(); begin += part) {
    std::vector<std::vector<std::string>> sources, targets;
    for (std::size_t i = begin; i < std::min(source_lines.size(), begin + part); ++i) {
      sources.push_back(runs[0]->tokenizers.source->split(source_lines[i]));
      targets.push_back(runs[0]->tokenizers.target->split(target_lines[i]));
    }
    const std::vector<double> scores = translator.score(sources, targets);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      if (!json) {
        print("{:.6f}\n", scores[i]);
        continue;
      }
      i64 unknown = 0;
      for (const i64 id : runs[0]->target.encode(targets[i])) unknown += id == Vocabulary::unknown;
      const nlohmann::ordered_json object = {{"line", begin + i + 1},
                                             {"log_probability", scores[i]},  // null for minus infinity
                                             {"tokens", targets[i].size() + 1},
                                             {"unknown_words", unknown}};
      print("{}\n", object.dump());
    }
  }
}

}  // namespace

void add_score(CLI::App& program) {
  CLI::App* command = add_command(
      program, "score", "log-probability of given translations",
      "seqgrad score --model runs/sdp --source test.de --target test.en\n\n"
      "A line for each pair: the natural logarithm of the probability of the target's words and of its end. Words that the\n"
      "model does not know count as <unk>. An empty source has the empty target for certain: 0, anything else -inf. --json\n"
      "writes {\"line\": 1, \"log_probability\": -7.25, \"tokens\": 12, \"unknown_words\": 0} for each pair.");
  auto options = std::make_shared<Score>();
  add_models(*command, options->models);
  command->add_option("--source", options->source, "text (plain or gzipped)")->type_name("FILE")->required();
  command->add_option("--target", options->target, "its translation")->type_name("FILE")->required();
  command->add_option("--batch", options->search.batch, "sentences at a time")->type_name("N")->capture_default_str();
  command->add_flag("--json", options->json, "write an object for each pair");
  options->machine.add_options(*command);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
