#include "seq2seq/parity.h"
#include "tests/fuzz/target.h"

using namespace seqgrad;

FUZZ_TARGET(recording) { seq2seq::check_parity(input.path(), DType::f64); }
