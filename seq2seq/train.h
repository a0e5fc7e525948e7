// The training loop: batches, loss, gradients, clipping, Adam; validations, of which the best weights are kept, and
// checkpoints. A training run is a pure function of (settings, text, thread count, CPU type), however often it is stopped and
// resumed.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nn/optimizer.h"
#include "seq2seq/bleu.h"
#include "seq2seq/run.h"
#include "tensor/matmul.h"

namespace seqgrad::seq2seq {

// Teacher-forced, dropout off, independent of batching: exp(sum of NLL / number of target tokens with </s>).
struct Perplexity {
  double negative_log_likelihood = 0;
  i64 tokens = 0;
  double value() const;
};
// between: called before each batch.
Perplexity perplexity(const Run& run, const std::vector<EncodedPair>& pairs, i64 batch,
                      const std::function<void()>& between = {});

// How a model's translations are compared with references: word by word as the text has them for tokenizer whitespace, whose
// text is tokenised, else by 13a; without case where the model lower-cases.
BleuOptions bleu_options(const Settings& settings);
// BLEU of the greedy translations of the pairs' sources, against references as the text has them.
double greedy_bleu(const Run& run, const std::vector<EncodedPair>& pairs, const std::vector<std::string>& references, i64 batch,
                   const std::function<void()>& between = {});

struct StepReport {
  i64 epoch = 0, step = 0, steps_in_epoch = 0, step_in_epoch = 0;  // from 1
  double loss = 0;                                                 // mean since the last validation, per target token
  double gradient_norm = 0;                                        // before clipping
  double learning_rate = 0;
  double tokens_per_second = 0;  // target tokens, since the last validation
  double seconds_left = 0;       // to the end of training, as far as the settings set one
};

constexpr double not_measured = std::numeric_limits<double>::quiet_NaN();

// A validation, and the training since the one before. A line of metrics.jsonl, under the same names.
struct ValidationReport {
  i64 epoch = 0, step = 0;  // the epoch under way or just finished, from 1; optimiser steps so far
  double epochs = 0;        // passes over the text so far: 2.5 in the middle of the third
  double train_loss = 0, train_perplexity = 0, validation_perplexity = 0;
  double validation_bleu = not_measured;
  double learning_rate = 0;  // of the last step
  double gradient_norm = 0;  // mean over the steps, before clipping
  double tokens_per_second = 0;
  double seconds = 0;             // of training
  double validation_seconds = 0;  // of this validation
  bool best = false;
};

struct TrainingData {
  std::vector<EncodedPair> train, valid;
  std::vector<std::string> valid_references = {};  // the target side's text, for BLEU
  // The pairs of `train` in their order, cut into other tokens for each epoch. Empty: `train` itself in all of them.
  std::function<std::vector<EncodedPair>(u64 epoch)> draw = {};
};

// What a step's products are computed in, as the settings' precision says. Error: tf32 without a CUDA device.
MatmulPrecision products_of(const Settings& settings);

// One optimiser step on one batch. Returns the mean loss per target token.
struct StepResult {
  double loss = 0, gradient_norm = 0;
  i64 tokens = 0;
};
StepResult train_step(Run& run, nn::Adam& adam, Tape& tape, const Batch& batch, i64 step);
// The same on the parts of a batch, one after the other: each part's mean loss is weighted by its share of the target tokens,
// so that without dropout the gradient is that of the whole batch. With dropout each part draws masks of its own: other ones
// than the whole batch would, of the same distribution.
StepResult train_step(Run& run, nn::Adam& adam, Tape& tape, std::span<const Batch> parts, i64 step, double learning_rate);

struct TrainingEnd {
  enum class Reason { epochs, steps, time, patience, stopped } reason = Reason::epochs;
  i64 step = 0;
  bool averaged = false;  // the model is the mean of several validations' weights, whose own measures are these:
  i64 averaged_count = 0;
  double perplexity = not_measured, bleu = not_measured;
};

class Trainer {
 public:
  std::function<void(const StepReport&)> on_step;
  std::function<void(const ValidationReport&)> on_validation;
  std::function<void(const std::string&)> on_remark;  // what went wrong without ending training
  // Asked between steps and between the batches of a validation: true ends training with a checkpoint, from which it goes on
  // as if it had not ended.
  std::function<bool()> stop;

  // folder "": nothing is written, and no weights are averaged in the end. resume: go on from the folder's checkpoint.
  // What cannot be written is remarked on, and tried again with the next checkpoint; the old files stay.
  // Errors, all of them failures: a loss, gradient or validation perplexity that is not finite, naming the step; a last
  // checkpoint that cannot be written.
  TrainingEnd train(Run& run, const TrainingData& data, const std::string& folder, bool resume = false) const;
};

// Reads the text that the settings name, builds vocabularies (or takes the run's when it resumes), and makes the run.
struct Prepared {
  std::unique_ptr<Run> run;
  TrainingData data;
  LeftOut left_out, valid_left_out;
};
Prepared prepare(const Settings& settings);
Prepared prepare_resumed(const Settings& settings, const std::string& folder);  // with the folder's vocabularies
// Writes config.toml and the vocabularies.
void start_folder(const Run& run, const std::string& folder);

}  // namespace seqgrad::seq2seq
