// Named tensors in a file, in the format that PyTorch users read and write:  https://github.com/huggingface/safetensors
//
//   8 bytes   length of the header, little-endian
//   header    {"__metadata__": {"key": "text"}, "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//   data      row-major values; the offsets count from here and cover every byte once
//
// A file comes from anywhere: each word of it is checked, and nothing larger than the file is allocated on its word.
// Errors are bad input, one line: "PATH: tensor "weight": dtype F16 is not supported: convert it to F32, F64, I64 or BOOL".
// Thread-safe.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tensor/file.h"
#include "tensor/tensor.h"

namespace seqgrad {

struct SafetensorsFile {
  std::vector<NamedTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;

  const Tensor* find(const std::string& name) const;  // null where there is none
};

// The tensors one by one, to where the caller wants them. The header is read and checked at once.
class SafetensorsReader {
 public:
  struct Entry {
    std::string name;
    DType dtype;
    Dims shape;
    std::size_t offset;  // in the file
  };

  explicit SafetensorsReader(const std::string& path);
  const std::vector<Entry>& entries() const { return entries_; }  // in the order of their data
  const Entry* find(const std::string& name) const;               // null where there is none
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::string& path() const { return path_; }

  // Fills a contiguous tensor of the entry's dtype and shape.
  void read(const Entry& entry, const Tensor& to) const;

 private:
  std::string path_;
  InputFile file_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// F32, F64, I64 and BOOL.
SafetensorsFile read_safetensors(const std::string& path);

// The same tensors give the same bytes. Wide elements come first, so that all are aligned; else in the order given.
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace seqgrad
