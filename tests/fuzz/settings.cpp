#include "seq2seq/settings.h"

#include "tensor/file.h"
#include "tests/fuzz/target.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

// What is read is written, and reads as the same.
FUZZ_TARGET(settings) {
  const std::string text = to_toml(settings_from_toml(input.path()));
  const fuzz::Input again(text);
  fuzz::require(to_toml(settings_from_toml(again.path())) == text, "settings stay the same");
}
