// A small parallel corpus out of a grammar of our own: German image captions, lower-cased and tokenised, and their
// English. It shows what makes translation from German more than replacing words: the verb at the end of subordinate
// clauses, prefixes that part from their verb, infinitives and participles that close the sentence, the subject behind
// the verb after a fronted adverbial, case and gender, compound nouns.
//
//   der junge hebt heute den roten ball auf .      the boy picks up the red ball today .
//   im park lacht die frau , weil der hund müde ist .   in the park the woman laughs because the dog is tired .
//
// A German sentence has exactly one translation, so a perfect model reaches BLEU 100.
// Thread-safe: a function without state. The same seed gives the same corpus on every machine.
#pragma once

#include <vector>

#include "kernels/types.h"
#include "seq2seq/corpus.h"

namespace seqgrad::seq2seq {

struct DemoCorpus {
  std::vector<SentencePair> train, valid, test;  // German source, English target
};

// No sentence of either language occurs twice in all three parts together, and every word of valid and test occurs at
// least twice in train. Error if so few training pairs are asked for that this cannot be (about 200 are enough).
DemoCorpus make_demo_corpus(u64 seed, i64 pairs = 4000, i64 valid = 200, i64 test = 200);

}  // namespace seqgrad::seq2seq
