#include "seq2seq/train.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "autograd/anomaly.h"
#include "kernels/threads.h"
#include "seq2seq/bleu.h"
#include "seq2seq/checkpoint.h"
#include "seq2seq/report.h"
#include "seq2seq/search.h"
#include "seq2seq/text.h"
#include "seq2seq/timing.h"
#include "tensor/file.h"
#include "tensor/memory_purpose.h"

namespace seqgrad::seq2seq {
namespace {

constexpr const char *model_file = "model.safetensors", *checkpoint_file = "checkpoint.safetensors";
constexpr std::size_t sources_at_once = 1000;

// Keeps the lines of the steps before: those after a checkpoint that training went back to are written anew.
void write_metrics(const std::string& path, i64 step, const std::string& lines) {
  std::string kept;
  if (std::error_code ignored; std::filesystem::exists(path, ignored)) {
    LineReader reader(path);
    for (std::string old; reader.next(old);) {
      const nlohmann::json json = nlohmann::json::parse(old, nullptr, false);
      if (!json.is_object()) continue;
      const auto at = json.find("step");
      if (at == json.end() || !at->is_number() || at->get<double>() < static_cast<double>(step)) kept += old + "\n";
    }
  }
  write_file(path, kept + lines);
}

nlohmann::ordered_json to_json(const ValidationReport& report) {
  nlohmann::ordered_json json{{"epoch", report.epoch},
                              {"step", report.step},
                              {"epochs", report.epochs},
                              {"train_loss", report.train_loss},
                              {"train_perplexity", report.train_perplexity},
                              {"validation_perplexity", report.validation_perplexity}};
  if (std::isfinite(report.validation_bleu)) json["validation_bleu"] = report.validation_bleu;
  json["learning_rate"] = report.learning_rate;
  json["gradient_norm"] = report.gradient_norm;
  json["tokens_per_second"] = report.tokens_per_second;
  json["seconds"] = report.seconds;
  json["validation_seconds"] = report.validation_seconds;
  json["best"] = report.best;
  return json;
}

Parameter* first_non_finite_parameter(const nn::ParameterBlock& block, bool gradients) {
  for (Parameter* parameter : block.parameters())
    if (!first_non_finite(gradients ? parameter->grad : parameter->value).empty()) return parameter;
  return nullptr;
}

}  // namespace

double Perplexity::value() const { return tokens ? std::exp(negative_log_likelihood / static_cast<double>(tokens)) : 1; }

Perplexity perplexity(const Run& run, const std::vector<EncodedPair>& pairs, i64 batch_size,
                      const std::function<void()>& between) {
  Perplexity sum;
  for (const auto& rows : make_batches(pair_lengths(pairs), batch_size)) {
    if (between) between();
    const Batch batch = make_batch(pairs, rows);
    sum.negative_log_likelihood += run.model.negative_log_likelihood(batch);
    sum.tokens += batch.target_tokens;
  }
  return sum;
}

BleuOptions bleu_options(const Settings& settings) {
  BleuOptions options;
  options.tokenize = settings.tokenizer == "whitespace" ? BleuTokenizer::none : BleuTokenizer::mteval13a;
  options.lowercase = settings.lowercase;
  return options;
}

double greedy_bleu(const Run& run, const std::vector<EncodedPair>& pairs, const std::vector<std::string>& references, i64 batch,
                   const std::function<void()>& between) {
  Translator translator(run, {.batch = batch, .weights = false});
  std::vector<std::string> hypotheses;
  for (std::size_t begin = 0; begin < pairs.size(); begin += sources_at_once) {
    if (between) between();
    std::vector<std::vector<i64>> sources;
    for (std::size_t i = begin; i < std::min(pairs.size(), begin + sources_at_once); ++i) sources.push_back(pairs[i].source);
    for (const std::vector<Translation>& found : translator.search(sources)) hypotheses.push_back(run.text(found.at(0).ids));
  }
  return corpus_bleu(hypotheses, {references}, bleu_options(run.settings)).score;
}

// ---- one step --------------------------------------------------------------------------------------------------------

MatmulPrecision products_of(const Settings& settings) {
  if (settings.precision == "tf32" && default_device() == Device::cpu)
    throw_error("precision is 'tf32', which only a CUDA device has: add --device cuda, or choose bf16 or f32");
  return settings.precision == "bf16"   ? MatmulPrecision::medium
         : settings.precision == "tf32" ? MatmulPrecision::high
                                        : MatmulPrecision::highest;
}

namespace {

struct Gradients {
  StepResult result;
  Tensor scale;  // by which they are to be multiplied
};

Gradients forward_backward(Run& run, Tape& tape, std::span<const Batch> parts, i64 step) {
  run.block.zero_grad();
  const ConstantMatrices weights(run.block.values());
  StepResult result;
  for (const Batch& part : parts) result.tokens += part.target_tokens;
  // What became of them is asked at the end, when all of it has been asked for: a device is waited for once.
  std::vector<Tensor> losses;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    tape.clear();
    const u64 pass = static_cast<u64>(step) * static_cast<u64>(run.settings.accumulate) + i;  // of all forward passes
    nn::Mode mode = nn::Mode::training_step(static_cast<u64>(run.settings.seed), pass);
    const Batch* batch = &parts[i];
    Batch dropped;
    if (run.settings.word_dropout > 0) {
      dropped = *batch;
      drop_words(dropped, run.settings.word_dropout, mode.seed, mode.next_stream++);
      batch = &dropped;
    }
    const Var loss = run.model.loss(tape, *batch, mode, run.settings.label_smoothing, run.settings.teacher_forcing);
    losses.push_back(loss.value());
    const double share = static_cast<double>(batch->target_tokens) / static_cast<double>(result.tokens);
    const Tensor cotangent = full({}, share, loss.dtype());
    tape.backward(std::span(&loss, 1), std::span(&cotangent, 1), {.release_values = true});
  }
  const nn::ParameterBlock::Clip clip = run.block.clip(run.settings.clip);
  result.gradient_norm = clip.norm.item();
  for (std::size_t i = 0; i < parts.size(); ++i)
    result.loss += static_cast<double>(parts[i].target_tokens) / static_cast<double>(result.tokens) * losses[i].item();
  return {result, clip.scale};
}

// The same, and the operation whose value or gradient is the first that is not finite ends it with an Error.
Gradients watched_forward_backward(Run& run, std::span<const Batch> parts, i64 step) {
  AnomalyProbe probe;
  Tape tape;
  tape.set_probe(&probe);
  return forward_backward(run, tape, parts, step);
}

// Says which parameter and which operation was the first. A step can be done again, for all that is random in it is counted.
[[noreturn]] void throw_not_finite(Run& run, std::span<const Batch> parts, i64 step, const StepResult& result) {
  const bool loss = !std::isfinite(result.loss);
  const Parameter* parameter = first_non_finite_parameter(run.block, !loss);
  std::string where;
  if (parameter) where = (loss ? "first non-finite parameter: " : "first in ") + parameter->name;
  try {
    if (!loss || !parameter) watched_forward_backward(run, parts, step);
  } catch (const Error& error) {
    where += (where.empty() ? "" : "; ") + std::string(error.what());
  }
  throw_failure("the {} at step {}{}: lower --learning-rate or --clip",
                loss ? fmt::format("loss is {}", std::fabs(result.loss)) : "gradient is not finite", step + 1,
                where.empty() ? "" : fmt::format(" ({})", where));
}

}  // namespace

StepResult train_step(Run& run, nn::Adam& adam, Tape& tape, std::span<const Batch> parts, i64 step, double learning_rate) {
  const MatmulPrecisionScope products(products_of(run.settings));
  Gradients gradients;
  if (run.settings.detect_anomaly) {
    try {
      gradients = watched_forward_backward(run, parts, step);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("at step {}: {}", step + 1, error.what()));
    }
  } else {
    gradients = forward_backward(run, tape, parts, step);
  }
  const StepResult& result = gradients.result;
  if (!std::isfinite(result.loss) || !std::isfinite(result.gradient_norm)) throw_not_finite(run, parts, step, result);
  adam.step(learning_rate, gradients.scale);
  return result;
}

StepResult train_step(Run& run, nn::Adam& adam, Tape& tape, const Batch& batch, i64 step) {
  return train_step(run, adam, tape, {&batch, 1}, step, run.settings.learning_rate);
}

// ---- the loop --------------------------------------------------------------------------------------------------------

namespace {

nn::LearningRate learning_rate_of(const Settings& settings) {
  return {settings.schedule == "inverse-sqrt" ? nn::Schedule::inverse_sqrt
          : settings.schedule == "plateau"    ? nn::Schedule::plateau
                                              : nn::Schedule::constant,
          settings.learning_rate, settings.warmup, settings.min_learning_rate};
}

// One call of Trainer::train. The settings may change under way, as far as they are read here: the demo ends early so.
class Training {
 public:
  Training(const Trainer& trainer, Run& run, const TrainingData& data, const std::string& folder)
      : trainer_(trainer),
        run_(run),
        settings_(run.settings),
        data_(data),
        folder_(folder),
        lengths_(pair_lengths(data.train)),
        checksum_(checksum_of(data.train, data.valid)),
        adam_(run.block, settings_.beta1, settings_.beta2, settings_.eps, settings_.weight_decay) {
    if (settings_.ema > 0) average_.emplace(run.block, settings_.ema);
    progress_.threads = threads();
  }

  void resume() {
    const i64 now = threads();
    progress_ = load_checkpoint(run_, adam_, average_ ? &*average_ : nullptr, checksum_, path_in(folder_, checkpoint_file));
    if (progress_.threads == 0)
      remark(
          "the checkpoint is an earlier version's, without checksums: that its text and settings are those of the run is "
          "taken on trust");
    else if (progress_.threads != now)
      remark(
          fmt::format("the run was on {} threads so far and is on {} now: its last bits will not be those of a run that "
                      "was never stopped",
                      progress_.threads, now));
    progress_.threads = now;
    saved_step_ = progress_.step;
    if (!folder_.empty()) remove_other_kept(folder_, progress_.kept);
  }

  TrainingEnd train() {
    for (;;) {
      if (trainer_.stop && trainer_.stop()) return stop();
      const std::optional<TrainingEnd::Reason> end = end_reached();
      if (validation_due(end.has_value())) {
        try {
          validate();
        } catch (const Stopped&) {
          return stop();  // the next process begins with this validation
        }
        continue;  // patience may have ended
      }
      if (end) return finish(*end);
      step();
      if (checkpoint_due() && !validation_due(end_reached().has_value())) save();
    }
  }

 private:
  struct Stopped {};

  TrainingEnd stop() {
    if (saved_step_ != progress_.step) save_or_fail();
    return {.reason = TrainingEnd::Reason::stopped, .step = progress_.step};
  }

  std::optional<TrainingEnd::Reason> end_reached() const;
  bool validation_due(bool at_end) const;
  void step();
  StepReport step_report(const StepResult& result, double learning_rate) const;
  double seconds_left(i64 steps_in_epoch) const;
  struct Measured {
    double perplexity = 0, bleu = not_measured, score = 0;
  };
  Measured measure() const;
  bool better(double score, double than) const { return settings_.validate_by == "bleu" ? score > than : score < than; }
  void validate();
  void keep(double score, const Tensor& weights);
  bool checkpoint_due() const;
  void write_all();
  bool save();
  void save_or_fail();
  std::string what_stays() const;
  void remark(const std::string& text) const {
    if (trainer_.on_remark) trainer_.on_remark(text);
  }
  std::vector<Kept> best_of(std::vector<Kept> all, i64 count) const;
  std::vector<Kept> last_of(const std::vector<Kept>& all, i64 count) const;
  std::vector<Kept> to_average() const;
  TrainingEnd finish(TrainingEnd::Reason reason);

  const Trainer& trainer_;
  Run& run_;
  const Settings& settings_;
  const TrainingData& data_;
  const std::string folder_;
  std::vector<EncodedPair> drawn_;  // of the epoch under way, where the data is drawn
  std::vector<PairLength> lengths_;
  const std::string checksum_;  // of the data
  nn::Adam adam_;
  std::optional<nn::MovingAverage> average_;
  Tape tape_;
  Progress progress_;
  std::vector<std::vector<std::size_t>> batches_;  // of the epoch under way
  i64 batches_epoch_ = -1;
  // Of this process alone: times are no part of what a run is.
  const Clock::time_point start_ = Clock::now();
  double step_seconds_ = 0, seconds_ = 0, validation_seconds_ = 0;  // all steps'; since the last validation; the last one's
  i64 steps_ = 0, tokens_ = 0;                                      // steps taken; tokens since the last validation
  // What is to be written with the next checkpoint, and is kept as long as that fails.
  std::map<std::string, Tensor> weights_to_write_;  // by path
  std::string lines_to_write_;                      // of the metrics
  i64 lines_from_ = 0;                              // the step of the first of them
  i64 saved_step_ = -1;                             // of the checkpoint that the folder holds
  Clock::time_point last_save_ = start_;            // tried
};

std::optional<TrainingEnd::Reason> Training::end_reached() const {
  using enum TrainingEnd::Reason;
  if (progress_.epoch >= settings_.epochs) return epochs;
  if (settings_.max_steps > 0 && progress_.step >= settings_.max_steps) return steps;
  if (settings_.patience > 0 && progress_.stalled >= settings_.patience) return patience;
  // After one step at least: there is nothing to validate before.
  if (settings_.max_time > 0 && steps_ > 0 && seconds_since(start_) >= settings_.max_time) return time;
  return {};
}

bool Training::validation_due(bool at_end) const {
  if (progress_.validated == progress_.step) return false;
  if (at_end) return true;
  return settings_.validate_every > 0 ? progress_.step % settings_.validate_every == 0 : progress_.batch == 0;
}

void Training::step() {
  const auto start = Clock::now();
  const BatchSize size(settings_.batch, settings_.batch_tokens);
  if (batches_epoch_ != progress_.epoch) {
    if (data_.draw) {
      drawn_ = data_.draw(static_cast<u64>(progress_.epoch));
      lengths_ = pair_lengths(drawn_);
    }
    batches_ = make_batches(lengths_, size.times(settings_.accumulate), static_cast<u64>(settings_.seed),
                            static_cast<u64>(progress_.epoch));
    batches_epoch_ = progress_.epoch;
  }
  if (static_cast<std::size_t>(progress_.batch) >= batches_.size())
    throw_error("{}: it stands at batch {} of an epoch of {}", path_in(folder_, checkpoint_file), progress_.batch + 1,
                batches_.size());
  std::vector<Batch> parts;
  for (const auto& rows : split_batch(batches_[static_cast<std::size_t>(progress_.batch)], size, lengths_))
    parts.push_back(make_batch(data_.draw ? drawn_ : data_.train, rows));
  const double learning_rate = learning_rate_of(settings_).at(progress_.step + 1, progress_.plateau.factor);
  const MemoryPurpose purpose(fmt::format("a training step on {} pairs of up to {} and {} tokens", parts[0].size,
                                          parts[0].source_length, parts[0].target_length),
                              "lower --batch or --batch-tokens, or set --max-length");
  const StepResult result = train_step(run_, adam_, tape_, parts, progress_.step, learning_rate);
  ++progress_.step;
  ++progress_.batch;
  ++progress_.steps;
  progress_.loss += result.loss * static_cast<double>(result.tokens);
  progress_.tokens += result.tokens;
  progress_.gradient_norm += result.gradient_norm;
  if (average_) average_->update(progress_.step);
  const double seconds = seconds_since(start);
  step_seconds_ += seconds;
  seconds_ += seconds;
  ++steps_;
  tokens_ += result.tokens;
  if (trainer_.on_step) trainer_.on_step(step_report(result, learning_rate));
  if (static_cast<std::size_t>(progress_.batch) == batches_.size()) {
    ++progress_.epoch;
    progress_.batch = 0;
  }
}

StepReport Training::step_report(const StepResult& result, double learning_rate) const {
  StepReport report;
  report.epoch = progress_.epoch + 1;
  report.step = progress_.step;
  report.steps_in_epoch = static_cast<i64>(batches_.size());
  report.step_in_epoch = progress_.batch;
  report.loss = progress_.loss / static_cast<double>(progress_.tokens);
  report.gradient_norm = result.gradient_norm;
  report.learning_rate = learning_rate;
  report.tokens_per_second = static_cast<double>(tokens_) / seconds_;
  report.seconds_left = seconds_left(report.steps_in_epoch);
  return report;
}

// Later epochs are taken to be as long as this one, later validations as the last one.
double Training::seconds_left(i64 steps_in_epoch) const {
  const double epoch = static_cast<double>(steps_in_epoch);
  double steps = epoch * static_cast<double>(settings_.epochs - progress_.epoch) - static_cast<double>(progress_.batch);
  if (settings_.max_steps > 0) steps = std::min(steps, static_cast<double>(settings_.max_steps - progress_.step));
  const double interval = settings_.validate_every > 0 ? static_cast<double>(settings_.validate_every) : epoch;
  const double left = steps * step_seconds_ / static_cast<double>(steps_) + std::ceil(steps / interval) * validation_seconds_;
  return settings_.max_time > 0 ? std::min(left, settings_.max_time - seconds_since(start_)) : left;
}

Training::Measured Training::measure() const {
  Measured measured;
  const auto between = [&] {
    if (trainer_.stop && trainer_.stop()) throw Stopped();
  };
  measured.perplexity = measured.score = perplexity(run_, data_.valid, settings_.batch, between).value();
  if (settings_.validate_by == "bleu")
    measured.bleu = measured.score = greedy_bleu(run_, data_.valid, data_.valid_references, settings_.batch, between);
  return measured;
}

void Training::validate() {
  const MemoryPurpose purpose("a validation", "lower --batch");
  tape_.clear();
  const auto start = Clock::now();
  if (average_) average_->exchange();
  Measured measured;
  try {
    measured = measure();
  } catch (const Stopped&) {
    if (average_) average_->exchange();
    throw;
  }
  ValidationReport report;
  report.epoch = progress_.batch == 0 ? progress_.epoch : progress_.epoch + 1;
  report.step = progress_.step;
  report.epochs = static_cast<double>(progress_.epoch);
  if (progress_.batch > 0) report.epochs += static_cast<double>(progress_.batch) / static_cast<double>(batches_.size());
  report.validation_perplexity = measured.perplexity;
  report.validation_bleu = measured.bleu;
  if (!std::isfinite(measured.perplexity))
    throw_failure("the validation perplexity is {} after epoch {}, at step {}: lower --learning-rate or --clip",
                  std::fabs(measured.perplexity), report.epoch, progress_.step);
  report.train_loss = progress_.loss / static_cast<double>(progress_.tokens);
  report.train_perplexity = std::exp(report.train_loss);
  report.learning_rate = learning_rate_of(settings_).at(progress_.step, progress_.plateau.factor);
  report.gradient_norm = progress_.gradient_norm / static_cast<double>(progress_.steps);
  report.seconds = seconds_;
  report.tokens_per_second = seconds_ > 0 ? static_cast<double>(tokens_) / seconds_ : 0;
  report.best = progress_.best_step == 0 || better(measured.score, progress_.best_score);

  progress_.validated = progress_.step;
  ++progress_.stalled;
  if (report.best) {
    progress_.best_score = measured.score;
    progress_.best_step = progress_.step;
    progress_.best_epoch = report.epoch;
    progress_.stalled = 0;
  }
  progress_.plateau.measured(report.best, settings_.decay, settings_.decay_patience);
  progress_.loss = progress_.gradient_norm = 0;
  progress_.tokens = progress_.steps = 0;
  seconds_ = 0;
  tokens_ = 0;
  report.validation_seconds = validation_seconds_ = seconds_since(start);
  if (!folder_.empty()) {
    const Tensor weights = run_.block.values().clone();
    if (report.best) weights_to_write_[path_in(folder_, model_file)] = weights;
    keep(measured.score, weights);
    if (lines_to_write_.empty()) lines_from_ = report.step;
    lines_to_write_ += to_json(report).dump() + "\n";
  }
  if (average_) average_->exchange();
  save();
  if (trainer_.on_validation) trainer_.on_validation(report);
}

// ---- what stays in the folder ------------------------------------------------------------------------------------------

std::vector<Kept> Training::best_of(std::vector<Kept> all, i64 count) const {
  std::stable_sort(all.begin(), all.end(), [&](const Kept& a, const Kept& b) { return better(a.score, b.score); });
  all.resize(std::min(all.size(), static_cast<std::size_t>(count)));
  return all;
}

std::vector<Kept> Training::last_of(const std::vector<Kept>& all, i64 count) const {
  return {all.end() - static_cast<std::ptrdiff_t>(std::min(all.size(), static_cast<std::size_t>(count))), all.end()};
}

std::vector<Kept> Training::to_average() const {
  return settings_.average_of == "best" ? best_of(progress_.kept, settings_.average)
                                        : last_of(progress_.kept, settings_.average);
}

// Notes the weights for writing, and forgets those that are wanted no more. Their files go with the next checkpoint: until then
// the old one counts on them.
void Training::keep(double score, const Tensor& weights) {
  const bool average_best = settings_.average_of == "best";
  const i64 best = std::max(settings_.keep_best, average_best ? settings_.average : 0);
  const i64 last = std::max(settings_.keep_last, average_best ? 0 : settings_.average);
  std::vector<Kept> all = progress_.kept;
  all.push_back({progress_.step, score});
  std::vector<Kept> wanted = best_of(all, best);
  for (const Kept& one : last_of(all, last)) wanted.push_back(one);
  progress_.kept.clear();
  for (const Kept& one : all) {
    if (std::find(wanted.begin(), wanted.end(), one) != wanted.end())
      progress_.kept.push_back(one);
    else
      weights_to_write_.erase(kept_path(folder_, one.step));
  }
  if (!progress_.kept.empty() && progress_.kept.back().step == progress_.step)
    weights_to_write_[kept_path(folder_, progress_.step)] = weights;
}

bool Training::checkpoint_due() const {
  if (folder_.empty()) return false;
  if (settings_.checkpoint_every > 0 && progress_.step % settings_.checkpoint_every == 0) return true;
  return settings_.checkpoint_seconds > 0 && seconds_since(last_save_) >= settings_.checkpoint_seconds;
}

// The checkpoint comes after all that it counts on, and what no checkpoint counts on goes last.
void Training::write_all() {
  while (!weights_to_write_.empty()) {
    const auto& [path, weights] = *weights_to_write_.begin();
    std::error_code ignored;  // writing the file says why
    const std::filesystem::path parent = std::filesystem::path(path).parent_path();
    if (parent != std::filesystem::path(folder_)) std::filesystem::create_directory(parent, ignored);
    save_weights(run_, weights, path);
    weights_to_write_.erase(weights_to_write_.begin());
  }
  if (!lines_to_write_.empty()) {
    write_metrics(path_in(folder_, "metrics.jsonl"), lines_from_, lines_to_write_);
    write_file(path_in(folder_, "report.html"), to_html(training_report(run_, folder_)));
    lines_to_write_.clear();
  }
  save_checkpoint(run_, adam_, average_ ? &*average_ : nullptr, progress_, checksum_, path_in(folder_, checkpoint_file));
  saved_step_ = progress_.step;
  remove_other_kept(folder_, progress_.kept);
}

std::string Training::what_stays() const {
  return saved_step_ < 0 ? "there is no checkpoint yet" : fmt::format("the checkpoint of step {} stays", saved_step_);
}

bool Training::save() {
  if (folder_.empty()) return true;
  last_save_ = Clock::now();
  try {
    write_all();
    return true;
  } catch (const Error& error) {
    if (settings_.stop_on_save_failure) throw_failure("{}; {}", error.what(), what_stays());
    remark(fmt::format("{}; {}, training goes on and tries again with the next", error.what(), what_stays()));
    return false;
  }
}

void Training::save_or_fail() {
  if (folder_.empty()) return;
  try {
    write_all();
  } catch (const Error& error) {
    throw_failure("{}; {}", error.what(), what_stays());
  }
}

TrainingEnd Training::finish(TrainingEnd::Reason reason) {
  if (saved_step_ != progress_.step) save_or_fail();
  TrainingEnd end;
  end.reason = reason;
  end.step = progress_.step;
  const std::vector<Kept> kept = to_average();
  if (folder_.empty() || kept.size() < 2) return end;
  const Tensor weights = run_.block.values().clone();
  std::vector<std::string> paths;
  for (const Kept& one : kept) paths.push_back(kept_path(folder_, one.step));
  load_mean(run_, paths);
  Measured measured;
  try {
    measured = measure();
  } catch (const Stopped&) {
    run_.block.values().copy_from(weights);
    return {.reason = TrainingEnd::Reason::stopped, .step = progress_.step};
  }
  end.averaged_count = static_cast<i64>(kept.size());
  end.perplexity = measured.perplexity;
  end.bleu = measured.bleu;
  end.averaged = better(measured.score, progress_.best_score);
  if (end.averaged) save_weights(run_, path_in(folder_, model_file));
  run_.block.values().copy_from(weights);
  return end;
}

}  // namespace

TrainingEnd Trainer::train(Run& run, const TrainingData& data, const std::string& folder, bool resume) const {
  const MemoryPurpose purpose("the optimiser's moments, as large as the weights", "lower --embedding, --hidden or --layers");
  Training training(*this, run, data, folder);
  if (resume) training.resume();
  return training.train();
}

// ---- what training starts from -----------------------------------------------------------------------------------------

namespace {

// folder "": the language is learnt from the text.
Prepared prepare(const Settings& settings, const std::string& folder) {
  check_settings(settings);
  const auto needed = [](const std::string& path, const char* option) {
    if (path.empty()) throw_error("--{} is missing: give the training and validation text, or --preset with --data", option);
  };
  needed(settings.train_source, "train-source");
  needed(settings.train_target, "train-target");
  needed(settings.valid_source, "valid-source");
  needed(settings.valid_target, "valid-target");
  const MemoryPurpose for_text("the text and its vocabularies", "train on less of it");
  const ParallelText text = read_parallel_text(settings.train_source, settings.train_target);
  const ParallelText valid_text = read_parallel_text(settings.valid_source, settings.valid_target);
  Language language;
  if (!folder.empty()) language = load_language(settings, folder);
  const Tokenizers tokenizers = folder.empty() ? make_tokenizers(settings, text) : language.tokenizers;
  const ParallelCorpus train = tokenize(text, tokenizers, settings.max_length);
  const ParallelCorpus valid = tokenize(valid_text, tokenizers, settings.max_length);
  if (folder.empty()) language = make_language(settings, tokenizers, train);
  Prepared prepared;
  prepared.data.train = encode_pairs(train.pairs, language.source, language.target);
  prepared.data.valid = encode_pairs(valid.pairs, language.source, language.target);
  for (const std::size_t line : valid.lines) prepared.data.valid_references.push_back(valid_text.target[line]);
  if (settings.spm_alpha > 0) prepared.data.draw = draw_pairs(settings, text, train.lines, language);
  prepared.left_out = train.left_out;
  prepared.valid_left_out = valid.left_out;
  const MemoryPurpose for_weights("the weights and gradients of the model",
                                  "lower --embedding, --hidden, --layers or --vocabulary-size");
  prepared.run = std::make_unique<Run>(settings, std::move(language.source), std::move(language.target), tokenizers);
  return prepared;
}

}  // namespace

Prepared prepare(const Settings& settings) { return prepare(settings, ""); }

Prepared prepare_resumed(const Settings& settings, const std::string& folder) { return prepare(settings, folder); }

void start_folder(const Run& run, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_failure("cannot make the folder {}: {}", folder, error.message());
  save_language({run.tokenizers, run.source, run.target}, folder);
  // Last, for it is what makes the folder a run.
  write_file(path_in(folder, "config.toml"), to_toml(run.settings));
}

}  // namespace seqgrad::seq2seq
