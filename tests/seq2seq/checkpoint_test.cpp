// Checkpoints: what is saved is what is loaded, and what is damaged changes nothing.
#include "seq2seq/checkpoint.h"

#include <doctest/doctest.h>

#include "seq2seq/random.h"
#include "tests/seq2seq/small_run.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using namespace seqgrad::seq2seq::test;

TEST_CASE("a checkpoint keeps weights, moments and the place in training") {
  Progress saved{.epoch = 3, .step = 1234, .batch = 7, .validated = 1200, .best_step = 800, .best_epoch = 2};
  saved.best_score = 0.1 + 0.2;
  saved.stalled = 4;
  saved.plateau = {0.1, 1};
  saved.loss = 1.0 / 3;
  saved.gradient_norm = 2.0 / 7;
  saved.tokens = 99;
  saved.steps = 11;
  saved.threads = 5;
  saved.kept = {{800, 0.1 + 0.2}, {1200, 1e300}};
  TemporaryFolder folder;
  const std::string path = folder / "checkpoint.safetensors";
  for (const char* precision : {"f32", "f64"}) {
    Run run = make_run(small(precision));
    nn::Adam adam(run.block);
    Generator generator(5);
    const auto fill = [&](const Tensor& whole) {
      for (std::size_t i = 0; i < run.block.parameters().size(); ++i) {
        const Tensor part = run.block.part(whole, i);
        part.copy_from(randn(part.shape(), part.dtype(), generator));
      }
    };
    fill(adam.first_moments());
    fill(adam.second_moments());
    save_checkpoint(run, adam, nullptr, saved, "text", path);
    Run other = make_run(small(precision));
    other.block.values().fill(0);
    nn::Adam restored(other.block);
    CHECK(load_checkpoint(other, restored, nullptr, "text", path) == saved);
    CHECK(restored.steps() == 1234);
    CHECK(values(other.block.values()) == values(run.block.values()));
    CHECK(values(restored.first_moments()) == values(adam.first_moments()));
    CHECK(values(restored.second_moments()) == values(adam.second_moments()));
  }
}

TEST_CASE("a damaged checkpoint is refused and changes nothing, neither weights nor moments") {
  struct Wrong {
    std::function<void(SafetensorsFile&)> change;
    const char* message;
  };
  const std::vector<Wrong> all{
      {[](SafetensorsFile& f) { remove(f, "adam.v/decoder.out.bias"); },
       ": adam.v/decoder.out.bias is missing: the file belongs to another model"},
      {[](SafetensorsFile& f) { remove(f, "model/decoder.out.bias"); },
       ": model/decoder.out.bias is missing: the file belongs to another model"},
      {[](SafetensorsFile& f) { named(f, "model/decoder.out.bias").value = zeros({12}); },
       ": model/decoder.out.bias has shape (12), the model needs (11)"},
      {[](SafetensorsFile& f) { named(f, "adam.m/decoder.out.bias").value = Tensor::from(std::vector<i64>(11, 1), {11}); },
       ": adam.m/decoder.out.bias holds i64, not weights"},
      {[](SafetensorsFile& f) {
         f.tensors.push_back({"model/encoder.gru.bias_ih_l1", zeros({12})});
       },
       ": the model has no model/encoder.gru.bias_ih_l1: the file belongs to another model"},
      {[](SafetensorsFile& f) { f.metadata.erase("epoch"); }, ": this is not a checkpoint: its metadata has no 'epoch'"},
      {[](SafetensorsFile& f) { f.metadata.erase("kept"); }, ": this is not a checkpoint: its metadata has no 'kept'"},
      {[](SafetensorsFile& f) { f.metadata.erase("checksum"); }, ": this is not a checkpoint: its metadata has no 'checksum'"},
      {[](SafetensorsFile& f) { f.metadata["vocab.target"] = "0"; },
       ": it was made with another vocab.target than the one beside it"},
      {[](SafetensorsFile& f) { f.metadata["data"] = "other"; },
       ": it was made with other training or validation text than the files of its config.toml hold now"},
      {[](SafetensorsFile& f) { f.metadata.clear(); }, ": this is not a checkpoint: its metadata has no 'format'"},
      {[](SafetensorsFile& f) { f.metadata["format"] = "99"; },
       ": format 99 is not 3: it was written by another version of seqgrad"},
      {[](SafetensorsFile& f) { f.metadata["step"] = "12x"; }, ": 'step' is no number but '12x'"},
      {[](SafetensorsFile& f) { f.metadata["step"] = "1.5"; }, ": 'step' is no number but '1.5'"},
      {[](SafetensorsFile& f) { f.metadata["best_score"] = ""; }, ": 'best_score' is no number but ''"},
      {[](SafetensorsFile& f) { f.metadata["batch"] = "-1"; }, ": 'batch' is -1, but cannot be negative"},
      {[](SafetensorsFile& f) { f.metadata["kept"] = "5 1.5 x 2"; }, ": 'kept' is no number but 'x'"},
      {[](SafetensorsFile& f) { f.metadata["kept"] = "5 1.5 6"; }, ": 'kept' is no number but ''"},
  };
  TemporaryFolder folder;
  Run run = make_run();
  nn::Adam adam(run.block);
  save_checkpoint(run, adam, nullptr, {.epoch = 1, .step = 10}, "text", folder / "good");
  run.block.values().fill(3);
  adam.first_moments().fill(4);
  adam.second_moments().fill(5);
  adam.set_steps(6);
  const Values before = values(run.block.values());
  const auto untouched = [&] {
    return values(run.block.values()) == before && values(adam.first_moments()) == Values(before.size(), 4) &&
           values(adam.second_moments()) == Values(before.size(), 5) && adam.steps() == 6;
  };
  for (const Wrong& wrong : all) {
    const std::string path = changed(folder / "good", folder / "bad", wrong.change);
    CHECK(message_of([&] { load_checkpoint(run, adam, nullptr, "text", path); }) == path + wrong.message);
    CHECK(untouched());
  }
  const std::string content = read_file(folder / "good");
  for (std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{200}, content.size() / 2, content.size() - 1}) {
    const std::string path = folder.file("cut", std::string_view(content).substr(0, size));
    CHECK(message_of([&] { load_checkpoint(run, adam, nullptr, "text", path); }).starts_with(path + ": "));
    CHECK(untouched());
  }
  save_weights(run, folder / "model");
  CHECK(message_of([&] { load_checkpoint(run, adam, nullptr, "text", folder / "model"); }) ==
        folder / "model" + ": these are a model's weights, not a checkpoint");
  load_checkpoint(run, adam, nullptr, "text", folder / "good");
  CHECK(!untouched());
}

TEST_CASE("checkpoints of earlier versions are read, without checksums") {
  TemporaryFolder folder;
  Run run = make_run();
  nn::Adam adam(run.block);
  Progress saved{.epoch = 3, .step = 30, .batch = 0, .validated = 30, .best_step = 20, .best_epoch = 2};
  saved.best_score = 6.5;
  saved.stalled = 1;
  saved.threads = 4;
  save_checkpoint(run, adam, nullptr, saved, "text", folder / "now");
  saved.threads = 0;  // not known
  const Values weights = values(run.block.values());
  const std::string second = changed(folder / "now", folder / "second", [](SafetensorsFile& f) {
    for (const char* key : {"checksum", "settings", "vocab.source", "vocab.target", "data", "threads"}) f.metadata.erase(key);
    f.metadata["format"] = "2";
  });
  const auto first = [](SafetensorsFile& f) {
    f.metadata = {
        {"format", "1"}, {"epoch", "3"}, {"step", "30"}, {"best_epoch", "2"}, {"best_perplexity", f.metadata.at("best_score")}};
  };
  for (const std::string& path : {second, changed(folder / "now", folder / "first", first)}) {
    run.block.values().fill(0);
    CHECK(load_checkpoint(run, adam, nullptr, "other text", path) == saved);
    CHECK(values(run.block.values()) == weights);
    CHECK(adam.steps() == 30);
  }
  const std::string odd = changed(folder / "now", folder / "odd", [&](SafetensorsFile& f) {
    first(f);
    f.metadata["best_epoch"] = "4";
  });
  CHECK(message_of([&] { load_checkpoint(run, adam, nullptr, "text", odd); }) == odd + ": 'best_epoch' is 4, but 'epoch' 3");
}

TEST_CASE("no flipped bit of a checkpoint or of a model goes unnoticed") {
  TemporaryFolder folder;
  Run run = make_run();
  nn::Adam adam(run.block);
  save_checkpoint(run, adam, nullptr, {.epoch = 1, .step = 10}, "text", folder / "checkpoint");
  save_weights(run, folder / "model");
  const Values weights = values(run.block.values());
  SplitMix64 generator(3);
  for (const char* name : {"checkpoint", "model"}) {
    const std::string good = read_file(folder / name);
    i64 refused = 0;
    for (int i = 0; i < 1000; ++i) {
      std::string bad = good;
      const std::size_t place = i < 300 ? generator.below(900) : generator.below(good.size());  // the header's share is small
      bad[place] = static_cast<char>(bad[place] ^ (1 << generator.below(8)));
      const std::string path = folder.file("bad", bad);
      const std::string message = message_of([&] {
        if (std::string(name) == "model")
          load_weights(run, path);
        else
          load_checkpoint(run, adam, nullptr, "text", path);
      });
      refused += !message.empty();
      CAPTURE(place);
      CHECK((message.starts_with(path + ": ") || message.empty()));
      // Where the word "checksum" itself is hit the weights may be taken for another program's; they are whole.
      if (message.empty()) CHECK(values(run.block.values()) == weights);
      CHECK(message.find('\n') == message.npos);
    }
    CHECK(refused >= 985);
    if (std::string(name) == "checkpoint") CHECK(refused == 1000);
    load_weights(run, folder / "model");
  }
}

TEST_CASE("a checkpoint keeps the moving average, and one without it is refused where it is wanted") {
  TemporaryFolder folder;
  Run run = make_run();
  nn::Adam adam(run.block);
  nn::MovingAverage average(run.block, 0.9);
  run.block.values().fill(2);
  average.update(1);
  const Values expected = values(average.values());
  save_checkpoint(run, adam, &average, {}, "text", folder / "with");
  save_checkpoint(run, adam, nullptr, {}, "text", folder / "without");
  average.values().fill(0);
  CHECK(message_of([&] { load_checkpoint(run, adam, &average, "text", folder / "without"); }) ==
        folder / "without" + ": ema/encoder.embedding.weight is missing: the file belongs to another model");
  CHECK(message_of([&] { load_checkpoint(run, adam, nullptr, "text", folder / "with"); }) ==
        folder / "with" + ": the model has no ema/encoder.embedding.weight: the file belongs to another model");
  load_checkpoint(run, adam, &average, "text", folder / "with");
  for (std::size_t i = 0; i < run.block.parameters().size(); ++i)
    CHECK(values(run.block.part(average.values(), i)) ==
          values(run.block.part(Tensor::from(expected, {static_cast<i64>(expected.size())}), i)));
}

TEST_CASE("kept weights that are wanted no more are removed, and nothing else") {
  TemporaryFolder folder;
  remove_other_kept(folder.path.string(), {});  // no kept/ yet
  std::filesystem::create_directory(folder / "kept");
  for (const i64 step : {3, 10, 30}) write_file(kept_path(folder.path.string(), step), "x");
  remove_other_kept(folder.path.string(), {{10, 1.5}});
  CHECK_FALSE(std::filesystem::exists(kept_path(folder.path.string(), 3)));
  CHECK(std::filesystem::exists(folder / "kept/step-10.safetensors"));
  CHECK_FALSE(std::filesystem::exists(kept_path(folder.path.string(), 30)));
}
