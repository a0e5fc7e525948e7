#include "seq2seq/parity.h"

#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "nn/optimizer.h"
#include "nn/self_attention_layer.h"
#include "seq2seq/model.h"
#include "seq2seq/printable.h"
#include "seq2seq/run.h"
#include "tensor/safetensors.h"

namespace seqgrad::seq2seq {
namespace {

using nlohmann::json;

class Recording {
 public:
  Recording(const std::string& path, DType dtype) : path_(path), file_(read_safetensors(path)), dtype_(dtype) {
    const auto entry = file_.metadata.find("fixture");
    if (entry == file_.metadata.end()) throw_error("{}: this is not a recording: its metadata has no 'fixture'", path);
    fixture_ = json::parse(entry->second, nullptr, false);
    if (!fixture_.is_object() || !fixture_.contains("kind") || !fixture_["kind"].is_string())
      throw_error("{}: 'fixture' in the metadata is not JSON with a 'kind'", path);
    result_.kind = fixture_["kind"];
  }

  const std::string& path() const { return path_; }
  DType dtype() const { return dtype_; }
  const json& fixture() const { return fixture_; }
  const std::vector<NamedTensor>& tensors() const { return file_.tensors; }

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  // Floating-point tensors come in the dtype that is being checked.
  Tensor get(const std::string& name) const {
    const Tensor* found = file_.find(name);
    if (!found) throw_error("{}: {} is missing", path_, name);
    return found->is_floating() ? found->to(dtype_) : *found;
  }

  // A setting of the model; its type must be that of the fallback.
  template <class T>
  T config(const char* key, const T& fallback) const {
    const json& all = fixture_.contains("config") ? fixture_["config"] : json::object();
    if (!all.is_object() || !all.contains(key)) return fallback;
    try {
      return all[key].get<T>();
    } catch (const json::exception&) {
      throw_error("{}: setting '{}' has the value {}", path_, key, all[key].dump());
    }
  }
  // A size: nothing is made as large as the file says before it is known to hold as much.
  i64 size(const char* key, i64 fallback) const {
    constexpr i64 largest = 1 << 24;
    const i64 value = config(key, fallback);
    if (value < 0 || value > largest) throw_error("{}: setting '{}' is {}, not from 0 to {}", path_, key, value, largest);
    return value;
  }
  void check_holds(nn::Module& model) const {
    i64 held = 1 << 20;  // so many are nothing
    for (const NamedTensor& one : file_.tensors)
      if (one.name.starts_with("param/")) held += one.value.numel();
    if (const i64 described = model.parameter_count(); described > held)
      throw_error("{}: its settings describe {} parameters, which it does not hold", path_, described);
  }
  std::string config(const char* key, const char* fallback) const { return config<std::string>(key, fallback); }

  bool is_f64() const { return dtype_ == DType::f64; }
  double output_tolerance() const { return is_f64() ? 1e-10 : 1e-5; }
  double gradient_tolerance() const { return is_f64() ? 1e-10 : 1e-4; }
  double training_tolerance() const { return is_f64() ? 1e-7 : 1e-4; }

  // Every entry within tolerance, absolute or relative. `counts`, if defined, says where an entry is compared at all.
  void compare(const std::string& name, const Tensor& ours, double tolerance, const Tensor& counts = {}) {
    const Tensor* expected = file_.find(name);
    if (!expected) throw_error("{}: {} is missing", path_, name);
    ++result_.compared;
    if (ours.numel() != expected->numel() || (!(ours.shape() == expected->shape()) && ours.numel() != 1))
      throw_error("{}: {} has shape {}, ours has {}", path_, name, expected->shape(), ours.shape());
    const std::vector<double> a = ours.to(DType::f64).to_vector<double>(), b = expected->to(DType::f64).to_vector<double>();
    const std::vector<bool> counted = counts.defined() ? counts.to_vector<bool>() : std::vector<bool>(a.size(), true);
    if (counted.size() != a.size()) throw_error("{}: {} is not of the shape of its target", path_, name);
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!counted[i]) continue;
      const double deviation = std::fabs(a[i] - b[i]) / std::max(1.0, std::fabs(b[i]));
      if (std::isnan(result_.worst) || deviation / tolerance <= result_.worst) continue;
      result_.worst = deviation / tolerance;
      result_.worst_deviation = deviation;
      result_.worst_name = name;
    }
  }

  const ParityResult& result() const { return result_; }

 private:
  std::string path_;
  SafetensorsFile file_;
  DType dtype_;
  json fixture_;
  ParityResult result_;
};

// ---- ops ------------------------------------------------------------------------------------------------------------

// The floating-point tensors whose names begin with the prefix are leaves.
struct OpInputs {
  OpInputs(Tape& tape, const Recording& source, const std::string& begin) : recording(source), prefix(begin) {
    for (const NamedTensor& one : recording.tensors())
      if (one.name.starts_with(prefix) && one.value.is_floating())
        vars.emplace(one.name.substr(prefix.size()), tape.leaf(recording.get(one.name).to(default_device())));
  }
  const Recording& recording;
  std::string prefix;
  std::map<std::string, Var> vars;
  bool has(const std::string& argument) const { return vars.contains(argument); }
  const Var& operator[](const std::string& argument) const {
    const auto found = vars.find(argument);
    if (found == vars.end()) throw_error("{}: {}{} is missing", recording.path(), prefix, argument);
    return found->second;
  }
  Tensor tensor(const std::string& argument) const { return recording.get(prefix + argument); }
};

const std::map<std::string, std::function<Var(const OpInputs&)>>& op_cases() {
  static const std::map<std::string, std::function<Var(const OpInputs&)>> cases{
      {"add_broadcast", [](const OpInputs& in) { return in["a"] + in["b"]; }},
      {"sub_broadcast", [](const OpInputs& in) { return in["a"] - in["b"]; }},
      {"mul_broadcast", [](const OpInputs& in) { return in["a"] * in["b"]; }},
      {"div_broadcast", [](const OpInputs& in) { return in["a"] / in["b"]; }},
      {"exp", [](const OpInputs& in) { return exp(in["a"]); }},
      {"log", [](const OpInputs& in) { return log(in["a"]); }},
      {"tanh", [](const OpInputs& in) { return tanh(in["a"]); }},
      {"sigmoid", [](const OpInputs& in) { return sigmoid(in["a"]); }},
      {"relu", [](const OpInputs& in) { return relu(in["a"]); }},
      {"sqrt", [](const OpInputs& in) { return sqrt(in["a"]); }},
      {"sum_dim", [](const OpInputs& in) { return sum(in["a"], 1); }},
      {"mean_dim_keepdim", [](const OpInputs& in) { return mean(in["a"], -1, true); }},
      {"max_dim", [](const OpInputs& in) { return max(in["a"], 1); }},
      {"matmul", [](const OpInputs& in) { return matmul(in["a"], in["b"]); }},
      {"bmm", [](const OpInputs& in) { return matmul(in["a"], in["b"]); }},
      {"bmm_transposed", [](const OpInputs& in) { return matmul(in["a"], transpose(in["b"], 1, 2)); }},
      {"linear", [](const OpInputs& in) { return linear(in["x"], in["weight"], in["bias"]); }},
      {"softmax", [](const OpInputs& in) { return softmax(in["a"]); }},
      {"log_softmax", [](const OpInputs& in) { return log_softmax(in["a"]); }},
      {"scaled_dot_product",
       [](const OpInputs& in) { return nn::scaled_dot_product(in["query"], in["key"], in["value"]).output; }},
      {"scaled_dot_product_masked",
       [](const OpInputs& in) {
         return nn::scaled_dot_product(in["query"], in["key"], in["value"], in.tensor("mask")).output;
       }},
      {"scaled_dot_product_causal",
       [](const OpInputs& in) { return nn::scaled_dot_product(in["query"], in["key"], in["value"], {}, true).output; }},
      {"masked_softmax", [](const OpInputs& in) { return masked_softmax(in["a"], in.tensor("mask")); }},
      {"layer_norm", [](const OpInputs& in) { return layer_norm(in["x"], in["weight"], in["bias"]); }},
      {"embedding", [](const OpInputs& in) { return embedding(in["weight"], in.tensor("ids")); }},
      {"embedding_padding_idx0", [](const OpInputs& in) { return embedding(in["weight"], in.tensor("ids"), 0); }},
      {"cat_dim1",
       [](const OpInputs& in) {
         return cat(std::vector{in["a"], in["b"]}, 1);
       }},
      {"stack_dim1",
       [](const OpInputs& in) {
         return stack(std::vector{in["a"], in["b"]}, 1);
       }},
      {"transpose_then_slice", [](const OpInputs& in) { return slice(transpose(in["a"], 0, 1), 0, 1, 4); }},
      {"cross_entropy_ignore0",
       [](const OpInputs& in) { return cross_entropy(in["logits"], in.tensor("target"), {.ignore_index = 0}); }},
      {"cross_entropy_sum",
       [](const OpInputs& in) {
         return cross_entropy(in["logits"], in.tensor("target"), {.ignore_index = 0, .reduction = Reduction::sum});
       }},
      {"cross_entropy_smooth0.1",
       [](const OpInputs& in) {
         return cross_entropy(in["logits"], in.tensor("target"), {.ignore_index = 0, .label_smoothing = 0.1});
       }},
  };
  return cases;
}

void replay_ops(Recording& recording) {
  const json& fixture = recording.fixture();
  if (!fixture.contains("cases") || !fixture["cases"].is_array()) throw_error("{}: 'fixture' lists no cases", recording.path());
  for (const json& entry : fixture["cases"]) {
    const std::string name = entry.is_string() ? entry.get<std::string>() : entry.dump();
    const auto known = op_cases().find(name);
    if (known == op_cases().end()) throw_error("{}: there is no operation for the case '{}'", recording.path(), name);
    Tape tape;
    const OpInputs inputs(tape, recording, name + "/input/");
    const Var output = known->second(inputs);
    recording.compare(name + "/expect/output", output.value(), recording.output_tolerance());
    const Tensor cotangent = recording.get(name + "/cotangent").reshape(output.shape()).to(default_device());
    tape.backward({&output, 1}, {&cotangent, 1});
    for (const auto& [argument, input] : inputs.vars)
      recording.compare(name + "/expect/grad/" + argument, input.grad(), recording.gradient_tolerance());
  }
}

// ---- layers and whole models --------------------------------------------------------------------------------------

void compare_gradients(Recording& recording, const std::vector<Parameter*>& parameters) {
  for (Parameter* parameter : parameters)
    recording.compare("expect/grad/" + parameter->name, parameter->has_grad ? parameter->grad : zeros_like(parameter->value),
                      recording.gradient_tolerance());
}

void load(const Recording& recording, const std::vector<Parameter*>& parameters) {
  SafetensorsFile file;
  file.tensors = recording.tensors();
  load_weights(parameters, file, recording.path(), "param/");
}

// Outputs as they are compared, and the cotangents with which they are differentiated.
struct Outputs {
  Recording& recording;
  std::vector<Var> outputs = {};
  std::vector<Tensor> cotangents = {};

  void compare(const std::string& name, const Var& output) {
    recording.compare("expect/" + name, output.value(), recording.output_tolerance());
    outputs.push_back(output);
    cotangents.push_back(recording.get("cotangent/" + name).to(default_device()));
  }
};

// PyTorch's key_padding_mask is true where there is no token; ours are true where there is one.
Tensor real_tokens(const Recording& recording) {
  if (!recording.has("input/key_padding_mask")) return {};
  std::vector<bool> real = recording.get("input/key_padding_mask").to_vector<bool>();
  real.flip();
  return Tensor::from<bool>(real, recording.get("input/key_padding_mask").shape());
}

// A layer that looks at whole sequences, by the name of PyTorch's.
void replay_layer(Recording& recording) {
  const std::string name = recording.config("layer", "");
  const i64 width = recording.size("width", 0), heads = recording.size("heads", 1);
  const bool causal = recording.config("causal", false);
  const Tensor mask = real_tokens(recording);
  nn::Mode mode = nn::Mode::evaluation();

  nn::Module root;
  std::unique_ptr<nn::Module> owner;
  std::function<nn::MultiHeadOutput(const OpInputs&)> call;
  if (name == "LayerNorm") {
    auto layer = std::make_unique<nn::LayerNorm>(root, "", width, recording.config("eps", 1e-5));
    call = [&norm = *layer](const OpInputs& in) { return nn::MultiHeadOutput{norm(in["x"]), {}}; };
    owner = std::move(layer);
  } else if (name == "MultiheadAttention") {
    auto layer = std::make_unique<nn::MultiHeadAttention>(root, "", width, heads);
    call = [&, &attention = *layer](const OpInputs& in) {
      const Var &query = in["query"], &key = in.has("key") ? in["key"] : query, &value = in.has("value") ? in["value"] : key;
      return attention(query, key, value, mask, causal, mode);
    };
    owner = std::move(layer);
  } else if (name == "TransformerEncoderLayer") {
    auto layer =
        std::make_unique<nn::SelfAttentionLayer>(root, "",
                                                 nn::SelfAttentionOptions{.width = width,
                                                                          .heads = heads,
                                                                          .feed_forward = recording.size("feed_forward", 0),
                                                                          .norm_first = recording.config("norm_first", false)});
    call = [&, &attention = *layer](const OpInputs& in) { return attention(in["x"], mask, causal, mode); };
    owner = std::move(layer);
  } else {
    throw_error("{}: there is no layer '{}'", recording.path(), name);
  }
  Generator generator;
  recording.check_holds(*owner);
  nn::ParameterBlock block(*owner, recording.dtype(), generator, default_device());
  load(recording, block.parameters());

  Tape tape;
  const OpInputs inputs(tape, recording, "input/");
  const nn::MultiHeadOutput result = call(inputs);
  Outputs all{recording};
  all.compare("output", result.output);
  if (recording.has("expect/weights")) all.compare("weights", result.weights);
  tape.backward(all.outputs, all.cotangents);
  for (const auto& [argument, input] : inputs.vars)
    recording.compare("expect/grad/" + argument, input.grad(), recording.gradient_tolerance());
  compare_gradients(recording, block.parameters());
}

void replay_recurrent(Recording& recording) {
  const std::map<std::string, nn::Cell> cells{{"gru", nn::Cell::gru}, {"lstm", nn::Cell::lstm}, {"rnn", nn::Cell::rnn}};
  const std::string cell_name = recording.config("cell", "");
  const auto cell = cells.find(cell_name);
  if (cell == cells.end()) throw_error("{}: there is no recurrent cell '{}'", recording.path(), cell_name);
  const i64 layers = recording.size("num_layers", 1);
  const bool bidirectional = recording.config("bidirectional", false);
  const i64 hidden = recording.size("hidden_size", 0), width = recording.size("input_size", 0);

  if (layers > static_cast<i64>(recording.tensors().size()))
    throw_error("{}: it does not hold the weights of {} layers", recording.path(), layers);

  struct Root : nn::Module {};
  Root root;
  nn::Recurrent layer(root, "", cell->second, width, hidden, layers, bidirectional);
  Generator generator;
  recording.check_holds(layer);
  nn::ParameterBlock block(layer, recording.dtype(), generator, default_device());
  load(recording, block.parameters());

  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  const Var x = tape.leaf(recording.get("input/x").to(default_device()));
  const nn::Recurrent::Output out = layer(x, recording.get("input/lengths"), mode);
  Outputs all{recording};
  all.compare("output", out.output);
  all.compare("h_n", stack(out.h_n, 0));
  if (!out.c_n.empty()) all.compare("c_n", stack(out.c_n, 0));
  tape.backward(all.outputs, all.cotangents);
  recording.compare("expect/grad/x", x.grad(), recording.gradient_tolerance());
  compare_gradients(recording, block.parameters());
}

Settings settings_of(const Recording& recording) {
  Settings settings;
  settings.cell = recording.config("cell", "gru");
  settings.gru_reset = recording.config("gru_reset", "after");
  settings.bidirectional = recording.config("bidirectional", true);
  settings.bridge = recording.config("bridge", "tanh_linear");
  if (settings.bridge == "tanh_linear") settings.bridge = "tanh-linear";
  settings.readout = recording.config("readout", "deep");
  settings.tie_embeddings = recording.config("tie_embeddings", "none");
  settings.shared_vocabulary = settings.tie_embeddings == "all";
  settings.attention = recording.config("attention", "sdp");
  settings.embedding = recording.size("emb", 0);
  settings.hidden = recording.size("hidden", 0);
  settings.decoder_hidden = recording.size("dec_hidden", 0);
  settings.attention_dim = recording.size("attention_dim", 0);
  settings.dropout = 0;
  try {
    check_settings(settings);
  } catch (const Error& error) {
    throw_error("{}: {}", recording.path(), error.what());
  }
  return settings;
}

// Where a target token is real, repeated for each of the `width` numbers that belong to it.
Tensor real_positions(const Tensor& target, i64 width) {
  const i64 n = target.numel();
  const Tensor counts({target.size(0), target.size(1), width}, DType::boolean);
  bool* real = counts.mutable_data<bool>();
  for (i64 i = 0; i < n * width; ++i) real[i] = target.data<i64>()[i / width] != Vocabulary::pad;
  return counts;
}

void replay_seq2seq(Recording& recording) {
  Seq2Seq model(settings_of(recording), recording.size("src_vocab", 0), recording.size("tgt_vocab", 0));
  Generator generator;
  recording.check_holds(model);
  nn::ParameterBlock block(model, recording.dtype(), generator, default_device());
  load(recording, block.parameters());

  const Source source = Source::from(recording.get("input/src"), recording.get("input/src_lengths"));
  const Tensor target_in = recording.get("input/tgt_in"), target_out = recording.get("input/tgt_out");
  const CrossEntropyOptions options{.ignore_index = Vocabulary::pad};
  nn::Mode mode = nn::Mode::evaluation();
  Tape tape;
  const auto forward = [&](bool compare) {
    tape.clear();
    block.zero_grad();
    const Encoded encoded = model.encode(tape, source, mode);
    const DecoderOutput out = model.decoder(tape, encoded, target_in, mode);
    if (compare) {
      const Var logits = model.decoder.logits(out.features);
      recording.compare("expect/encoder_outputs", encoded.outputs.value(), recording.output_tolerance());
      recording.compare("expect/logits", logits.value(), recording.output_tolerance(),
                        real_positions(target_out, logits.size(-1)));
      if (recording.has("expect/attention_weights") && out.weights.defined())
        recording.compare("expect/attention_weights", out.weights.value(), recording.output_tolerance(),
                          real_positions(target_out, out.weights.size(-1)));
    }
    const Var rows = model.decoder.readout(reshape(out.features, {-1, out.features.size(-1)}));
    return model.decoder.loss(rows, target_out.reshape({target_out.numel()}), options);
  };

  const json training = recording.fixture().value("train", json::object());
  const auto number = [&](const char* key, double fallback) {
    return training.contains(key) && training[key].is_number() ? training[key].get<double>() : fallback;
  };
  nn::Adam adam(block);
  const double steps_given = number("steps", 5);
  const i64 steps = recording.get("expect/losses").numel();
  if (steps_given != static_cast<double>(steps) || steps > 1000)
    throw_error("{}: {} steps of training and {} losses: both must be the same, and at most 1000", recording.path(),
                steps_given, steps);
  std::vector<double> losses;
  for (i64 i = 0; i < steps; ++i) {
    const Var loss = forward(i == 0);
    losses.push_back(loss.value().item());
    tape.backward(loss);
    const nn::ParameterBlock::Clip clip = block.clip(number("clip_norm", 1));
    if (i == 0) {
      recording.compare("expect/loss", loss.value(), recording.output_tolerance());
      compare_gradients(recording, block.parameters());
      recording.compare("expect/grad_norm", clip.norm.reshape({1}), recording.gradient_tolerance());
    }
    adam.step(number("lr", 0.01), clip.scale);
  }
  recording.compare("expect/losses", Tensor::from<double>(losses, {steps}), recording.training_tolerance());
  for (const Parameter* parameter : block.parameters())
    recording.compare("expect/after5/" + parameter->name, parameter->value, recording.training_tolerance());
}

ParityResult replay(const std::string& path, DType dtype) {
  Recording recording(path, dtype);
  const std::string kind = recording.result().kind;
  if (kind == "ops")
    replay_ops(recording);
  else if (kind == "layer")
    replay_layer(recording);
  else if (kind == "recurrent")
    replay_recurrent(recording);
  else if (kind == "seq2seq")
    replay_seq2seq(recording);
  else
    throw_error("{}: recordings of kind '{}' are not known", path, kind);
  return recording.result();
}

}  // namespace

ParityResult check_parity(const std::string& path, DType dtype) {
  return with_printable_errors([&] { return replay(path, dtype); });
}

}  // namespace seqgrad::seq2seq
