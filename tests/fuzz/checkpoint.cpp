#include "seq2seq/checkpoint.h"

#include "tests/fuzz/target.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

struct Small {
  Settings settings{.attention = "none", .cell = "rnn", .bidirectional = false, .embedding = 1, .hidden = 1};
  Vocabulary words = Vocabulary::build({{"a"}}, 1);
  Run run{settings, words, words};
  nn::Adam adam{run.block};
};

}  // namespace

// Of a model as small as there is, so that its file is small.
FUZZ_TARGET(checkpoint) {
  static Small small;
  load_checkpoint(small.run, small.adam, nullptr, "text", input.path());
}

FUZZ_TARGET(model) {
  static Small small;
  load_weights(small.run, input.path());
}
