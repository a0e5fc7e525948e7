#include "tensor/safetensors.h"

#include "tensor/file.h"
#include "tests/fuzz/target.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

// What is read is written, and reads as the same.
FUZZ_TARGET(safetensors) {
  SafetensorsFile file = read_safetensors(input.path());
  static const TemporaryFolder folder;
  const bool summed = file.metadata.contains("checksum");
  write_safetensors(folder / "again", file.tensors, file.metadata, summed);
  const SafetensorsFile again = read_safetensors(folder / "again");
  file.metadata["checksum"] = summed ? again.metadata.at("checksum") : "";
  if (!summed) file.metadata.erase("checksum");
  fuzz::require(again.metadata == file.metadata, "metadata stay the same");
  fuzz::require(again.tensors.size() == file.tensors.size(), "no tensor is lost");
  for (const NamedTensor& tensor : file.tensors) {
    const Tensor* other = again.find(tensor.name);
    fuzz::require(other && other->shape() == tensor.value.shape() && other->dtype() == tensor.value.dtype(),
                  "a tensor stays what it is");
  }
}
