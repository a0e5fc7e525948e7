#include <algorithm>
#include <filesystem>

#include "kernels/error.h"
#include "seq2seq/checkpoint.h"
#include "seq2seq/report.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/run_folder.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct Average {
  std::vector<std::string> runs;
  std::string out;
  i64 best = 0, last = 0;

  std::vector<std::string> weights_of(const std::string& folder) const;
  void run() const;
};

std::vector<std::string> Average::weights_of(const std::string& folder) const {
  if (best == 0 && last == 0) return {path_in(folder, "model.safetensors")};
  const bool by_bleu = settings_from_toml(path_in(folder, "config.toml")).validate_by == "bleu";
  std::vector<Kept> kept;  // by step, as the metrics are
  for (const ValidationReport& one : read_metrics(path_in(folder, "metrics.jsonl")))
    if (std::filesystem::exists(kept_path(folder, one.step)))
      kept.push_back({one.step, by_bleu ? -one.validation_bleu : one.validation_perplexity});
  const std::size_t wanted = static_cast<std::size_t>(std::max(best, last));
  if (kept.size() < wanted)
    throw_error("{} has kept the weights of {} validations, not of {}: train with --keep-{} {}", folder, kept.size(), wanted,
                best > 0 ? "best" : "last", wanted);
  if (best > 0)
    std::stable_sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) { return a.score > b.score; });  // best last
  std::vector<std::string> paths;
  for (std::size_t i = kept.size() - wanted; i < kept.size(); ++i) paths.push_back(kept_path(folder, kept[i].step));
  return paths;
}

void Average::run() const {
  if (best < 0) throw_error("best is {}: it must be at least 1", best);
  if (last < 0) throw_error("last is {}: it must be at least 1", last);
  if (holds_run(out)) throw_error("{} holds a run already: choose another --out", out);
  check_writable(out);
  const std::unique_ptr<Run> mean = open_run(runs.front());
  std::vector<std::string> paths;
  for (const std::string& folder : runs) {
    const std::unique_ptr<Run> one = open_run(folder);
    if (!(one->source == mean->source) || !(one->target == mean->target))
      throw_error("{} and {} have different vocabularies: weights of the same words alone have a mean", runs.front(), folder);
    for (const std::string& path : weights_of(folder)) paths.push_back(path);
  }
  load_mean(*mean, paths);
  start_folder(*mean, out);
  save_weights(*mean, path_in(out, "model.safetensors"));
  print("{}: the mean of {} sets of weights:\n", out, paths.size());
  for (const std::string& path : paths) print("  {}\n", path);
}

}  // namespace

void add_average(CLI::App& program) {
  CLI::App* command = add_command(program, "average", "make a model of the mean of several models' weights",
                                  "seqgrad average runs/sdp --best 5 --out runs/sdp-mean");
  auto options = std::make_shared<Average>();
  command->add_option("runs", options->runs, "folders that 'seqgrad train' wrote, of the same settings and vocabularies")
      ->type_name("RUN...")
      ->required();
  command->add_option("--out", options->out, "folder to write the mean to")->type_name("DIR")->required();
  CLI::Option* best =
      command->add_option("--best", options->best,
                          "of each run the weights of so many best validations, which --keep-best kept (default: the model)");
  CLI::Option* last =
      command->add_option("--last", options->last, "of each run those of so many last ones, which --keep-last kept");
  best->type_name("N");
  last->type_name("N")->excludes(best);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
