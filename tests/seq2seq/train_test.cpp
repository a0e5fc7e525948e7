// Training: the same numbers every time, stopped and resumed or not; what is kept, and when it ends.
#include "seq2seq/train.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "kernels/threads.h"
#include "seq2seq/checkpoint.h"
#include "seq2seq/demo_corpus.h"
#include "seq2seq/random.h"
#include "seq2seq/report.h"
#include "seq2seq/text.h"
#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Values = std::vector<double>;

namespace {

Settings small(i64 epochs) {
  Settings settings{.attention = "sdp", .embedding = 12, .hidden = 10, .attention_dim = 6, .dropout = 0.2};
  settings.batch = 24;
  settings.epochs = epochs;
  settings.learning_rate = 0.01;
  return settings;
}

const DemoCorpus& corpus() {
  static const DemoCorpus made = make_demo_corpus(1, 240, 20, 20);
  return made;
}

struct Task {
  explicit Task(const Settings& settings)
      : source(Vocabulary::build(source_sentences({corpus().train}))),
        target(Vocabulary::build(target_sentences({corpus().train}))),
        data{encode_pairs(corpus().train, source, target), encode_pairs(corpus().valid, source, target)},
        run(settings, source, target) {
    for (const SentencePair& pair : corpus().valid) data.valid_references.push_back(join(pair.target));
  }

  std::vector<ValidationReport> train(const std::string& folder = "", bool resume = false) {
    std::vector<ValidationReport> epochs;
    Trainer trainer;
    trainer.on_validation = [&](const ValidationReport& report) { epochs.push_back(report); };
    trainer.train(run, data, folder, resume);
    return epochs;
  }
  Values weights() const { return run.block.values().to(DType::f64).to_vector<double>(); }

  Vocabulary source, target;
  TrainingData data;
  Run run;
};

i64 count_lines(const std::string& path) {
  const std::string text = read_file(path);
  return std::count(text.begin(), text.end(), '\n');
}

// What went wrong, and whether it was the work's failure or the caller's.
std::pair<std::string, bool> failure_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return {error.what(), error.kind() == Error::Kind::failure};
  }
  return {"", false};
}

}  // namespace

TEST_CASE("the same settings give the same weights, another seed others") {
  for (const char* precision : {"f32", "f64"}) {
    Settings settings = small(2);
    settings.precision = precision;
    Task first(settings), second(settings);
    settings.seed = 2;
    Task other(settings);
    const Values untrained = first.weights();
    CHECK(second.weights() == untrained);
    first.train();
    second.train();
    other.train();
    CHECK(first.weights() == second.weights());
    CHECK(first.weights() != untrained);
    CHECK(first.weights() != other.weights());
  }
}

TEST_CASE("stopped after any epoch and resumed is as never stopped, bit for bit") {
  TemporaryFolder folder;
  Task straight(small(4));
  const std::string whole = folder / "whole";
  start_folder(straight.run, whole);
  const std::vector<ValidationReport> expected = straight.train(whole);
  REQUIRE(expected.size() == 4);
  for (i64 stop : {0, 1, 3, 4}) {
    CAPTURE(stop);
    const std::string parts = folder / fmt::format("stop{}", stop);
    std::vector<ValidationReport> epochs;
    if (stop > 0) {
      Task first(small(stop));
      start_folder(first.run, parts);
      epochs = first.train(parts);
    } else {
      std::filesystem::create_directory(parts);
    }
    Task second(small(4));
    if (stop > 0)
      for (Parameter* parameter : second.run.block.parameters()) parameter->value.fill(7);  // comes from the checkpoint
    for (const ValidationReport& report : second.train(parts, stop > 0)) epochs.push_back(report);
    CHECK(second.weights() == straight.weights());
    REQUIRE(epochs.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(epochs[i].epoch == static_cast<i64>(i) + 1);
      CHECK(epochs[i].train_loss == expected[i].train_loss);
      CHECK(epochs[i].validation_perplexity == expected[i].validation_perplexity);
      CHECK(epochs[i].best == expected[i].best);
    }
    CHECK(read_file(parts + "/model.safetensors") == read_file(whole + "/model.safetensors"));
    CHECK(read_file(parts + "/checkpoint.safetensors") == read_file(whole + "/checkpoint.safetensors"));
    CHECK(count_lines(parts + "/metrics.jsonl") == 4);
  }
}

namespace {

struct Interruption {};

// The run's files, without the times in its metrics.
std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const char* name : {"/model.safetensors", "/checkpoint.safetensors"}) files.push_back(read_file(folder + name));
  for (const ValidationReport& one : read_metrics(folder + "/metrics.jsonl"))
    files.push_back(fmt::format("{} {} {} {} {} {} {} {}", one.epoch, one.step, one.train_loss, one.validation_perplexity,
                                one.validation_bleu, one.learning_rate, one.gradient_norm, one.best));
  return files;
}

}  // namespace

TEST_CASE("stopped at any step or within a validation, and resumed, is as never stopped, bit for bit") {
  for (const char* cell : {"gru", "lstm"})
    for (const i64 count : {1, 2}) {
      CAPTURE(cell);
      CAPTURE(count);
      TemporaryFolder folder;
      set_threads(static_cast<int>(count));
      Settings settings = small(4);
      settings.cell = cell;
      settings.teacher_forcing = 0.7;
      settings.word_dropout = 0.1;
      settings.batch = 12;
      settings.accumulate = 2;
      settings.schedule = "plateau";
      settings.learning_rate = 0.05;
      settings.warmup = 5;
      settings.validate_every = 7;
      settings.validate_by = "bleu";
      settings.patience = 4;
      settings.ema = 0.8;
      settings.keep_best = 2;
      settings.average = 2;
      Task straight(settings);
      const std::string whole = folder / "whole", parts = folder / "parts", killed = folder / "killed";
      for (const std::string& path : {whole, parts, killed}) std::filesystem::create_directory(path);
      const TrainingEnd expected = Trainer().train(straight.run, straight.data, whole);

      SplitMix64 generator(7);
      TrainingEnd end;
      i64 stops = 0;
      for (bool resume = false;; resume = true) {
        Task task(settings);
        if (resume) task.run.block.values().fill(7);  // all comes from the checkpoint
        Trainer trainer;
        u64 left = 4 + generator.below(9);
        trainer.stop = [&] { return left-- == 0; };
        end = trainer.train(task.run, task.data, parts, resume);
        if (end.reason != TrainingEnd::Reason::stopped) break;
        ++stops;
      }
      CHECK(stops >= 4);
      CHECK(end.reason == expected.reason);
      CHECK(end.averaged == expected.averaged);
      CHECK(files_of(parts) == files_of(whole));

      // Killed: nothing is saved at the end, and the steps since the last checkpoint are done again.
      settings.checkpoint_every = 3;
      i64 kills = 0, done = 0;
      for (bool resume = false;; resume = true) {
        Task task(settings);
        Trainer trainer;
        u64 left = 4 + generator.below(9);
        bool first = true;
        trainer.on_step = [&](const StepReport& report) {
          if (first) CHECK(report.step >= done - 3);  // no more than an interval is done again, and the step under way
          first = false;
          done = report.step;
          if (left-- == 0) throw Interruption();
        };
        try {
          trainer.train(task.run, task.data, killed, resume);
          break;
        } catch (const Interruption&) {
          ++kills;
        }
      }
      CHECK(kills >= 2);
      CHECK(files_of(killed) == files_of(whole));
    }
  set_threads(0);
}

TEST_CASE("a resumed run keeps its settings, words and text, and may end otherwise") {
  TemporaryFolder folder;
  const std::string run = folder.path.string();
  Settings settings = small(1);
  Task task(settings);
  start_folder(task.run, run);
  task.train(run);
  const std::string path = run + "/checkpoint.safetensors";
  const std::vector<std::string> before = files_of(run);
  const auto resumed = [&](const Settings& with, const std::function<void(Task&)>& change = {}) {
    Task other(with);
    if (change) change(other);
    return message_of([&] { other.train(run, true); });
  };
  Settings changed = settings;
  changed.dropout = 0.3;
  CHECK(resumed(changed) == path + ": it was made with dropout = 0.2, but now dropout = 0.3: a resumed run keeps its settings");
  changed = settings;
  changed.seed = 2;
  CHECK(resumed(changed) == path + ": it was made with seed = 1, but now seed = 2: a resumed run keeps its settings");
  const std::string other_text =
      path + ": it was made with other training or validation text than the files of its config.toml hold now";
  CHECK(resumed(settings, [](Task& t) { t.data.train.pop_back(); }) == other_text);
  CHECK(resumed(settings, [](Task& t) { std::swap(t.data.train[0], t.data.train[1]); }) == other_text);
  CHECK(resumed(settings, [](Task& t) { t.data.valid[0].target[0] ^= 1; }) == other_text);
  CHECK(files_of(run) == before);
  changed = settings;
  changed.epochs = 2;
  changed.train_source = "moved.de";
  changed.checkpoint_every = 5;
  CHECK(resumed(changed) == "");
  CHECK(files_of(run) != before);
}

TEST_CASE("what cannot be written is said, tried again, and lost to no step") {
  TemporaryFolder folder;
  Settings settings = small(4);
  settings.validate_every = 10;
  settings.checkpoint_every = 5;
  settings.keep_last = 2;
  const std::string whole = folder / "whole", run = folder / "run", away = folder / "away";
  std::filesystem::create_directory(whole);
  std::filesystem::create_directory(run);
  Task straight(settings);
  straight.train(whole);

  const std::string missing = fmt::format(
      "cannot write {}/checkpoint.safetensors: No such file or directory; the checkpoint "
      "of step 10 stays, training goes on and tries again with the next",
      run);
  const std::string no_model = fmt::format(
      "cannot write {}/kept/step-20.safetensors: No such file or directory; the checkpoint "
      "of step 10 stays, training goes on and tries again with the next",
      run);
  std::vector<std::string> remarks;
  Task task(settings);
  Trainer trainer;
  trainer.on_remark = [&](const std::string& text) { remarks.push_back(text); };
  trainer.on_step = [&](const StepReport& report) {
    if (report.step == 12) std::filesystem::rename(run, away);
    if (report.step == 27) std::filesystem::rename(away, run);
  };
  trainer.train(task.run, task.data, run);
  CHECK(remarks == std::vector<std::string>{missing, no_model, no_model});  // of steps 15, 20, 25
  CHECK(files_of(run) == files_of(whole));
  for (const i64 step : {30, 40}) CHECK(read_file(kept_path(run, step)) == read_file(kept_path(whole, step)));
  CHECK_FALSE(std::filesystem::exists(kept_path(run, 20)));

  SUBCASE("the last one fails the work") {
    settings.epochs = 5;
    Task last(settings);
    trainer.on_step = [&](const StepReport& report) {
      if (report.step == 48) std::filesystem::rename(run, away);
    };
    const auto failure = failure_of([&] { trainer.train(last.run, last.data, run, true); });
    CHECK(failure.first.starts_with("cannot write " + run));
    CHECK(failure.first.ends_with(": No such file or directory; the checkpoint of step 45 stays"));
    CHECK(failure.second);
    CHECK(files_of(away).size() == 2 + 4);
  }
  SUBCASE("and so does the first, if that is asked for") {
    settings.stop_on_save_failure = true;
    const std::string other = folder / "other";
    std::filesystem::create_directory(other);
    Task first(settings);
    trainer.on_step = [&](const StepReport& report) {
      if (report.step == 7) std::filesystem::rename(other, folder / "gone");
    };
    const auto failure = failure_of([&] { trainer.train(first.run, first.data, other); });
    CHECK(failure.first == fmt::format("cannot write {}/kept/step-10.safetensors: No such file or directory; the checkpoint of "
                                       "step 5 stays",
                                       other));
  }
}

TEST_CASE("training reduces the loss and reports its steps") {
  Task task(small(10));
  const double untrained = perplexity(task.run, task.data.valid, 7).value();
  std::vector<StepReport> steps;
  std::vector<ValidationReport> epochs;
  Trainer trainer;
  trainer.on_step = [&](const StepReport& report) { steps.push_back(report); };
  trainer.on_validation = [&](const ValidationReport& report) { epochs.push_back(report); };
  trainer.train(task.run, task.data, "");
  REQUIRE(epochs.size() == 10);
  REQUIRE(steps.size() == 100);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CHECK(steps[i].step == static_cast<i64>(i) + 1);
    CHECK(steps[i].epoch == static_cast<i64>(i) / 10 + 1);
    CHECK(steps[i].step_in_epoch == static_cast<i64>(i) % 10 + 1);
    CHECK(steps[i].steps_in_epoch == 10);
    CHECK(steps[i].gradient_norm > 0);
    CHECK(steps[i].tokens_per_second > 0);
    CHECK(steps[i].seconds_left >= 0);
  }
  CHECK(steps.back().seconds_left == doctest::Approx(0));
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    CHECK(epochs[i].train_loss == doctest::Approx(steps[10 * i + 9].loss));
    CHECK(epochs[i].train_perplexity == doctest::Approx(std::exp(epochs[i].train_loss)));
    if (i > 0) CHECK(epochs[i].train_loss < epochs[i - 1].train_loss);
  }
  CHECK(epochs.back().train_loss < 0.65 * epochs.front().train_loss);
  CHECK(epochs.back().validation_perplexity < 0.2 * untrained);
  CHECK(epochs.back().validation_perplexity == perplexity(task.run, task.data.valid, task.run.settings.batch).value());
}

TEST_CASE("each epoch sees the same text in another order") {
  Settings settings = small(2);
  settings.precision = "f64";
  settings.learning_rate = 1e-300;  // so that losses depend on the data alone
  settings.dropout = 0;
  Task task(settings);
  std::vector<double> first, last;
  Trainer trainer;
  trainer.on_step = [&](const StepReport& report) {
    if (report.step_in_epoch == 1) first.push_back(report.loss);
    if (report.step_in_epoch == report.steps_in_epoch) last.push_back(report.loss);
  };
  trainer.train(task.run, task.data, "");
  REQUIRE(first.size() == 2);
  CHECK(std::fabs(first[0] - first[1]) > 1e-9);
  CHECK(std::fabs(last[0] - last[1]) < 1e-12);
}

TEST_CASE("perplexity does not depend on the batch size, and a model whose output layer is 0 guesses") {
  Settings settings = small(0);
  settings.precision = "f64";
  Task task(settings);
  const Perplexity one = perplexity(task.run, task.data.valid, 1);
  i64 tokens = 0;
  for (const EncodedPair& pair : task.data.valid) tokens += static_cast<i64>(pair.target.size()) + 1;
  CHECK(one.tokens == tokens);
  CHECK(one.value() == doctest::Approx(std::exp(one.negative_log_likelihood / static_cast<double>(tokens))));
  for (i64 batch : {3, 20, 1000})
    CHECK(perplexity(task.run, task.data.valid, batch).value() == doctest::Approx(one.value()).epsilon(1e-12));
  for (Parameter* parameter : task.run.block.parameters())
    if (parameter->name.starts_with("decoder.out.")) parameter->value.fill(0);
  CHECK(perplexity(task.run, task.data.valid, 7).value() ==
        doctest::Approx(static_cast<double>(task.target.size())).epsilon(1e-12));
}

TEST_CASE("the weights of the best epoch are kept, not the last one's") {
  TemporaryFolder folder;
  Settings settings = small(6);
  Task task(settings);
  start_folder(task.run, folder.path.string());
  // The last epoch's steps are far too long, so that it is worse than those before on any number of threads.
  std::vector<ValidationReport> epochs;
  Trainer trainer;
  trainer.on_validation = [&](const ValidationReport& report) {
    epochs.push_back(report);
    if (report.epoch + 1 == settings.epochs) task.run.settings.learning_rate = 0.3;
  };
  trainer.train(task.run, task.data, folder.path.string());
  double best = std::numeric_limits<double>::infinity();
  for (const ValidationReport& report : epochs) {
    CHECK(report.best == (report.validation_perplexity < best));
    best = std::min(best, report.validation_perplexity);
  }
  REQUIRE(!epochs.back().best);
  const std::unique_ptr<Run> kept = open_run(folder.path.string());
  CHECK(perplexity(*kept, task.data.valid, settings.batch).value() == best);
  CHECK(perplexity(task.run, task.data.valid, settings.batch).value() == epochs.back().validation_perplexity);
}

TEST_CASE("patience ends training, also when it is resumed") {
  TemporaryFolder folder;
  Settings settings = small(10);
  settings.precision = "f64";
  settings.learning_rate = 1e-300;  // nothing ever gets better
  settings.patience = 2;
  Task task(settings);
  start_folder(task.run, folder.path.string());
  CHECK(task.train(folder.path.string()).size() == 3);
  CHECK(task.train(folder.path.string(), true).empty());
  task.run.settings.patience = 4;
  CHECK(task.train(folder.path.string(), true).size() == 2);
  task.run.settings.patience = 0;
  CHECK(task.train(folder.path.string(), true).size() == 5);
  CHECK(count_lines(folder / "metrics.jsonl") == 10);
  CHECK(task.train(folder.path.string(), true).empty());  // all epochs are done
}

TEST_CASE("accumulated parts of a batch make the step of the whole batch") {
  for (const char* attention : {"sdp", "mean"}) {
    Settings settings = small(1);
    settings.attention = attention;
    settings.precision = "f64";
    settings.dropout = 0;
    settings.label_smoothing = 0.1;
    Task whole(settings), parts(settings);
    settings.accumulate = 3;
    const std::vector<std::size_t> rows{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};  // of different lengths: parts weigh differently
    const std::vector<std::vector<std::size_t>> cut{{0, 1, 2, 3, 4}, {5}, {6, 7, 8, 9}};
    const Batch batch = make_batch(whole.data.train, rows);
    std::vector<Batch> batches;
    for (const auto& part : cut) batches.push_back(make_batch(parts.data.train, part));
    nn::Adam first(whole.run.block), second(parts.run.block);
    Tape tape;
    for (i64 step = 0; step < 3; ++step) {
      const StepResult one = train_step(whole.run, first, tape, {&batch, 1}, step, 0.01);
      const StepResult many = train_step(parts.run, second, tape, batches, step, 0.01);
      CHECK(many.tokens == one.tokens);
      CHECK(many.loss == doctest::Approx(one.loss).epsilon(1e-12));
      CHECK(many.gradient_norm == doctest::Approx(one.gradient_norm).epsilon(1e-12));
      const Values expected = whole.run.block.gradients().to_vector<double>(),
                   found = parts.run.block.gradients().to_vector<double>();
      double worst = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::fabs(found[i] - expected[i]));
      CHECK(worst <= 1e-12 * one.gradient_norm);
      CHECK(worst > 0);  // they were added up in another order
    }
  }
}

TEST_CASE("training with accumulation goes the way of the larger batch, and draws other dropout masks") {
  for (const i64 tokens : {0, 152}) {
    Settings settings = small(3);
    settings.precision = "f64";
    settings.dropout = 0;
    settings.batch_tokens = tokens;
    Task whole(settings);
    settings.batch /= 4;
    settings.batch_tokens /= 4;
    settings.accumulate = 4;
    Task parts(settings);
    const auto expected = whole.train(), found = parts.train();
    REQUIRE(found.size() == 3);
    CHECK(found.back().step == expected.back().step);
    CHECK(found.back().train_loss == doctest::Approx(expected.back().train_loss).epsilon(1e-10));
    CHECK(found.back().validation_perplexity == doctest::Approx(expected.back().validation_perplexity).epsilon(1e-10));
    settings.dropout = 0.2;
    Task dropped(settings);
    settings.batch *= 4;
    settings.batch_tokens *= 4;
    settings.accumulate = 1;
    Task dropped_whole(settings);
    CHECK(std::fabs(dropped.train().back().train_loss - dropped_whole.train().back().train_loss) > 1e-6);
  }
}

TEST_CASE("the parts of a step draw different masks, and other ones than the parts of the next step") {
  Settings settings = small(1);
  settings.precision = "f64";
  settings.dropout = 0.5;
  settings.accumulate = 2;
  Task task(settings);
  nn::Adam adam(task.run.block);
  Tape tape;
  const Batch batch = make_batch(task.data.train, {0, 1});
  const std::vector<Batch> twice{batch, batch};
  const auto loss = [&](std::span<const Batch> parts, i64 step) {
    return train_step(task.run, adam, tape, parts, step, 1e-300).loss;
  };
  const double first = loss({&batch, 1}, 0), both = loss(twice, 0), next = loss({&batch, 1}, 1);
  const double second = 2 * both - first;
  CHECK(loss({&batch, 1}, 0) == first);
  CHECK(std::fabs(first - second) > 1e-3);
  CHECK(std::fabs(first - next) > 1e-3);
  CHECK(std::fabs(second - next) > 1e-3);
}

TEST_CASE("the schedule's learning rate is the step's and stands in the reports") {
  Settings settings = small(2);
  settings.schedule = "inverse-sqrt";
  settings.warmup = 4;
  Task task(settings);
  std::vector<double> rates;
  std::vector<ValidationReport> validations;
  Trainer trainer;
  trainer.on_step = [&](const StepReport& report) { rates.push_back(report.learning_rate); };
  trainer.on_validation = [&](const ValidationReport& report) { validations.push_back(report); };
  trainer.train(task.run, task.data, "");
  REQUIRE(rates.size() == 20);
  CHECK(rates[0] == doctest::Approx(0.01 / 4));
  CHECK(rates[3] == 0.01);
  CHECK(rates[15] == doctest::Approx(0.01 / 2));
  CHECK(validations[1].learning_rate == rates[19]);
  CHECK(validations[1].gradient_norm > 0);

  settings.warmup = 0;
  settings.schedule = "plateau";
  settings.learning_rate = 1e-300;  // nothing ever gets better after the first
  settings.precision = "f64";
  settings.epochs = 6;
  settings.decay = 0.1;
  settings.decay_patience = 2;
  settings.min_learning_rate = 5e-302;
  Task stalled(settings);
  std::vector<double> by_epoch;
  for (const ValidationReport& report : stalled.train()) by_epoch.push_back(report.learning_rate);
  CHECK(by_epoch == std::vector<double>{1e-300, 1e-300, 1e-300, 1e-300 * 0.1, 1e-300 * 0.1, 5e-302});
}

TEST_CASE("validations by step, and steps that end training") {
  Settings settings = small(3);
  settings.validate_every = 7;
  settings.max_steps = 25;
  Task task(settings);
  std::vector<ValidationReport> validations;
  Trainer trainer;
  trainer.on_validation = [&](const ValidationReport& report) { validations.push_back(report); };
  CHECK(trainer.train(task.run, task.data, "").reason == TrainingEnd::Reason::steps);
  std::vector<i64> steps, epochs;
  for (const ValidationReport& one : validations) {
    steps.push_back(one.step);
    epochs.push_back(one.epoch);
  }
  CHECK(steps == std::vector<i64>{7, 14, 21, 25});
  CHECK(epochs == std::vector<i64>{1, 2, 3, 3});
  CHECK(validations[1].epochs == doctest::Approx(1.4));
  CHECK(validations[3].epochs == doctest::Approx(2.5));
  // Each is of its own steps: the losses fall, and together they are what whole epochs say.
  CHECK(validations[1].train_loss < validations[0].train_loss);
  settings.validate_every = 0;
  settings.max_steps = 0;
  Task whole(settings);
  const std::vector<ValidationReport> by_epoch = whole.train();
  CHECK(by_epoch.back().step == 30);
  settings.max_steps = 25;
  Task again(settings);
  CHECK(again.train().back().train_loss != by_epoch.back().train_loss);
  CHECK(again.weights() == task.weights());  // validations change nothing
}

TEST_CASE("time ends training with a validation, after one step at least") {
  Settings settings = small(1000);
  settings.max_time = 1e-9;
  Task task(settings);
  std::vector<StepReport> steps;
  Trainer trainer;
  i64 validations = 0;
  trainer.on_step = [&](const StepReport& report) { steps.push_back(report); };
  trainer.on_validation = [&](const ValidationReport&) { ++validations; };
  CHECK(trainer.train(task.run, task.data, "").reason == TrainingEnd::Reason::time);
  CHECK(steps.size() == 1);
  CHECK(validations == 1);
  task.run.settings.max_time = 0.05;
  CHECK(trainer.train(task.run, task.data, "").reason == TrainingEnd::Reason::time);
  CHECK(steps.size() > 1);
  CHECK(validations > 1);
}

TEST_CASE("validation by BLEU keeps the weights that translate best") {
  TemporaryFolder folder;
  Settings settings = small(14);
  settings.validate_by = "bleu";
  settings.dropout = 0;
  Task task(settings);
  start_folder(task.run, folder.path.string());
  const std::vector<ValidationReport> reports = task.train(folder.path.string());
  double best = -1;
  for (const ValidationReport& report : reports) {
    CHECK(report.best == (report.validation_bleu > best));
    best = std::max(best, report.validation_bleu);
  }
  CHECK(best > 0);
  const std::unique_ptr<Run> kept = open_run(folder.path.string());
  CHECK(greedy_bleu(*kept, task.data.valid, task.data.valid_references, 7) == doctest::Approx(best).epsilon(1e-9));
  CHECK(task.train().front().validation_bleu > 0);
  settings.validate_by = "perplexity";
  Task other(settings);
  CHECK(std::isnan(other.train().front().validation_bleu));
}

TEST_CASE("a moving average is what is validated and saved, and training goes on from the weights") {
  TemporaryFolder folder;
  Settings settings = small(3);
  Task plain(settings);
  plain.train();
  settings.ema = 0.9;
  Task task(settings);
  start_folder(task.run, folder.path.string());
  const std::vector<ValidationReport> reports = task.train(folder.path.string());
  CHECK(task.weights() == plain.weights());
  const std::unique_ptr<Run> saved = open_run(folder.path.string());
  CHECK(saved->block.values().to_vector<float>() != task.run.block.values().to_vector<float>());
  REQUIRE(reports.back().best);
  CHECK(perplexity(*saved, task.data.valid, settings.batch).value() == reports.back().validation_perplexity);
  CHECK(perplexity(task.run, task.data.valid, settings.batch).value() != reports.back().validation_perplexity);

  // Resumed after one epoch, it is the same.
  const std::string parts = folder / "parts";
  settings.epochs = 1;
  Task first(settings);
  start_folder(first.run, parts);
  first.train(parts);
  settings.epochs = 3;
  Task second(settings);
  second.train(parts, true);
  for (const char* file : {"/model.safetensors", "/checkpoint.safetensors"})
    CHECK(read_file(parts + file) == read_file(folder.path.string() + file));
}

TEST_CASE("the weights of the best and of the last validations are kept, and their mean is the model") {
  for (const char* which : {"best", "last"}) {
    CAPTURE(which);
    TemporaryFolder folder;
    const std::string run = folder.path.string();
    Settings settings = small(7);
    settings.validate_every = 10;
    settings.average = 3;
    settings.average_of = which;
    settings.keep_best = settings.keep_last = 2;
    Task task(settings);
    start_folder(task.run, run);
    std::vector<ValidationReport> reports;
    Trainer trainer;
    trainer.on_validation = [&](const ValidationReport& report) {
      reports.push_back(report);
      // Worse from here on: a little, so that a mean is better than each; or so much that none is.
      if (report.step == 40) task.run.settings.learning_rate = std::string(which) == "best" ? 0.1 : 1;
    };
    const TrainingEnd end = trainer.train(task.run, task.data, run);
    const bool best = std::string(which) == "best";
    std::vector<ValidationReport> by_score = reports;
    std::stable_sort(by_score.begin(), by_score.end(),
                     [](const auto& a, const auto& b) { return a.validation_perplexity < b.validation_perplexity; });
    std::vector<i64> mean, all;
    for (std::size_t i = 0; i < 3; ++i) mean.push_back(best ? by_score[i].step : reports[reports.size() - 1 - i].step);
    all = mean;
    for (std::size_t i = 0; i < 2; ++i) {
      all.push_back(by_score[i].step);
      all.push_back(reports[reports.size() - 1 - i].step);
    }
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    for (const ValidationReport& report : reports)
      CHECK(std::filesystem::exists(kept_path(run, report.step)) == std::binary_search(all.begin(), all.end(), report.step));

    Values expected(task.weights().size(), 0);
    Task other(settings);
    for (const i64 step : mean) {
      load_weights(other.run, kept_path(run, step));
      const Values weights = other.weights();
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += weights[i] / 3;
    }
    CHECK(end.averaged_count == 3);
    CHECK(end.averaged == (end.perplexity < by_score[0].validation_perplexity));
    CHECK(end.averaged == best);
    load_weights(other.run, run + "/model.safetensors");
    CHECK(perplexity(other.run, other.data.valid, settings.batch).value() ==
          (end.averaged ? end.perplexity : by_score[0].validation_perplexity));
    const Values found = other.weights();
    double worst = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::fabs(expected[i] - found[i]));
    CHECK((worst < 1e-6) == end.averaged);
    CHECK(task.weights() != found);  // training would go on from its own
  }
}

TEST_CASE("word dropout and output dropout act in training alone") {
  Settings settings = small(1);
  settings.precision = "f64";
  settings.dropout = 0;
  const auto losses = [](const Settings& s) {
    Task task(s);
    const double before = perplexity(task.run, task.data.valid, 7).value();
    nn::Adam adam(task.run.block);
    Tape tape;
    const Batch batch = make_batch(task.data.train, {0, 1, 2});
    const double first = train_step(task.run, adam, tape, {&batch, 1}, 0, 1e-300).loss;
    const double second = train_step(task.run, adam, tape, {&batch, 1}, 1, 1e-300).loss;
    return std::array{before, first, second};
  };
  const auto plain = losses(settings);
  CHECK(plain[1] == plain[2]);
  Settings words = settings, output = settings;
  words.word_dropout = 0.3;
  output.output_dropout = 0.3;
  for (const Settings& one : {words, output}) {
    const auto dropped = losses(one);
    CHECK(dropped[0] == plain[0]);
    CHECK(dropped[1] != plain[1]);
    CHECK(dropped[1] != dropped[2]);
    CHECK(losses(one) == dropped);
  }
}

TEST_CASE("training that diverges fails by step, and leaves the files of the epoch before") {
  const struct {
    double learning_rate;
    const char* message;
  } all[] = {
      {1e38,
       "the loss is nan at step 2 (first non-finite parameter: encoder.embedding.weight): lower --learning-rate or --clip"},
      {1e18,
       "the loss is inf at step 2 ([linear_cross_entropy] its value is not finite: inf): lower --learning-rate or --clip"},
      {1e10, "the validation perplexity is inf after epoch 1, at step 10: lower --learning-rate or --clip"},
  };
  for (const auto& one : all) {
    TemporaryFolder folder;
    Settings settings = small(3);
    settings.learning_rate = one.learning_rate;
    Task task(settings);
    const std::pair<std::string, bool> expected{one.message, true};
    CHECK(failure_of([&] { task.train(folder.path.string()); }) == expected);
    CHECK(std::filesystem::is_empty(folder.path));

    Task good(small(1));
    good.train(folder.path.string());
    // A resumed run keeps its learning rate, so that one is forgotten here.
    SafetensorsFile checkpoint = read_safetensors(folder / "checkpoint.safetensors");
    checkpoint.metadata["settings"] = "";
    write_safetensors(folder / "checkpoint.safetensors", checkpoint.tensors, checkpoint.metadata, true);
    const auto files = [&] {
      return std::vector{read_file(folder / "model.safetensors"), read_file(folder / "checkpoint.safetensors"),
                         read_file(folder / "metrics.jsonl")};
    };
    const std::vector<std::string> before = files();
    Task resumed(settings);
    const std::string message = failure_of([&] { resumed.train(folder.path.string(), true); }).first;
    CHECK(message.find(one.learning_rate < 1e15 ? "after epoch 2, at step 20" : "at step 12") != message.npos);
    CHECK(files() == before);
  }
}

TEST_CASE("an operation that goes wrong is named with its step, and the option finds it where the loss is finite") {
  Task task(small(1));
  nn::Adam adam(task.run.block);
  Tape tape;
  const Batch batch = make_batch(task.data.train, {0, 1});
  const auto failure = [&](bool watch) {
    task.run.settings.detect_anomaly = watch;
    return failure_of([&] { train_step(task.run, adam, tape, batch, 4); });
  };
  const auto parameter = [&](const std::string& name) {
    for (const Parameter* one : task.run.block.parameters())
      if (one->name == name) return one->value;
    throw_error("no {}", name);
  };
  // Logits of 1e38 times 1e38.
  const Tensor weight = parameter("decoder.out.weight"), kept = weight.clone();
  weight.fill(3e38);
  CHECK(failure(false).first ==
        "the loss is nan at step 5 ([linear_cross_entropy] its value is not finite: nan): lower --learning-rate or --clip");
  CHECK(failure(true).first == "at step 5: [linear_cross_entropy] its value is not finite: nan");
  CHECK(failure(true).second);
  weight.copy_from(kept);
  const Tensor embedding = parameter("encoder.embedding.weight");
  const Tensor word = embedding.select(0, batch.source[0]);
  word.fill(std::numeric_limits<double>::quiet_NaN());
  CHECK(failure(false).first ==
        "the loss is nan at step 5 (first non-finite parameter: encoder.embedding.weight): lower --learning-rate or --clip");
  CHECK(failure(true).first.starts_with(
      "at step 5: [embedding] it reads encoder.embedding.weight, which is not finite: nan at ("));
}

TEST_CASE("looking for anomalies finds none in a training of any kind, and learns the same") {
  for (const char* attention : {"none", "mean", "sdp", "bahdanau", "luong_general"})
    for (const char* cell : {"gru", "lstm", "rnn"}) {
      CAPTURE(attention);
      CAPTURE(cell);
      Settings settings = small(1);
      settings.attention = attention;
      settings.cell = cell;
      settings.precision = "f64";
      settings.teacher_forcing = 0.7;
      settings.max_steps = 3;
      Task plain(settings);
      settings.detect_anomaly = true;
      Task watched(settings);
      for (Task* task : {&plain, &watched}) task->train("");
      const auto a = plain.run.block.values().to_vector<double>(), b = watched.run.block.values().to_vector<double>();
      double worst = 0;
      for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::fabs(a[i] - b[i]));
      CHECK(worst < 1e-9);
    }
}

TEST_CASE("text is prepared once, and a resumed run takes its own vocabulary") {
  TemporaryFolder folder;
  Settings settings = small(1);
  const auto missing = [&](const char* option) {
    CHECK(message_of([&] { prepare(settings); }) ==
          fmt::format("--{} is missing: give the training and validation text, or --preset with --data", option));
  };
  missing("train-source");
  settings.train_source = folder.file("train.de", "ein hund\n\nein ball\nein hund ein ball\n");
  missing("train-target");
  settings.train_target = folder.file("train.en", "a dog\nempty\na ball\na dog a ball\n");
  missing("valid-source");
  settings.valid_source = folder.file("valid.de", "ein hund\n");
  missing("valid-target");
  settings.valid_target = folder.file("valid.en", "a dog\n");
  settings.max_length = 3;
  const Prepared prepared = prepare(settings);
  CHECK(prepared.left_out.empty == 1);
  CHECK(prepared.left_out.too_long == 1);
  CHECK(prepared.data.train.size() == 2);
  CHECK(prepared.data.valid.size() == 1);
  CHECK(prepared.run->source == Vocabulary::build({{"ein", "ein"}}));  // seen at least twice
  start_folder(*prepared.run, folder / "run");

  folder.file("train.de", "die frau die frau die frau\ndie frau\n");
  folder.file("train.en", "the woman\nthe woman\n");
  const Prepared resumed = prepare_resumed(settings, folder / "run");
  CHECK(resumed.run->source == prepared.run->source);
  CHECK(resumed.run->target == prepared.run->target);
  CHECK(resumed.data.train.size() == 1);
  settings.dropout = 1;
  CHECK(message_of([&] { prepare(settings); }) == "dropout is 1: it must be at least 0 and below 1");
}

TEST_CASE("training in bf16 goes nearly the way of f32, and keeps its weights in f32") {
  Settings settings = small(2);
  settings.embedding = 64;  // large enough that products are rounded
  settings.hidden = 64;
  Task exact(settings);
  settings.precision = "bf16";
  Task rounded(settings);
  const auto expected = exact.train(), got = rounded.train();
  CHECK(rounded.run.block.values().dtype() == DType::f32);
  CHECK(rounded.weights() != exact.weights());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(got[i].validation_perplexity == doctest::Approx(expected[i].validation_perplexity).epsilon(0.05));
  CHECK(float32_matmul_precision() == MatmulPrecision::highest);
}
