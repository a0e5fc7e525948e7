// Training: the same numbers every time, stopped and resumed or not; what is kept, and when it ends.
#include "seq2seq/train.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "seq2seq/demo_corpus.h"
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
        run(settings, source, target) {}

  std::vector<EpochReport> train(const std::string& folder = "", bool resume = false) {
    std::vector<EpochReport> epochs;
    Trainer trainer;
    trainer.on_epoch = [&](const EpochReport& report) { epochs.push_back(report); };
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
  const std::vector<EpochReport> expected = straight.train(whole);
  REQUIRE(expected.size() == 4);
  for (i64 stop : {0, 1, 3, 4}) {
    CAPTURE(stop);
    const std::string parts = folder / fmt::format("stop{}", stop);
    std::vector<EpochReport> epochs;
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
    for (const EpochReport& report : second.train(parts, stop > 0)) epochs.push_back(report);
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

TEST_CASE("training reduces the loss and reports its steps") {
  Task task(small(10));
  const double untrained = perplexity(task.run, task.data.valid, 7).value();
  std::vector<StepReport> steps;
  std::vector<EpochReport> epochs;
  Trainer trainer;
  trainer.on_step = [&](const StepReport& report) { steps.push_back(report); };
  trainer.on_epoch = [&](const EpochReport& report) { epochs.push_back(report); };
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

TEST_CASE("perplexity does not depend on the batch size, and an untrained model guesses") {
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
  CHECK(one.value() == doctest::Approx(static_cast<double>(task.target.size())).epsilon(0.1));
}

TEST_CASE("the weights of the best epoch are kept, not the last one's") {
  TemporaryFolder folder;
  Settings settings = small(6);
  Task task(settings);
  start_folder(task.run, folder.path.string());
  // The last epoch's steps are far too long, so that it is worse than those before on any number of threads.
  std::vector<EpochReport> epochs;
  Trainer trainer;
  trainer.on_epoch = [&](const EpochReport& report) {
    epochs.push_back(report);
    if (report.epoch + 1 == settings.epochs) task.run.settings.learning_rate = 0.3;
  };
  trainer.train(task.run, task.data, folder.path.string());
  double best = std::numeric_limits<double>::infinity();
  for (const EpochReport& report : epochs) {
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

TEST_CASE("training that diverges fails by step, and leaves the files of the epoch before") {
  const struct {
    double learning_rate;
    const char* message;
  } all[] = {
      {1e38,
       "the loss is nan at step 2 (first non-finite parameter: encoder.embedding.weight): lower --learning-rate or --clip"},
      {1e18, "the loss is inf at step 2: lower --learning-rate or --clip"},
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
  CHECK(prepared.skipped_empty == 1);
  CHECK(prepared.skipped_long == 1);
  CHECK(prepared.data.train.size() == 2);
  CHECK(prepared.data.valid.size() == 1);
  CHECK(prepared.run->source == Vocabulary::build({{"ein", "ein"}}));  // seen at least twice
  start_folder(*prepared.run, folder / "run");

  folder.file("train.de", "die frau die frau die frau\ndie frau\n");
  folder.file("train.en", "the woman\nthe woman\n");
  const Prepared resumed = prepare_resumed(folder / "run");
  CHECK(resumed.run->source == prepared.run->source);
  CHECK(resumed.run->target == prepared.run->target);
  CHECK(resumed.data.train.size() == 1);
  settings.dropout = 1;
  CHECK(message_of([&] { prepare(settings); }) == "dropout is 1: it must be at least 0 and below 1");
}
