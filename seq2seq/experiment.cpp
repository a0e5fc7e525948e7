#include "seq2seq/experiment.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/error.h"
#include "seq2seq/report.h"
#include "seq2seq/text.h"
#include "tensor/file.h"

namespace seqgrad::seq2seq {
namespace {

struct Text {
  const char* name;
  std::string source, reference;
};
std::array<Text, 2> texts(const ExperimentPlan& plan) {
  return {{{"valid", plan.settings.valid_source, plan.settings.valid_target}, {"test", plan.test_source, plan.test_reference}}};
}

std::string lines(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& line : all) text += line + "\n";
  return text;
}

}  // namespace

// ---- runs --------------------------------------------------------------------------------------------------------------

std::vector<PlannedRun> planned_runs(const ExperimentPlan& plan) {
  if (plan.variants.empty()) throw_error("variants is empty: name attentions, such as none,mean,sdp,bahdanau");
  if (plan.seeds < 1) throw_error("seeds is {}: it must be at least 1", plan.seeds);
  if (plan.trials < 1) throw_error("trials is {}: it must be at least 1", plan.trials);
  std::vector<PlannedRun> runs;
  for (i64 i = 0; i < plan.seeds; ++i)
    for (const std::string& variant : plan.variants) {
      PlannedRun run{variant, plan.settings.seed + i, "", plan.settings};
      run.settings.attention = variant;
      run.settings.seed = run.seed;
      run.folder = path_in(plan.folder, fmt::format("{}-seed{}", variant, run.seed).c_str());
      check_settings(run.settings);
      if (std::count(plan.variants.begin(), plan.variants.end(), variant) > 1)
        throw_error("variants names {} twice: once is enough", variant);
      runs.push_back(std::move(run));
    }
  return runs;
}

void check_folder(const PlannedRun& planned) {
  const std::string file = path_in(planned.folder, "config.toml");
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return;
  std::istringstream there(to_toml(settings_from_toml(file))), wanted(to_toml(planned.settings));
  for (std::string a, b; std::getline(there, a) && std::getline(wanted, b);)
    if (a != b)
      throw_error("{} was trained with '{}', not '{}': give the same options, or choose another --out", planned.folder, a, b);
}

TrainingEnd train_run(const PlannedRun& planned, const Trainer& trainer) {
  const std::string &folder = planned.folder, config = path_in(folder, "config.toml");
  const bool begun = std::filesystem::exists(config);
  if (begun) check_folder(planned);
  const Prepared prepared = begun ? prepare_resumed(planned.settings, folder) : prepare(planned.settings);
  if (!begun) start_folder(*prepared.run, folder);
  return trainer.train(*prepared.run, prepared.data, folder,
                       std::filesystem::exists(path_in(folder, "checkpoint.safetensors")));
}

void measure_run(const ExperimentPlan& plan, const PlannedRun& planned) {
  const std::unique_ptr<Run> run = open_run(planned.folder);
  nlohmann::ordered_json result = {
      {"variant", planned.variant}, {"seed", planned.seed}, {"parameters", run->model.parameter_count()}};
  for (const Text& text : texts(plan)) {
    const std::vector<std::string> sources = read_lines(text.source), references = read_lines(text.reference);
    if (sources.size() != references.size())
      throw_error("{} has {} lines but {} has {}: a source and its reference must match line by line", text.source,
                  sources.size(), text.reference, references.size());
    if (sources.empty()) throw_error("{} and {} are empty", text.source, text.reference);
    const Evaluation evaluation = evaluate(*run, sources, references, {.bleu = bleu_options(run->settings)});
    write_file(path_in(planned.folder, fmt::format("{}.translations", text.name).c_str()), lines(evaluation.hypotheses));
    result[text.name] = {{"source", text.source},
                         {"reference", text.reference},
                         {"sentences", sources.size()},
                         {"target_tokens", evaluation.teacher_forced.tokens},
                         {"perplexity", evaluation.teacher_forced.value()},
                         {"bleu", evaluation.bleu.score},
                         {"cut_off", evaluation.cut_off}};
  }
  write_file(path_in(planned.folder, "result.json"), result.dump() + "\n");  // last: it says that all is done
}

double RunResult::seconds() const {
  double sum = 0;
  for (const ValidationReport& one : validations)
    for (const double part : {one.seconds, one.validation_seconds})
      if (std::isfinite(part)) sum += part;
  return sum;
}

std::optional<RunResult> read_result(const ExperimentPlan& plan, const PlannedRun& planned) {
  const std::string file = path_in(planned.folder, "result.json");
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return {};
  const nlohmann::json json = nlohmann::json::parse(read_file(file), nullptr, false);
  RunResult result;
  result.variant = planned.variant;
  result.seed = planned.seed;
  try {
    result.parameters = json.at("parameters").get<i64>();
    for (const Text& text : texts(plan)) {
      const nlohmann::json& there = json.at(text.name);
      if (there.at("source") != text.source || there.at("reference") != text.reference) return {};
      MeasuredText& measured = std::string_view(text.name) == "valid" ? result.valid : result.test;
      measured.perplexity = there.at("perplexity").get<double>();
      measured.translations = read_lines(path_in(planned.folder, fmt::format("{}.translations", text.name).c_str()));
      const std::vector<std::string> references = read_lines(text.reference);
      if (measured.translations.size() != references.size()) return {};  // the text has changed
      measured.bleu = measure_bleu(measured.translations, {references}, bleu_options(planned.settings));
    }
  } catch (const nlohmann::json::exception&) {
    throw_error("{} is damaged: remove it, and the run is measured anew", file);
  }
  result.validations = read_metrics(path_in(planned.folder, "metrics.jsonl"));
  return result;
}

// ---- the comparison ----------------------------------------------------------------------------------------------------

Spread VariantResult::over_runs(double (*of)(const RunResult&)) const {
  std::vector<double> values;
  for (const RunResult& run : runs) values.push_back(of(run));
  return spread(values);
}

Experiment compare_variants(const ExperimentPlan& plan) {
  Experiment experiment;
  experiment.plan = plan;
  std::vector<RunResult> done;
  for (const PlannedRun& planned : planned_runs(plan))
    if (std::optional<RunResult> result = read_result(plan, planned)) done.push_back(std::move(*result));
  for (i64 i = 0; i < plan.seeds; ++i) {
    const i64 seed = plan.settings.seed + i;
    const auto of_seed = [&](const RunResult& one) { return one.seed == seed; };
    if (std::count_if(done.begin(), done.end(), of_seed) == static_cast<std::ptrdiff_t>(plan.variants.size()))
      experiment.seeds.push_back(seed);
  }
  if (experiment.seeds.empty()) throw_error("{} holds no seed of which every variant is trained", plan.folder);

  for (const std::string& variant : plan.variants) {
    VariantResult result{variant, {}, {}};
    std::vector<Measured> bleu;
    for (const RunResult& run : done)
      if (run.variant == variant && std::count(experiment.seeds.begin(), experiment.seeds.end(), run.seed)) {
        bleu.push_back(run.test.bleu);
        result.runs.push_back(run);
      }
    result.test_bleu = mean_of(bleu);
    experiment.variants.push_back(std::move(result));
  }

  for (std::size_t b = 1; b < experiment.variants.size(); ++b)
    for (std::size_t a = 0; a < b; ++a) {
      const VariantResult &baseline = experiment.variants[a], &system = experiment.variants[b];
      const auto by_seed = [](const VariantResult& variant, auto of) {
        std::vector<double> values;
        for (const RunResult& run : variant.runs) values.push_back(of(run));
        return values;
      };
      const auto test = [&](auto of) { return paired_t_test(by_seed(baseline, of), by_seed(system, of)); };
      experiment.differences.push_back({baseline.name, system.name,
                                        paired_bootstrap(baseline.test_bleu, system.test_bleu, plan.trials),
                                        test([](const RunResult& run) { return run.test.bleu.score(); }),
                                        test([](const RunResult& run) { return std::log(run.test.perplexity); })});
    }

  std::vector<i64> words;
  for (const std::string& line : read_lines(plan.test_source)) words.push_back(static_cast<i64>(split_whitespace(line).size()));
  experiment.lengths = length_buckets(words);
  for (const LengthBucket& bucket : experiment.lengths) {
    double sum = 0;
    for (const std::size_t i : bucket.sentences) sum += static_cast<double>(words[i]);
    experiment.mean_lengths.push_back(sum / static_cast<double>(bucket.sentences.size()));
  }
  return experiment;
}

}  // namespace seqgrad::seq2seq
