// The training loop: batches, loss, gradients, clipping, Adam; validation and a checkpoint after each epoch; the weights of the
// best validation perplexity are kept. A training run is a pure function of (settings, text, thread count, CPU type).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "seq2seq/run.h"

namespace seqgrad::seq2seq {

// Teacher-forced, dropout off, independent of batching: exp(sum of NLL / number of target tokens with </s>).
struct Perplexity {
  double negative_log_likelihood = 0;
  i64 tokens = 0;
  double value() const;
};
Perplexity perplexity(const Run& run, const std::vector<EncodedPair>& pairs, i64 batch);

struct StepReport {
  i64 epoch = 0, step = 0, steps_in_epoch = 0, step_in_epoch = 0;
  double loss = 0;               // mean over the epoch so far, per target token
  double gradient_norm = 0;      // before clipping
  double tokens_per_second = 0;  // target tokens, over the epoch so far
  double seconds_left = 0;       // to the end of the last epoch
};

struct EpochReport {
  i64 epoch = 0;
  double train_loss = 0, train_perplexity = 0, validation_perplexity = 0;
  double seconds = 0;  // of training, without validation
  double tokens_per_second = 0;
  bool best = false;
};

struct TrainingData {
  std::vector<EncodedPair> train, valid;
};

// One optimiser step on one batch. Returns the mean loss per target token.
struct StepResult {
  double loss = 0, gradient_norm = 0;
};
StepResult train_step(Run& run, nn::Adam& adam, Tape& tape, const Batch& batch, i64 step);

class Trainer {
 public:
  std::function<void(const StepReport&)> on_step;
  std::function<void(const EpochReport&)> on_epoch;

  // folder "": nothing is written. resume: go on from the folder's checkpoint.
  // Errors, all of them failures: a loss, gradient or validation perplexity that is not finite, naming the step; a full disk,
  // with the old files kept.
  void train(Run& run, const TrainingData& data, const std::string& folder, bool resume = false);

 private:
  EpochReport train_epoch(Run& run, nn::Adam& adam, const TrainingData& data, Progress& progress);
};

// Reads the text that the settings name, builds vocabularies (or takes the run's when it resumes), and makes the run.
struct Prepared {
  std::unique_ptr<Run> run;
  TrainingData data;
  i64 skipped_empty = 0, skipped_long = 0;  // training pairs left out
};
Prepared prepare(const Settings& settings);
Prepared prepare_resumed(const std::string& folder);  // settings and vocabularies of the folder
// Writes config.toml and the vocabularies.
void start_folder(const Run& run, const std::string& folder);

}  // namespace seqgrad::seq2seq
