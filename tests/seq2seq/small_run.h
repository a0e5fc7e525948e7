// A run that is quickly made, and the files that are made of it, changed: for the tests of runs and checkpoints.
#pragma once

#include <functional>

#include "seq2seq/train.h"
#include "tensor/file.h"

namespace seqgrad::seq2seq::test {

using Values = std::vector<double>;

inline Settings small(const std::string& precision = "f32") {
  Settings settings{.attention = "sdp", .embedding = 5, .hidden = 4, .attention_dim = 3};
  settings.precision = precision;
  return settings;
}

inline Vocabulary words(i64 count) {
  std::vector<std::string> all;
  for (i64 i = 0; i < count; ++i) all.push_back(fmt::format("w{:02}", i));
  return Vocabulary::build({all});
}

inline Run make_run(const Settings& settings = small()) { return Run(settings, words(9), words(7)); }

inline Values values(const Tensor& x) { return x.to(DType::f64).to_vector<double>(); }

// Writes the file again after a change to its tensors.
inline std::string changed(const std::string& path, const std::string& to,
                           const std::function<void(SafetensorsFile&)>& change) {
  SafetensorsFile file = read_safetensors(path);
  change(file);
  write_safetensors(to, file.tensors, file.metadata, file.metadata.contains("checksum"));
  return to;
}

inline NamedTensor& named(SafetensorsFile& file, const std::string& name) {
  for (NamedTensor& tensor : file.tensors)
    if (tensor.name == name) return tensor;
  throw_error("no {}", name);
}

inline void remove(SafetensorsFile& file, const std::string& name) {
  std::erase_if(file.tensors, [&](const NamedTensor& tensor) { return tensor.name == name; });
}

}  // namespace seqgrad::seq2seq::test
