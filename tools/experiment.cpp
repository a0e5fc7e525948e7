#include "seq2seq/experiment.h"

#include <filesystem>

#include "kernels/error.h"
#include "kernels/threads.h"
#include "seq2seq/text.h"
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
namespace fs = std::filesystem;

struct ExperimentCommand {
  TrainingOptions options;
  ExperimentPlan plan;
  std::vector<i64> sentences;  // lines of the test text; empty: six of many lengths
  bool json = false;

  void complete_plan();
  std::size_t train_all(const std::vector<PlannedRun>& runs) const;  // how many runs another process is at
  void run();
};

void ExperimentCommand::complete_plan() {
  const Settings& all = plan.settings = options.settings();
  // A preset's test text lies beside its validation text.
  for (const auto& [file, valid] : {std::pair{&plan.test_source, all.valid_source}, {&plan.test_reference, all.valid_target}}) {
    const std::string name = fs::path(valid).filename().string();
    if (file->empty() && options.has_preset() && name.starts_with("val."))
      *file = (fs::path(valid).parent_path() / ("test_2016_flickr" + name.substr(3))).string();
    if (file->empty())
      throw_error("--{} is missing: give the test text, or --preset with --data",
                  file == &plan.test_source ? "test-source" : "test-reference");
  }
  const std::size_t a = read_lines(plan.test_source).size();
  for (const i64 line : sentences)
    if (line < 1 || line > static_cast<i64>(a))
      throw_error("sentences names line {}, but {} has lines 1 to {}", line, plan.test_source, a);
  if (const std::size_t b = read_lines(plan.test_reference).size(); a != b)
    throw_error("{} has {} lines but {} has {}: a source and its reference must match line by line", plan.test_source, a,
                plan.test_reference, b);
  else if (a == 0)
    throw_error("{} and {} are empty", plan.test_source, plan.test_reference);
}

std::size_t ExperimentCommand::train_all(const std::vector<PlannedRun>& runs) const {
  const Interrupt interrupt;
  std::size_t elsewhere = 0;
  // Anew from the first, until there is nothing to do: a run that another process had may have been left by it.
  for (bool worked = true; worked;) {
    worked = false;
    elsewhere = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const PlannedRun& planned = runs[i];
      if (read_result(plan, planned)) continue;
      const std::unique_ptr<FileLock> lock = lock_if_free(planned.folder);
      if (!lock) {
        ++elsewhere;
        continue;
      }
      if (read_result(plan, planned)) continue;  // by now
      worked = true;
      remark("run {} of {}: attention {}, seed {}, in {}\n", i + 1, runs.size(), planned.variant, planned.seed, planned.folder);
      Progress progress(planned.settings);
      Trainer trainer;
      trainer.on_step = [&](const StepReport& report) { progress.step(report); };
      trainer.on_validation = [&](const ValidationReport& report) { progress.validation(report); };
      trainer.on_remark = [&](const std::string& text) { progress.remark(text); };
      trainer.stop = [&] { return interrupt.signal() != 0; };
      const TrainingEnd end = train_run(planned, trainer);
      if (end.reason == TrainingEnd::Reason::stopped) {
        progress.clear();
        throw Interrupted{interrupt.signal(), fmt::format("stopped after step {} of {}; to go on, give the same command again",
                                                          end.step, planned.folder)};
      }
      measure_run(plan, planned);
    }
  }
  return elsewhere;
}

void ExperimentCommand::run() {
  options.check_device();
  complete_plan();
  const std::vector<PlannedRun> runs = planned_runs(plan);
  if (holds_run(plan.folder)) throw_error("{} holds a run: choose another --out", plan.folder);
  check_writable(plan.folder);
  for (const PlannedRun& planned : runs) check_folder(planned);
  set_threads(static_cast<int>(plan.settings.threads));
  if (const std::size_t elsewhere = train_all(runs); elsewhere > 0) {
    remark("another process is at {} of the {} runs: it will write the results\n", elsewhere, runs.size());
    return;
  }
  const Experiment experiment = compare_variants(plan);
  const std::string text = to_text(experiment), results = to_json(experiment) + "\n";
  write_file(path_in(plan.folder, "results.txt"), text);
  write_file(path_in(plan.folder, "results.json"), results);
  write_file(path_in(plan.folder, "report.html"), to_html(experiment));
  write_file(
      path_in(plan.folder, "alignments.html"),
      alignments_html(experiment, sentences.empty() ? lines_of_many_lengths(read_lines(plan.test_source), 6) : sentences));
  print("{}", json ? results : text);
  if (!json)
    print("\nReport: {}\nWhere they looked: {}\n", path_in(plan.folder, "report.html"),
          path_in(plan.folder, "alignments.html"));
}

}  // namespace

void add_experiment(CLI::App& program) {
  CLI::App* command =
      add_command(program, "experiment", "train variants from several seeds and compare them",
                  "seqgrad experiment --preset multi30k --data data/multi30k --variants none,mean,sdp,bahdanau --seeds 3");
  auto options = std::make_shared<ExperimentCommand>();
  ExperimentPlan& plan = options->plan;
  plan.variants = {"none", "mean", "sdp", "bahdanau"};
  plan.folder = "runs/experiment";
  command->add_option("--variants", plan.variants, "attentions to compare, separated by commas")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->default_str("none,mean,sdp,bahdanau");
  command->add_option("--seeds", plan.seeds, "runs of each variant, with seeds from --seed on")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--out", plan.folder,
                   "folder of the runs and the results; what is done there already is not done again, so that the same command "
                   "goes on after an interruption, and a second one shares the work")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--test-source", plan.test_source, "test text, source side (a preset has its own)")->type_name("FILE");
  command->add_option("--test-reference", plan.test_reference, "test text, target side")->type_name("FILE");
  command
      ->add_option("--sentences", options->sentences,
                   "lines of the test text whose alignments are drawn, separated by commas (default: six of many lengths)")
      ->type_name("LINE,...")
      ->delimiter(',');
  command->add_option("--trials", plan.trials, "of the paired bootstrap")->type_name("N")->capture_default_str();
  command->add_flag("--json", options->json, "write the result as JSON");
  options->options.add_options(*command, {"attention"});
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
