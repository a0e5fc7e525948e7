#include "seq2seq/train.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "kernels/error.h"
#include "kernels/threads.h"
#include "seq2seq/report.h"
#include "tensor/file.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/run_folder.h"
#include "tools/training_options.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct Train {
  TrainingOptions options;
  std::string out, resume;

  using Lock = std::unique_ptr<FileLock>;
  Prepared start(std::string& folder, Lock& lock) const;
  Prepared go_on(std::string& folder, Lock& lock) const;
  void run() const;
};

Prepared Train::start(std::string& folder, Lock& lock) const {
  const Settings all = options.settings();
  folder = out.empty() ? path_in("runs", all.attention.c_str()) : out;
  const auto check_free = [&] {
    if (holds_run(folder))
      throw_error("{} holds a run already: continue it with --resume {}, or choose another --out", folder, folder);
  };
  check_free();
  check_writable(folder);
  set_threads(static_cast<int>(all.threads));
  Prepared prepared = prepare(all);
  lock = lock_run(folder);
  check_free();  // another process may have come and gone
  start_folder(*prepared.run, folder);
  return prepared;
}

Prepared Train::go_on(std::string& folder, Lock& lock) const {
  folder = resume;
  const std::string file = path_in(folder, "config.toml");
  if (!holds_run(folder)) throw_error("--resume {}: there is no run, for {} does not exist", folder, file);
  check_writable(folder);
  lock = lock_run(folder);
  const Settings kept = settings_from_toml(file);
  options.given().check_same(kept, file);
  Settings all = kept;
  options.given().apply(all);
  check_settings(all);
  set_threads(static_cast<int>(all.threads));
  Prepared prepared = prepare_resumed(all, folder);
  if (const std::string text = to_toml(all); text != to_toml(kept)) write_file(file, text);
  return prepared;
}

std::string measures(double perplexity, double bleu) {
  return fmt::format("validation perplexity {:.4g}{}", perplexity,
                     std::isfinite(bleu) ? fmt::format(", BLEU {:.2f}", bleu) : "");
}

// What the model in the folder is worth.
void say_result(const std::string& folder, const TrainingEnd& end, const Settings& settings) {
  const std::vector<ValidationReport> validations = read_metrics(path_in(folder, "metrics.jsonl"));
  const auto best = std::find_if(validations.rbegin(), validations.rend(), [](const auto& one) { return one.best; });
  if (best == validations.rend()) return;
  const std::string single = measures(best->validation_perplexity, best->validation_bleu);
  const std::string place = settings.validate_every > 0
                                ? fmt::format("after step {} of {}", best->step, validations.back().step)
                                : fmt::format("after epoch {} of {}", best->epoch, validations.back().epoch);
  if (end.averaged_count == 0)
    print("{}: {} {}\n", folder, single, place);
  else if (end.averaged)
    print("{}: {} of the mean of {} validations' weights; the best of them alone: {} {}\n", folder,
          measures(end.perplexity, end.bleu), end.averaged_count, single, place);
  else
    print("{}: {} {}; the mean of {} validations' weights is not better and was not saved: {}\n", folder, single, place,
          end.averaged_count, measures(end.perplexity, end.bleu));
}

void say_left_out(const char* text, const LeftOut& pairs, i64 max_length) {
  if (pairs.empty + pairs.too_long == 0) return;
  remark("left out of the {} text: {} pairs with an empty side", text, pairs.empty);
  if (max_length > 0) remark(", {} longer than {} tokens", pairs.too_long, max_length);
  remark("\n");
}

void Train::run() const {
  options.check_device();
  std::string folder;
  Lock lock;
  const Prepared prepared = resume.empty() ? start(folder, lock) : go_on(folder, lock);
  Run& run = *prepared.run;
  say_left_out("training", prepared.left_out, run.settings.max_length);
  say_left_out("validation", prepared.valid_left_out, run.settings.max_length);
  remark("{} training pairs, {} validation pairs; vocabulary {} source, {} target; {} parameters; {} threads; writing to {}\n",
         prepared.data.train.size(), prepared.data.valid.size(), run.source.size(), run.target.size(),
         run.model.parameter_count(), threads(), folder);

  Progress progress(run.settings);
  Trainer trainer;
  trainer.on_step = [&](const StepReport& report) { progress.step(report); };
  trainer.on_validation = [&](const ValidationReport& report) { progress.validation(report); };
  trainer.on_remark = [&](const std::string& text) { progress.remark(text); };
  const Interrupt interrupt;
  trainer.stop = [&] { return interrupt.signal() != 0; };
  // A run that ended before its first checkpoint starts from the beginning.
  const bool from_checkpoint = !resume.empty() && std::filesystem::exists(path_in(folder, "checkpoint.safetensors"));
  const TrainingEnd end = trainer.train(run, prepared.data, folder, from_checkpoint);
  if (end.reason == TrainingEnd::Reason::stopped) {
    progress.clear();
    throw Interrupted{interrupt.signal(),
                      fmt::format("stopped after step {}, which {} holds; to go on: seqgrad train --resume {}", end.step,
                                  path_in(folder, "checkpoint.safetensors"), folder)};
  }
  say_result(folder, end, run.settings);
}

}  // namespace

void add_train(CLI::App& program) {
  CLI::App* command = add_command(program, "train", "train a translator on parallel text",
                                  "seqgrad train --preset multi30k --data data/multi30k --attention sdp --out runs/sdp");
  auto options = std::make_shared<Train>();
  CLI::Option* out = command->add_option("--out", options->out, "folder to write the run to (default: runs/ATTENTION)");
  CLI::Option* resume = command->add_option(
      "--resume", options->resume,
      "go on with the run in this folder, to the bit; of its settings only those may change that end it or keep its files");
  out->type_name("DIR");
  resume->type_name("DIR")->excludes(out);
  for (CLI::Option* source : options->options.add_options(*command)) resume->excludes(source);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
