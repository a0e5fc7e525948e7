// Runs on disk: what is saved is what is opened, and what does not fit changes nothing.
#include "seq2seq/run.h"

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

TEST_CASE("weights survive a file bit for bit, and f32 and f64 convert into each other") {
  TemporaryFolder folder;
  for (const char* precision : {"f32", "f64"}) {
    const Run saved = make_run(small(precision));
    const std::string path = folder / "model.safetensors";
    save_weights(saved, path);
    Settings other = small(precision);
    other.seed = 2;
    Run loaded = make_run(other);
    CHECK(values(loaded.block.values()) != values(saved.block.values()));
    load_weights(loaded, path);
    CHECK(values(loaded.block.values()) == values(saved.block.values()));
    other.precision = std::string(precision) == "f32" ? "f64" : "f32";
    Run converted = make_run(other);
    load_weights(converted, path);
    for (std::size_t i = 0; i < saved.block.parameters().size(); ++i)
      CHECK(values(converted.block.parameters()[i]->value.to(DType::f32)) ==
            values(saved.block.parameters()[i]->value.to(DType::f32)));
  }
}

TEST_CASE("a folder opens as the run that was saved") {
  TemporaryFolder folder;
  const std::string path = folder / "deep/inside";
  const Run saved = make_run(small("f64"));
  start_folder(saved, path);
  CHECK(message_of([&] { open_run(path); }) == "cannot read " + path + "/model.safetensors: No such file or directory");
  save_weights(saved, path_in(path, "model.safetensors"));
  const std::unique_ptr<Run> opened = open_run(path);
  CHECK(opened->source == saved.source);
  CHECK(opened->target == saved.target);
  CHECK(to_toml(opened->settings) == to_toml(saved.settings));
  CHECK(values(opened->block.values()) == values(saved.block.values()));

  CHECK(message_of([&] { open_run(folder / "none"); }) == folder / "none" + " is not a folder that 'seqgrad train' made");
  CHECK(message_of([&] { open_run(folder.file("file", "")); }) ==
        folder / "file" + " is not a folder that 'seqgrad train' made");
  CHECK(message_of([&] { open_run(folder.path.string()); }) ==
        "cannot read " + folder / "config.toml" + ": No such file or directory");
  words(8).save(path_in(path, "vocab.source"));
  CHECK(message_of([&] { open_run(path); }) ==
        path + "/model.safetensors: encoder.embedding.weight has shape (13, 5), the model needs (12, 5)");
}

TEST_CASE("weights that do not fit are refused by name and change nothing") {
  struct Wrong {
    std::function<void(SafetensorsFile&)> change;
    const char* message;
  };
  const std::vector<Wrong> all{
      {[](SafetensorsFile& f) { remove(f, "decoder.out.bias"); },
       ": decoder.out.bias is missing: the file belongs to another model"},
      {[](SafetensorsFile& f) { f.tensors.clear(); },
       ": encoder.embedding.weight is missing: the file belongs to another model"},
      {[](SafetensorsFile& f) {
         f.tensors.push_back({"decoder.gru.bias_ih_l1", zeros({12})});
       },
       ": the model has no decoder.gru.bias_ih_l1: the file belongs to another model"},
      {[](SafetensorsFile& f) { named(f, "decoder.out.weight").name = "decoder.out.Weight"; },
       ": decoder.out.weight is missing: the file belongs to another model"},
      {[](SafetensorsFile& f) { named(f, "decoder.out.bias").value = zeros({12}); },
       ": decoder.out.bias has shape (12), the model needs (11)"},
      {[](SafetensorsFile& f) {
         Tensor& weight = named(f, "encoder.gru.weight_hh_l0").value;
         weight = weight.transpose(0, 1);
       },
       ": encoder.gru.weight_hh_l0 has shape (4, 12), the model needs (12, 4)"},
      {[](SafetensorsFile& f) {
         named(f, "decoder.out.bias").value = zeros({11, 1});
       },
       ": decoder.out.bias has shape (11, 1), the model needs (11)"},
      {[](SafetensorsFile& f) { named(f, "decoder.out.bias").value = Tensor::from(std::vector<i64>(11, 1), {11}); },
       ": decoder.out.bias holds i64, not weights"},
      {[](SafetensorsFile& f) { named(f, "decoder.out.bias").value = Tensor::from(std::vector<bool>(11, true), {11}); },
       ": decoder.out.bias holds bool, not weights"},
  };
  TemporaryFolder folder;
  Run run = make_run();
  save_weights(run, folder / "good");
  run.block.values().fill(3);  // what must stay
  const Values before = values(run.block.values());
  for (const Wrong& wrong : all) {
    const std::string path = changed(folder / "good", folder / "bad", wrong.change);
    CHECK(message_of([&] { load_weights(run, path); }) == path + wrong.message);
    CHECK(values(run.block.values()) == before);
  }
  load_weights(run, folder / "good");
  CHECK(values(run.block.values()) != before);
}

TEST_CASE("a checkpoint keeps weights, moments and the place in training") {
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
    save_checkpoint(run, adam, {3, 1234, 0.1 + 0.2, 2}, path);
    Run other = make_run(small(precision));
    other.block.values().fill(0);
    nn::Adam restored(other.block);
    const Progress progress = load_checkpoint(other, restored, path);
    CHECK(progress.epoch == 3);
    CHECK(progress.step == 1234);
    CHECK(progress.best_perplexity == 0.1 + 0.2);
    CHECK(progress.best_epoch == 2);
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
      {[](SafetensorsFile& f) { f.metadata.clear(); }, ": this is not a checkpoint: its metadata has no 'format'"},
      {[](SafetensorsFile& f) { f.metadata["format"] = "99"; },
       ": format 99 is not 1: it was written by another version of seqgrad"},
      {[](SafetensorsFile& f) { f.metadata["step"] = "12x"; }, ": 'step' is no number but '12x'"},
      {[](SafetensorsFile& f) { f.metadata["step"] = "1.5"; }, ": 'step' is no number but '1.5'"},
      {[](SafetensorsFile& f) { f.metadata["best_perplexity"] = ""; }, ": 'best_perplexity' is no number but ''"},
  };
  TemporaryFolder folder;
  Run run = make_run();
  nn::Adam adam(run.block);
  save_checkpoint(run, adam, {1, 10, 5, 1}, folder / "good");
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
    CHECK(message_of([&] { load_checkpoint(run, adam, path); }) == path + wrong.message);
    CHECK(untouched());
  }
  const std::string content = read_file(folder / "good");
  for (std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{200}, content.size() / 2, content.size() - 1}) {
    const std::string path = folder.file("cut", std::string_view(content).substr(0, size));
    CHECK(message_of([&] { load_checkpoint(run, adam, path); }).starts_with(path + ": "));
    CHECK(untouched());
  }
  save_weights(run, folder / "model");
  CHECK(message_of([&] { load_checkpoint(run, adam, folder / "model"); }) ==
        folder / "model" + ": this is not a checkpoint: its metadata has no 'epoch'");
  load_checkpoint(run, adam, folder / "good");
  CHECK(!untouched());
}
