#include "seq2seq/vocabulary.h"

#include "tests/fuzz/target.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

// What is read is written, and reads as the same.
FUZZ_TARGET(vocabulary) {
  const Vocabulary vocabulary = Vocabulary::load(input.path());
  static const TemporaryFolder folder;
  vocabulary.save(folder / "again");
  fuzz::require(Vocabulary::load(folder / "again") == vocabulary, "a vocabulary stays the same");
  for (i64 id = 0; id < vocabulary.size(); ++id)
    fuzz::require(id < Vocabulary::specials || vocabulary.id(vocabulary.token(id)) == id, "a word finds its number");
}
