// How fast translating is, and how far from what the machine's matrix products allow. Everything is measured in one run,
// because machines are shared: passes over the text and reference products alternate.
#pragma once

#include <string>
#include <vector>

#include "seq2seq/search.h"

namespace seqgrad::seq2seq {

// Floating-point operations of the matrix products of a search, as the equations have them: the encoder over every real source
// token; for every extended hypothesis the attention over its source's tokens, the cell and the output layer; the context's
// part of these for every token instead, where the search does so. Neither padding nor rows of ended sentences count, and not
// the embeddings' parts of gates and readout, which are looked up.
double decoding_flops(const Settings& settings, i64 target_vocabulary, const SearchWork& work);

struct DecodeBenchmark {
  i64 sentences = 0, source_tokens = 0, target_tokens = 0, parameters = 0;  // tokens of one pass, with </s>
  i64 passes = 0;
  double seconds = 0;                  // a pass, median
  double tokens_per_second = 0;        // target tokens, by the median pass
  double megaflop_per_token = 0;       // decoding_flops for each target token
  double peak_gflops = 0;              // of large products, median over the run
  double limit_tokens_per_second = 0;  // what peak_gflops would allow
  double share_of_limit = 0;
  double latency_median_ms = 0, latency_p99_ms = 0;  // one sentence at a time
  i64 latency_sentences = 0;
  double start_seconds = 0;          // from the folder's name to a model that translates
  double read_seconds = 0;           // of it, what reading the weights takes by itself
  double peak_memory_megabytes = 0;  // resident, of the whole process
  int threads = 0;
  std::string cpu_level;
};

// Translates `sentences` at least three times over.
DecodeBenchmark bench_decode(const Run& run, const std::vector<std::vector<std::string>>& sentences,
                             const SearchOptions& options);

// Measures how long the folder takes to open, warm.
void bench_start(const std::string& folder, DecodeBenchmark& result);

// Sentences of a made-up run's words with Multi30k's lengths, and options that translate each into as many words, so that
// machines and versions can be compared without a trained model: </s> is never best.
std::vector<std::vector<std::string>> made_up_sentences(const Run& run, i64 count);
SearchOptions made_up_lengths(Run& run, SearchOptions options);

}  // namespace seqgrad::seq2seq
