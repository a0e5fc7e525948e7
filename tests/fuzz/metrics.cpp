#include "seq2seq/report.h"
#include "tests/fuzz/target.h"

using namespace seqgrad;

FUZZ_TARGET(metrics) { seq2seq::read_metrics(input.path()); }
