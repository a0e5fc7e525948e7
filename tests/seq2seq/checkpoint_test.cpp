// Checkpoints: what is saved is what is loaded, and what is damaged changes nothing.
#include "seq2seq/checkpoint.h"

#include <doctest/doctest.h>

#include <functional>

#include "seq2seq/train.h"
#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Values = std::vector<double>;

namespace {

Settings small(const std::string& precision = "f32") {
  Settings settings{.attention = "sdp", .embedding = 5, .hidden = 4, .attention_dim = 3};
  settings.precision = precision;
  return settings;
}

Vocabulary words(i64 count) {
  std::vector<std::string> all;
  for (i64 i = 0; i < count; ++i) all.push_back(fmt::format("w{:02}", i));
  return Vocabulary::build({all});
}

Run make_run(const Settings& settings = small()) { return Run(settings, words(9), words(7)); }

Values values(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

// Writes the file again after a change to its tensors.
std::string changed(const std::string& path, const std::string& to, const std::function<void(SafetensorsFile&)>& change) {
  SafetensorsFile file = read_safetensors(path);
  change(file);
  write_safetensors(to, file.tensors, file.metadata);
  return to;
}

NamedTensor& named(SafetensorsFile& file, const std::string& name) {
  for (NamedTensor& tensor : file.tensors)
    if (tensor.name == name) return tensor;
  throw_error("no {}", name);
}

void remove(SafetensorsFile& file, const std::string& name) {
  std::erase_if(file.tensors, [&](const NamedTensor& tensor) { return tensor.name == name; });
}

}  // namespace

TEST_CASE("a checkpoint keeps weights, moments and the place in training") {
  Progress saved{.epoch = 3, .step = 1234, .batch = 7, .validated = 1200, .best_step = 800, .best_epoch = 2};
  saved.best_score = 0.1 + 0.2;
  saved.stalled = 4;
  saved.plateau = {0.1, 1};
  saved.loss = 1.0 / 3;
  saved.gradient_norm = 2.0 / 7;
  saved.tokens = 99;
  saved.steps = 11;
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
    save_checkpoint(run, adam, nullptr, saved, path);
    Run other = make_run(small(precision));
    other.block.values().fill(0);
    nn::Adam restored(other.block);
    CHECK(load_checkpoint(other, restored, nullptr, path) == saved);
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
      {[](SafetensorsFile& f) { f.metadata.clear(); }, ": this is not a checkpoint: its metadata has no 'format'"},
      {[](SafetensorsFile& f) { f.metadata["format"] = "99"; },
       ": format 99 is not 2: it was written by another version of seqgrad"},
      {[](SafetensorsFile& f) { f.metadata["step"] = "12x"; }, ": 'step' is no number but '12x'"},
      {[](SafetensorsFile& f) { f.metadata["step"] = "1.5"; }, ": 'step' is no number but '1.5'"},
      {[](SafetensorsFile& f) { f.metadata["best_score"] = ""; }, ": 'best_score' is no number but ''"},
      {[](SafetensorsFile& f) { f.metadata["kept"] = "5 1.5 x 2"; }, ": 'kept' is no number but 'x'"},
      {[](SafetensorsFile& f) { f.metadata["kept"] = "5 1.5 6"; }, ": 'kept' is no number but ''"},
  };
  TemporaryFolder folder;
  Run run = make_run();
  nn::Adam adam(run.block);
  save_checkpoint(run, adam, nullptr, {.epoch = 1, .step = 10}, folder / "good");
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
    CHECK(message_of([&] { load_checkpoint(run, adam, nullptr, path); }) == path + wrong.message);
    CHECK(untouched());
  }
  const std::string content = read_file(folder / "good");
  for (std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{200}, content.size() / 2, content.size() - 1}) {
    const std::string path = folder.file("cut", std::string_view(content).substr(0, size));
    CHECK(message_of([&] { load_checkpoint(run, adam, nullptr, path); }).starts_with(path + ": "));
    CHECK(untouched());
  }
  save_weights(run, folder / "model");
  CHECK(message_of([&] { load_checkpoint(run, adam, nullptr, folder / "model"); }) ==
        folder / "model" + ": format 1 is not 2: it was written by another version of seqgrad");
  load_checkpoint(run, adam, nullptr, folder / "good");
  CHECK(!untouched());
}

TEST_CASE("a checkpoint keeps the moving average, and one without it is refused where it is wanted") {
  TemporaryFolder folder;
  Run run = make_run();
  nn::Adam adam(run.block);
  nn::MovingAverage average(run.block, 0.9);
  run.block.values().fill(2);
  average.update(1);
  const Values expected = values(average.values());
  save_checkpoint(run, adam, &average, {}, folder / "with");
  save_checkpoint(run, adam, nullptr, {}, folder / "without");
  average.values().fill(0);
  CHECK(message_of([&] { load_checkpoint(run, adam, &average, folder / "without"); }) ==
        folder / "without" + ": ema/encoder.embedding.weight is missing: the file belongs to another model");
  CHECK(message_of([&] { load_checkpoint(run, adam, nullptr, folder / "with"); }) ==
        folder / "with" + ": the model has no ema/encoder.embedding.weight: the file belongs to another model");
  load_checkpoint(run, adam, &average, folder / "with");
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
