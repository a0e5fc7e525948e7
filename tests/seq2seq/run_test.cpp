// Runs on disk: what is saved is what is opened, and what does not fit changes nothing.
#include "seq2seq/run.h"

#include <doctest/doctest.h>

#include "tests/seq2seq/small_run.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using namespace seqgrad::seq2seq::test;

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
        path + "/model.safetensors: it was trained with another vocab.source than the one beside it");
  saved.source.save(path_in(path, "vocab.source"));
  Settings wider = saved.settings;
  wider.embedding = 6;
  write_file(path_in(path, "config.toml"), to_toml(wider));
  CHECK(message_of([&] { open_run(path); }) ==
        path + "/model.safetensors: encoder.embedding.weight has shape (13, 5), the model needs (13, 6)");
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
