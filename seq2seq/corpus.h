// Parallel text, its numbers, and the batches a model is trained and measured on.
// Batches depend on lengths, seed and epoch alone, on every machine. Thread-safe: functions without state.
#pragma once

#include <string>
#include <vector>

#include "kernels/types.h"
#include "seq2seq/tokenizer.h"
#include "seq2seq/vocabulary.h"

namespace seqgrad::seq2seq {

// Lines of two files that mean the same.
struct ParallelText {
  std::string source_path, target_path;
  std::vector<std::string> source, target;
  i64 skipped_empty = 0;  // pairs with a side that is empty or blank
};

// Reads two files line by line. Errors beside those of LineReader:
//   "train.de has 29000 lines but train.en has 28999: a source and its target must match line by line"
ParallelText read_parallel_text(const std::string& source_path, const std::string& target_path);

struct SentencePair {
  std::vector<std::string> source, target;  // tokens
};

// Pairs that are of no use.
struct LeftOut {
  i64 empty = 0;     // a side has no token
  i64 too_long = 0;  // a side is longer than max_length
};

struct ParallelCorpus {
  std::vector<SentencePair> pairs;
  std::vector<std::size_t> lines = {};  // which lines of the text they are, from 0
  LeftOut left_out = {};
};

// max_length counts tokens of a side, 0 is no limit. Error:
//   "train.de and train.en hold no usable sentence pair (3 empty, 0 longer than 50 tokens)"
ParallelCorpus tokenize(const ParallelText& text, const Tokenizers& tokenizers, i64 max_length = 0);

// Both in one, for text whose tokens are separated by whitespace.
ParallelCorpus read_parallel(const std::string& source_path, const std::string& target_path, i64 max_length = 0);

// One side, e.g. for Vocabulary::build.
std::vector<std::vector<std::string>> source_sentences(const ParallelCorpus& corpus);
std::vector<std::vector<std::string>> target_sentences(const ParallelCorpus& corpus);

struct EncodedPair {
  std::vector<i64> source;  // x1 ... xm </s>
  std::vector<i64> target;  // y1 ... yn, without specials
};

EncodedPair encode_pair(const SentencePair& pair, const Vocabulary& source, const Vocabulary& target);
std::vector<EncodedPair> encode_pairs(const std::vector<SentencePair>& pairs, const Vocabulary& source,
                                      const Vocabulary& target);

struct PairLength {
  i64 source, target;
};
std::vector<PairLength> pair_lengths(const std::vector<EncodedPair>& pairs);

// How large a batch may be: so many pairs; or, if tokens is not 0, so many that its rows times its longest side, </s> and
// padding counted, are at most `tokens`. A pair that is longer than that alone is a batch alone.
struct BatchSize {
  BatchSize(i64 pairs_in, i64 tokens_in = 0) : pairs(pairs_in), tokens(tokens_in) {}
  i64 pairs, tokens;

  BatchSize times(i64 count) const;
};

// The indices 0 ... lengths.size() - 1, each in exactly one batch, for one epoch of training.
// Shuffled by (seed, epoch), cut into pools of about 100 batches, each pool sorted by length and cut into batches, the batches
// shuffled: little padding, and yet other neighbours in every epoch. Of batches of pairs only the last batch of the last pool
// may be smaller. The rows of a batch stand in falling order of their source length.
std::vector<std::vector<std::size_t>> make_batches(const std::vector<PairLength>& lengths, BatchSize size, u64 seed, u64 epoch);

// The rows of one batch in smaller ones, in the same order.
std::vector<std::vector<std::size_t>> split_batch(const std::vector<std::size_t>& rows, BatchSize size,
                                                  const std::vector<PairLength>& lengths);

// The same for measuring: always the same batches, sorted by length over the whole set, longest first.
std::vector<std::vector<std::size_t>> make_batches(const std::vector<PairLength>& lengths, i64 batch_size);

// Row-major and padded with 0 (<pad>).
struct Batch {
  i64 size = 0;                     // B
  i64 source_length = 0;            // S, the longest source with its </s>
  i64 target_length = 0;            // T, the longest target and one more
  i64 target_tokens = 0;            // entries of target_out that are not padding
  std::vector<i64> source;          // (B, S)  x1 ... xm </s>
  std::vector<i64> source_lengths;  // (B)     with </s>
  std::vector<i64> target_in;       // (B, T)  <s> y1 ... yn
  std::vector<i64> target_out;      // (B, T)  y1 ... yn </s>
  std::vector<std::size_t> rows;    // (B)     indices into the pairs
};

// Error: no rows, or a row that `pairs` does not have.
Batch make_batch(const std::vector<EncodedPair>& pairs, const std::vector<std::size_t>& rows);

// Word dropout: each word that the encoder or the decoder reads becomes <unk> with probability p; <s>, </s>, padding and what
// is to be predicted stay. (seed, stream) fix the choice, as in nn::Dropout.
void drop_words(Batch& batch, double p, u64 seed, u64 stream);

}  // namespace seqgrad::seq2seq
