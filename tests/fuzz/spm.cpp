#include "seq2seq/spm.h"

#include "tests/fuzz/target.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

// A model of the user's own, and one as a run keeps it.
FUZZ_TARGET(spm) {
  const auto use = [](const auto& tokenizer) {
    const std::vector<std::string> tokens = tokenizer->split("ein Hund läuft .");
    tokenizer->join(tokens);
  };
  try {
    use(SpmTokenizer::load(input.path(), false));
  } catch (const Error&) {
  }
  use(SpmTokenizer::open(input.path(), true));
}
