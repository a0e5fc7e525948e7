// Named tensors in a file, in the format that PyTorch users read and write:  https://github.com/huggingface/safetensors
//
//   8 bytes   length of the header, little-endian
//   header    {"__metadata__": {"key": "text"}, "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//   data      row-major values; the offsets count from here and cover every byte once
//
// A file comes from anywhere: each word of it is checked, and nothing larger than the file is allocated on its word.
// Files of our own may carry a checksum of every byte, as the metadata's "checksum": "xxh64:0123456789abcdef". Others read them
// without noticing it.
// Errors are bad input, one line: "PATH: tensor "weight": dtype F16 is not supported: convert it to F32, F64, I64 or BOOL".
// Thread-safe.
#pragma once

#include <map>
#include <optional>
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

  // Fills a contiguous tensor of the dtype and shape of one of entries().
  void read(const Entry& entry, const Tensor& to) const;

  bool has_checksum() const { return checksum_.has_value(); }
  // When all has been read that is wanted. Error: "PATH: its checksum is off: the file is damaged". Nothing to do without one.
  void verify() const;

 private:
  std::string path_;
  InputFile file_;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
  std::optional<std::string> checksum_;           // as the file has it
  std::string header_;                            // what the checksum counts of it, if there is one
  mutable std::vector<std::optional<u64>> sums_;  // of the entries that have been read
};

// F32, F64, I64 and BOOL. A checksum is verified.
SafetensorsFile read_safetensors(const std::string& path);

// The same tensors give the same bytes. Wide elements come first, so that all are aligned; else in the order given.
void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {}, bool with_checksum = false);

}  // namespace seqgrad
