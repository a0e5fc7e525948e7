// PyTorch's recordings replayed, and the replay itself: one wrong digit must be seen.
#include "seq2seq/parity.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include "tensor/safetensors.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

const std::string recordings = std::string(SEQGRAD_FIXTURES) + "/torch/";

std::vector<std::string> files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(recordings)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// By the name of its file.
std::string kind_of(const std::string& name) {
  for (const char* kind : {"ops", "seq2seq"})
    if (name.starts_with(kind)) return kind;
  for (const char* layer : {"layer_norm", "multi_head", "self_attention"})
    if (name.starts_with(layer)) return "layer";
  return "recurrent";
}

// A copy with a change to its tensors or metadata.
std::string changed(const TemporaryFolder& folder, const std::string& name,
                    const std::function<void(SafetensorsFile&)>& change) {
  SafetensorsFile file = read_safetensors(recordings + name);
  for (NamedTensor& tensor : file.tensors) tensor.value = tensor.value.clone();
  change(file);
  const std::string path = folder / "changed.safetensors";
  write_safetensors(path, file.tensors, file.metadata);
  return path;
}

const Tensor& tensor(SafetensorsFile& file, const std::string& name) {
  const Tensor* found = file.find(name);
  REQUIRE(found);
  return *found;
}

// Replaces a part of the metadata's JSON.
std::string with_fixture(const TemporaryFolder& folder, const std::string& name, const std::string& part,
                         const std::string& replacement) {
  return changed(folder, name, [&](SafetensorsFile& file) {
    std::string& fixture = file.metadata["fixture"];
    const std::size_t at = fixture.find(part);
    REQUIRE(at != fixture.npos);
    fixture.replace(at, part.size(), replacement);
  });
}

}  // namespace

TEST_CASE("every recording is met, in f64 and f32") {
  const std::vector<std::string> names = files();
  CHECK(names.size() == 28);
  for (const std::string& name : names)
    for (DType dtype : {DType::f64, DType::f32}) {
      const ParityResult result = check_parity(recordings + name, dtype);
      const std::string worst = result.worst_name;
      CAPTURE(name);
      CAPTURE(worst);
      CAPTURE(result.worst_deviation);
      CHECK(result.ok());
      CHECK(result.compared >= (name == "layer_norm.safetensors" ? 4 : 7));
      CHECK(result.kind == kind_of(name));
    }
}

TEST_CASE("a recording with one number off by 1e-6 fails and names the tensor") {
  const std::pair<const char*, std::vector<const char*>> all[] = {
      {"ops.safetensors",
       {"softmax/expect/output", "matmul/expect/grad/a", "embedding_padding_idx0/expect/grad/weight",
        "cross_entropy_smooth0.1/expect/output"}},
      {"gru_2layer_bi.safetensors",
       {"expect/output", "expect/h_n", "expect/grad/x", "expect/grad/weight_hh_l1_reverse", "expect/grad/bias_ih_l0"}},
      {"ops_attention.safetensors", {"scaled_dot_product_masked/expect/output", "scaled_dot_product_causal/expect/grad/key"}},
      {"layer_norm.safetensors", {"expect/output", "expect/grad/x", "expect/grad/weight", "expect/grad/bias"}},
      {"multi_head_self_causal_padding.safetensors",
       {"expect/output", "expect/weights", "expect/grad/query", "expect/grad/in_proj_weight", "expect/grad/out_proj.bias"}},
      {"self_attention_norm_first.safetensors",
       {"expect/output", "expect/grad/x", "expect/grad/self_attn.in_proj_bias", "expect/grad/norm2.weight"}},
      {"lstm_2layer_bi.safetensors", {"expect/output", "expect/c_n", "expect/grad/bias_hh_l1_reverse"}},
      {"seq2seq_gru_bi_sdp.safetensors",
       {"expect/encoder_outputs", "expect/logits", "expect/attention_weights", "expect/loss", "expect/grad_norm",
        "expect/grad/encoder.embedding.weight", "expect/losses", "expect/after5/decoder.gru.bias_hh_l0"}},
  };
  TemporaryFolder folder;
  for (const auto& [name, tensors] : all)
    for (const char* one : tensors) {
      CAPTURE(one);
      // The first entry, which no comparison leaves out.
      const std::string path = changed(folder, name, [&](SafetensorsFile& file) {
        double* values = tensor(file, one).mutable_data<double>();
        values[0] += 1e-6 * std::max(1.0, std::fabs(values[0]));
      });
      const ParityResult result = check_parity(path, DType::f64);
      CHECK(!result.ok());
      CHECK(result.worst_name == one);
      CHECK(result.worst_deviation == doctest::Approx(1e-6).epsilon(0.01));
    }
}

TEST_CASE("a number that is not one fails, whatever stands elsewhere") {
  TemporaryFolder folder;
  for (double wrong : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const std::string path = changed(folder, "gru_1layer_uni.safetensors", [&](SafetensorsFile& file) {
      tensor(file, "expect/h_n").mutable_data<double>()[1] = wrong;
      tensor(file, "expect/grad/x").mutable_data<double>()[0] += 1;
    });
    const ParityResult result = check_parity(path, DType::f64);
    CHECK(!result.ok());
    CHECK(result.worst_name == "expect/h_n");
  }
}

TEST_CASE("a changed input or weight is seen as well") {
  TemporaryFolder folder;
  const std::pair<const char*, const char*> all[] = {
      {"seq2seq_gru_bi_sdp.safetensors", "param/encoder.bridge.weight"},
      {"seq2seq_gru_bi_sdp.safetensors", "param/decoder.attention.W_q.bias"},
      {"seq2seq_gru_bi_sdp.safetensors", "param/encoder.embedding.weight"},
      {"multi_head.safetensors", "param/in_proj_weight"},
      {"multi_head.safetensors", "input/value"},
      {"self_attention.safetensors", "param/norm1.bias"},
      {"layer_norm.safetensors", "param/weight"},
  };
  for (const auto& [name, changed_one] : all) {
    const std::string path = changed(folder, name, [&one = changed_one](SafetensorsFile& file) {
      const Tensor& weight = tensor(file, one);
      weight.mutable_data<double>()[weight.numel() / 2] += 1e-3;
    });
    CHECK(!check_parity(path, DType::f64).ok());
  }
  // Masks and where the norms stand matter, too.
  CHECK(!check_parity(
             changed(folder, "multi_head_padding.safetensors",
                     [](SafetensorsFile& file) { tensor(file, "input/key_padding_mask").mutable_data<bool>()[1] ^= true; }),
             DType::f64)
             .ok());
  const std::pair<const char*, std::pair<const char*, const char*>> settings[] = {
      {"multi_head_one_head_causal.safetensors", {"\"causal\": true", "\"causal\": false"}},
      {"self_attention_norm_first.safetensors", {"\"norm_first\": true", "\"norm_first\": false"}},
      {"layer_norm.safetensors", {"\"eps\": 0.001", "\"eps\": 0.002"}},
  };
  for (const auto& [name, setting] : settings)
    CHECK(!check_parity(with_fixture(folder, name, setting.first, setting.second), DType::f64).ok());
}

TEST_CASE("what no recording is, or none that is known here, is refused by name") {
  TemporaryFolder folder;
  const auto refusal = [](const std::string& path) { return message_of([&] { check_parity(path, DType::f64); }); };
  const auto metadata = [&](const std::map<std::string, std::string>& entries) {
    write_safetensors(folder / "made.safetensors", {{"x", zeros({1})}}, entries);
    return folder / "made.safetensors";
  };
  const std::string made = folder / "made.safetensors", copy = folder / "changed.safetensors";
  CHECK(refusal(folder / "none") == "cannot read " + folder / "none" + ": No such file or directory");
  CHECK(refusal(metadata({})) == made + ": this is not a recording: its metadata has no 'fixture'");
  for (const char* fixture : {"", "{", "[]", "{}", "{\"kind\": 3}"})
    CHECK(refusal(metadata({{"fixture", fixture}})) == made + ": 'fixture' in the metadata is not JSON with a 'kind'");
  CHECK(refusal(metadata({{"fixture", "{\"kind\": \"speech\"}"}})) == made + ": recordings of kind 'speech' are not known");
  CHECK(refusal(metadata({{"fixture", "{\"kind\": \"ops\"}"}})) == made + ": 'fixture' lists no cases");
  CHECK(refusal(metadata({{"fixture", "{\"kind\": \"ops\", \"cases\": [\"fft\"]}"}})) ==
        made + ": there is no operation for the case 'fft'");
  CHECK(refusal(metadata({{"fixture", "{\"kind\": \"ops\", \"cases\": [3]}"}})) ==
        made + ": there is no operation for the case '3'");
  CHECK(refusal(metadata({{"fixture", "{\"kind\": \"ops\", \"cases\": [\"exp\"]}"}})) == made + ": exp/input/a is missing");
  CHECK(!check_parity(metadata({{"fixture", "{\"kind\": \"ops\", \"cases\": []}"}}), DType::f64).ok());  // nothing compared

  const auto config = [&](const std::string& name, const std::string& part, const std::string& replacement) {
    return refusal(with_fixture(folder, name, part, replacement));
  };
  const std::string gru = "gru_1layer_uni.safetensors", model = "seq2seq_gru_bi_sdp.safetensors";
  CHECK(config(gru, "\"gru\"", "\"qrnn\"") == copy + ": there is no recurrent cell 'qrnn'");
  CHECK(config("multi_head.safetensors", "\"MultiheadAttention\"", "\"Mamba\"") == copy + ": there is no layer 'Mamba'");
  CHECK(config("multi_head.safetensors", "\"heads\": 2", "\"heads\": 3") ==
        copy + ": expect/weights has shape (3, 2, 3, 5), ours has (3, 3, 3, 5)");
  CHECK(config("multi_head.safetensors", "\"heads\": 2", "\"heads\": 4") ==
        "[multi_head_attention] a width of 6 cannot be shared among 4 heads: the heads must divide it");
  CHECK(config(gru, "\"num_layers\": 1", "\"num_layers\": \"1\"") == copy + ": setting 'num_layers' has the value \"1\"");
  CHECK(config(gru, "\"bidirectional\": false", "\"bidirectional\": 0") == copy + ": setting 'bidirectional' has the value 0");
  CHECK(config(gru, "\"hidden_size\": 4", "\"hidden_size\": 5") ==
        copy + ": param/weight_ih_l0 has shape (12, 3), the model needs (15, 3)");
  CHECK(config(gru, "\"hidden_size\": 4", "\"hidden_size\": 10000000000") ==
        copy + ": setting 'hidden_size' is 10000000000, not from 0 to 16777216");
  CHECK(config(gru, "\"hidden_size\": 4", "\"hidden_size\": 16777216") ==
        copy + ": its settings describe 844425181790208 parameters, which it does not hold");
  CHECK(config(gru, "\"hidden_size\": 4", "\"hidden_size\": -1") ==
        copy + ": setting 'hidden_size' is -1, not from 0 to 16777216");
  CHECK(config(gru, "\"num_layers\": 1", "\"num_layers\": 9999999") ==
        copy + ": it does not hold the weights of 9999999 layers");
  CHECK(config(model, "\"steps\": 5", "\"steps\": 1e99") ==
        copy + ": 1e+99 steps of training and 5 losses: both must be the same, and at most 1000");
  CHECK(config(model, "\"src_vocab\": 13", "\"src_vocab\": 99999999") ==
        copy + ": setting 'src_vocab' is 99999999, not from 0 to 16777216");
  CHECK(config(model, "\"hidden\": 6", "\"hidden\": 2000000") == copy + ": hidden is 2000000: it must be at most 1048576");
  CHECK(config(gru, "\"num_layers\": 1", "\"num_layers\": 2") ==
        copy + ": param/weight_ih_l1 is missing: the file belongs to another model");
  CHECK(config(model, "\"sdp\"", "\"cosine\"").starts_with(copy + ": attention is 'cosine': it must be one of none|mean|sdp|"));
  CHECK(config(model, "\"gru\"", "\"qrnn\"").starts_with(copy + ": cell is 'qrnn': it must be one of gru"));
  CHECK(
      config(model, "\"tanh_linear\"", "\"relu_linear\"").starts_with(copy + ": bridge is 'relu_linear': it must be one of "));
  CHECK(config(model, "\"deep\"", "\"wide\"").starts_with(copy + ": readout is 'wide': it must be one of "));
  CHECK(config(model, "\"emb\": 5", "\"emb\": 0") == copy + ": embedding is 0: it must be at least 1");
  CHECK(config(model, "\"src_vocab\": 13", "\"src_vocab\": 14") ==
        copy + ": param/encoder.embedding.weight has shape (13, 5), the model needs (14, 5)");

  const auto without = [&](const std::string& name, const std::string& dropped) {
    return refusal(changed(folder, name, [&](SafetensorsFile& file) {
      REQUIRE(std::erase_if(file.tensors, [&](const NamedTensor& one) { return one.name == dropped; }) == 1);
    }));
  };
  for (const char* dropped : {"input/x", "cotangent/h_n", "expect/output", "expect/grad/bias_hh_l0"})
    CHECK(without(gru, dropped) == copy + ": " + dropped + " is missing");
  for (const char* dropped : {"input/src", "expect/logits", "expect/losses", "expect/after5/decoder.out.bias"})
    CHECK(without(model, dropped) == copy + ": " + dropped + " is missing");
  CHECK(refusal(changed(folder, gru, [](SafetensorsFile& file) {
          for (NamedTensor& one : file.tensors)
            if (one.name == "expect/h_n") one.value = zeros({2, 4}, DType::f64);
        })).starts_with(copy + ": expect/h_n has shape (2, 4), ours has (1, "));
}
