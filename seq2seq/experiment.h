// An experiment: variants of one translator that differ in their attention alone, each trained from several seeds, and what the
// difference is worth. Runs of one seed are matched: they see the same batches in the same order and start from the same
// weights wherever names, shapes and ranges agree (nn::ParameterBlock).
//
// Each run is a folder that `train` makes (run.h), here VARIANT-seedN, and has three files more when it is done:
//   valid.translations  test.translations   greedy, one line a sentence
//   result.json                             perplexities, and of which text
// What is there is not done again, so an experiment goes on where it was interrupted, and several processes may work at one.
// Not for use by two threads at once.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "seq2seq/evaluation.h"
#include "seq2seq/significance.h"

namespace seqgrad::seq2seq {

struct ExperimentPlan {
  Settings settings;                       // of every run, except for attention and seed; the seeds count from settings.seed
  std::vector<std::string> variants = {};  // attentions
  i64 seeds = 3;
  std::string test_source = {}, test_reference = {};
  std::string folder = {};
  i64 trials = 1000;  // of the paired bootstrap
};

struct PlannedRun {
  std::string variant;
  i64 seed = 0;
  std::string folder;
  Settings settings;
};

// All variants of the first seed, then of the next: what is done first can be compared.
// Errors: no variant, an unknown one, one twice; seeds or trials below 1; a variant whose settings do not fit.
std::vector<PlannedRun> planned_runs(const ExperimentPlan& plan);

// Error: the folder holds a run of other settings: "runs/a/sdp-seed1 was trained with 'epochs = 3', not 'epochs = 5': ...".
void check_folder(const PlannedRun& planned);

// Trains to the end, from the checkpoint if there is one.
TrainingEnd train_run(const PlannedRun& planned, const Trainer& trainer);
// Measures the trained model on validation and test text and writes what it finds.
void measure_run(const ExperimentPlan& plan, const PlannedRun& planned);

struct MeasuredText {
  double perplexity = 0;
  Measured bleu;
  std::vector<std::string> translations;
};

struct RunResult {
  std::string variant;
  i64 seed = 0, parameters = 0;
  std::vector<ValidationReport> validations;
  MeasuredText valid, test;
  double seconds() const;  // of training and its validations
};

// Nothing while the run is not trained, or not measured on the plan's test text.
std::optional<RunResult> read_result(const ExperimentPlan& plan, const PlannedRun& planned);

// ---- the comparison ----------------------------------------------------------------------------------------------------

struct VariantResult {
  std::string name;
  std::vector<RunResult> runs;  // by seed
  Measured test_bleu;           // the seeds' mean
  Spread over_runs(double (*of)(const RunResult&)) const;
};

// On the test text; the system less the baseline.
struct Difference {
  std::string baseline, system;
  Comparison bleu;        // the seeds' mean, the sentences drawn anew
  PairedTest bleu_seeds;  // seed by seed
  PairedTest log_perplexity_seeds;
};

struct Experiment {
  ExperimentPlan plan;
  std::vector<i64> seeds;               // those of which every variant is done; all else is left out
  std::vector<VariantResult> variants;  // in the plan's order
  std::vector<Difference> differences;  // of every two variants
  std::vector<LengthBucket> lengths;    // of the test sources, in words
  std::vector<double> mean_lengths;     // in each bucket
};
// Error: there is no seed of which every variant is done.
Experiment compare_variants(const ExperimentPlan& plan);

std::string to_text(const Experiment& experiment);
std::string to_json(const Experiment& experiment);  // one line
std::string to_html(const Experiment& experiment);  // a page of its own

// Where each variant looked, of the first seed: a page of the test sentences in these lines, which count from 1.
// Error: a line that the test text does not have.
std::string alignments_html(const Experiment& experiment, const std::vector<i64>& lines);
// Lines of as many lengths as there are, from the shortest to the longest that fits a page.
std::vector<i64> lines_of_many_lengths(const std::vector<std::string>& sources, std::size_t count);

}  // namespace seqgrad::seq2seq
