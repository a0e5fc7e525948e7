// Weights from PyTorch, and back: names and layouts are PyTorch's, the file is safetensors.
//   5_pytorch_weights RECORDING [OUT]     RECORDING: tests/fixtures/torch/seq2seq_gru_bi_sdp.safetensors of the sources
//
// In Python, a state dict comes and goes so, translator.py being a module with the same names (tools/bench/torch_seq2seq.py):
//   safetensors.torch.save_file(model.state_dict(), "in.safetensors")
//   model.load_state_dict(safetensors.torch.load_file("out.safetensors"))
#include <fmt/format.h>
#include <seqgrad/seq2seq/run.h>

#include <cmath>

using namespace seqgrad;
using namespace seqgrad::seq2seq;

int main(int count, char** arguments) try {
  if (count < 2) throw_error("usage: {} RECORDING [OUT]", arguments[0]);
  const std::string path = arguments[1];
  // A translator of PyTorch's in f64, with a batch and what PyTorch made of it; its parameters stand under "param/".
  const SafetensorsFile file = read_safetensors(path);
  const auto recorded = [&](const char* name) {
    const Tensor* tensor = file.find(name);
    if (!tensor) throw_error("{} has no {}", path, name);
    return *tensor;
  };
  Settings settings{.attention = "sdp", .embedding = 5, .hidden = 6, .decoder_hidden = 7, .attention_dim = 4, .dropout = 0};
  Seq2Seq model(settings, 13, 11);  // words of the source and the target
  nn::ParameterBlock block(model, DType::f64);
  load_weights(block.parameters(), file, path, "param/");
  fmt::print("{} parameters in {} tensors, such as {} {}\n", model.parameter_count(), block.parameters().size(),
             block.parameters()[1]->name, block.parameters()[1]->value.shape());

  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  const Encoded encoded = model.encode(tape, Source::from(recorded("input/src"), recorded("input/src_lengths")), mode);
  const Var features = model.decoder(tape, encoded, recorded("input/tgt_in"), mode).features;
  const Var loss = model.decoder.loss(reshape(features, {-1, features.size(-1)}), recorded("input/tgt_out").reshape({-1}),
                                      {.ignore_index = Vocabulary::pad});
  const double theirs = recorded("expect/loss").item();
  fmt::print("loss by PyTorch {:.15f}\nby seqgrad      {:.15f}, difference {:.1e}\n", theirs, loss.value().item(),
             std::fabs(loss.value().item() - theirs));

  // And back, under PyTorch's own names.
  std::vector<NamedTensor> tensors;
  append_parts(tensors, "", block, block.values());
  const std::string out = count > 2 ? arguments[2] : "out.safetensors";
  write_safetensors(out, tensors);
  bool same = true;
  const SafetensorsFile again = read_safetensors(out);
  for (const NamedTensor& one : again.tensors)
    same = same && one.value.to_vector<double>() == recorded(("param/" + one.name).c_str()).to_vector<double>();
  fmt::print("{}: {} tensors, {}\n", out, again.tensors.size(), same ? "bit for bit those of PyTorch" : "CHANGED");
} catch (const Error& error) {
  fmt::print(stderr, "5_pytorch_weights: {}\n", error.what());
  return error.exit_status();
}
