#include "seq2seq/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tensor/file.h"

namespace seqgrad::seq2seq {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Keeps the lines of the epochs before: a run that ended between this and its checkpoint repeats an epoch.
void write_metrics(const std::string& path, i64 epoch, const std::string& line) {
  std::string text;
  if (epoch > 1 && std::filesystem::exists(path)) text = read_file(path);
  std::size_t end = 0;
  for (i64 kept = 1; kept < epoch && end < text.size(); ++kept) end = std::min(text.find('\n', end), text.size() - 1) + 1;
  write_file(path, text.substr(0, end) + line + "\n");
}

nlohmann::json to_json(const EpochReport& report) {
  return {{"epoch", report.epoch},
          {"train_loss", report.train_loss},
          {"train_perplexity", report.train_perplexity},
          {"validation_perplexity", report.validation_perplexity},
          {"seconds", report.seconds},
          {"tokens_per_second", report.tokens_per_second},
          {"best", report.best}};
}

Parameter* first_non_finite(const nn::ParameterBlock& block, bool gradients) {
  for (Parameter* parameter : block.parameters())
    for (const double x : (gradients ? parameter->grad : parameter->value).to(DType::f64).to_vector<double>())
      if (!std::isfinite(x)) return parameter;
  return nullptr;
}

}  // namespace

double Perplexity::value() const { return tokens ? std::exp(negative_log_likelihood / static_cast<double>(tokens)) : 1; }

Perplexity perplexity(const Run& run, const std::vector<EncodedPair>& pairs, i64 batch_size) {
  Perplexity sum;
  for (const auto& rows : make_batches(pair_lengths(pairs), batch_size)) {
    const Batch batch = make_batch(pairs, rows);
    sum.negative_log_likelihood += run.model.negative_log_likelihood(batch);
    sum.tokens += batch.target_tokens;
  }
  return sum;
}

StepResult train_step(Run& run, nn::Adam& adam, Tape& tape, const Batch& batch, i64 step) {
  tape.clear();
  run.block.zero_grad();
  nn::Mode mode = nn::Mode::training_step(static_cast<u64>(run.settings.seed), static_cast<u64>(step));
  const Var loss = run.model.loss(tape, batch, mode, run.settings.label_smoothing, run.settings.teacher_forcing);
  StepResult result{loss.value().item(), 0};
  if (!std::isfinite(result.loss)) {
    const Parameter* parameter = first_non_finite(run.block, false);
    throw_failure("the loss is {} at step {}{}: lower --learning-rate or --clip", std::fabs(result.loss), step + 1,
                  parameter ? fmt::format(" (first non-finite parameter: {})", parameter->name) : "");
  }
  tape.backward(loss, {.release_values = true});
  result.gradient_norm = run.block.gradient_norm();
  if (!std::isfinite(result.gradient_norm)) {
    const Parameter* parameter = first_non_finite(run.block, true);
    throw_failure("the gradient is not finite at step {}{}: lower --learning-rate or --clip", step + 1,
                  parameter ? fmt::format(" (first in {})", parameter->name) : "");
  }
  adam.step(run.settings.learning_rate, nn::clip_coefficient(result.gradient_norm, run.settings.clip));
  return result;
}

EpochReport Trainer::train_epoch(Run& run, nn::Adam& adam, const TrainingData& data, Progress& progress) {
  const Settings& settings = run.settings;
  const auto batches =
      make_batches(pair_lengths(data.train), settings.batch, static_cast<u64>(settings.seed), static_cast<u64>(progress.epoch));
  const auto start = std::chrono::steady_clock::now();
  Tape tape;
  double loss = 0;
  i64 tokens = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const Batch batch = make_batch(data.train, batches[i]);
    const StepResult result = train_step(run, adam, tape, batch, progress.step);
    ++progress.step;
    loss += result.loss * static_cast<double>(batch.target_tokens);
    tokens += batch.target_tokens;
    if (on_step) {
      const double seconds = seconds_since(start), done = static_cast<double>(i + 1), all = static_cast<double>(batches.size());
      const double epochs_left = static_cast<double>(settings.epochs - progress.epoch - 1);
      on_step({progress.epoch + 1, progress.step, static_cast<i64>(batches.size()), static_cast<i64>(i + 1),
               loss / static_cast<double>(tokens), result.gradient_norm, static_cast<double>(tokens) / seconds,
               seconds / done * (all - done + all * epochs_left)});
    }
  }
  tape.clear();
  EpochReport report;
  report.epoch = ++progress.epoch;
  report.train_loss = loss / static_cast<double>(tokens);
  report.train_perplexity = std::exp(report.train_loss);
  report.seconds = seconds_since(start);
  report.tokens_per_second = static_cast<double>(tokens) / report.seconds;
  return report;
}

void Trainer::train(Run& run, const TrainingData& data, const std::string& folder, bool resume) {
  nn::Adam adam(run.block);
  Progress progress;
  if (resume) progress = load_checkpoint(run, adam, path_in(folder, "checkpoint.safetensors"));
  const auto patient = [&] {
    return run.settings.patience == 0 || progress.epoch - progress.best_epoch < run.settings.patience;
  };
  while (progress.epoch < run.settings.epochs && patient()) {
    EpochReport report = train_epoch(run, adam, data, progress);
    report.validation_perplexity = perplexity(run, data.valid, run.settings.batch).value();
    if (!std::isfinite(report.validation_perplexity))
      throw_failure("the validation perplexity is {} after epoch {}, at step {}: lower --learning-rate or --clip",
                    std::fabs(report.validation_perplexity), report.epoch, progress.step);
    report.best = progress.best_perplexity == 0 || report.validation_perplexity < progress.best_perplexity;
    if (report.best) {
      progress.best_perplexity = report.validation_perplexity;
      progress.best_epoch = report.epoch;
    }
    if (!folder.empty()) {
      if (report.best) save_weights(run, path_in(folder, "model.safetensors"));
      write_metrics(path_in(folder, "metrics.jsonl"), report.epoch, to_json(report).dump());
      save_checkpoint(run, adam, progress, path_in(folder, "checkpoint.safetensors"));
    }
    if (on_epoch) on_epoch(report);
  }
}

namespace {

Prepared prepare(const Settings& settings, const Vocabulary* source, const Vocabulary* target) {
  check_settings(settings);
  const auto needed = [](const std::string& path, const char* option) {
    if (path.empty()) throw_error("--{} is missing: give the training and validation text, or --preset with --data", option);
  };
  needed(settings.train_source, "train-source");
  needed(settings.train_target, "train-target");
  needed(settings.valid_source, "valid-source");
  needed(settings.valid_target, "valid-target");
  const ParallelCorpus train = read_parallel(settings.train_source, settings.train_target, settings.max_length);
  const ParallelCorpus valid = read_parallel(settings.valid_source, settings.valid_target);
  Prepared prepared;
  prepared.run =
      std::make_unique<Run>(settings, source ? *source : Vocabulary::build(source_sentences(train), settings.min_frequency),
                            target ? *target : Vocabulary::build(target_sentences(train), settings.min_frequency));
  prepared.data.train = encode_pairs(train.pairs, prepared.run->source, prepared.run->target);
  prepared.data.valid = encode_pairs(valid.pairs, prepared.run->source, prepared.run->target);
  prepared.skipped_empty = train.skipped_empty;
  prepared.skipped_long = train.skipped_long;
  return prepared;
}

}  // namespace

Prepared prepare(const Settings& settings) { return prepare(settings, nullptr, nullptr); }

Prepared prepare_resumed(const std::string& folder) {
  const Settings settings = settings_from_toml(path_in(folder, "config.toml"));
  const Vocabulary source = Vocabulary::load(path_in(folder, "vocab.source"));
  const Vocabulary target = Vocabulary::load(path_in(folder, "vocab.target"));
  return prepare(settings, &source, &target);
}

void start_folder(const Run& run, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_failure("cannot make the folder {}: {}", folder, error.message());
  run.source.save(path_in(folder, "vocab.source"));
  run.target.save(path_in(folder, "vocab.target"));
  // Last, for it is what makes the folder a run.
  write_file(path_in(folder, "config.toml"), to_toml(run.settings));
}

}  // namespace seqgrad::seq2seq
