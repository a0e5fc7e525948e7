#include "seq2seq/corpus.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/error.h"
#include "kernels/philox.h"
#include "seq2seq/random.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {
namespace {

constexpr double batches_in_pool = 100;

std::string lines(i64 count) { return fmt::format("{} line{}", count, count == 1 ? "" : "s"); }

// Tokens of the longer side, each with its </s>.
i64 width(const PairLength& length) { return std::max(length.source, length.target + 1); }

bool is_blank(std::string_view line) {
  std::size_t position = 0;
  while (position < line.size())
    if (!is_whitespace(next_code_point(line, position))) return false;
  return true;
}

std::vector<std::size_t> all_indices(std::size_t count) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

// How many of the first `indices` are one batch.
std::size_t rows_in_batch(std::span<const std::size_t> indices, BatchSize size, const std::vector<PairLength>& lengths) {
  if (size.tokens == 0) return std::min(static_cast<std::size_t>(size.pairs), indices.size());
  std::size_t rows = 0;
  for (i64 longest = 0; rows < indices.size(); ++rows) {
    longest = std::max(longest, width(lengths[indices[rows]]));
    if (rows > 0 && longest > size.tokens / static_cast<i64>(rows + 1)) break;
  }
  return rows;
}

// Appends `indices` in batches, rows by falling source length, equal ones in the order given.
void cut(std::span<const std::size_t> indices, BatchSize size, const std::vector<PairLength>& lengths,
         std::vector<std::vector<std::size_t>>& batches) {
  while (!indices.empty()) {
    const auto part = indices.first(rows_in_batch(indices, size, lengths));
    indices = indices.subspan(part.size());
    auto& batch = batches.emplace_back(part.begin(), part.end());
    std::stable_sort(batch.begin(), batch.end(),
                     [&](std::size_t a, std::size_t b) { return lengths[a].source > lengths[b].source; });
  }
}

void check_size(BatchSize size) {
  if (size.pairs < 1) throw_error("[batches] the batch size must be at least 1, not {}", size.pairs);
  if (size.tokens < 0) throw_error("[batches] the tokens of a batch must be at least 0, not {}", size.tokens);
}

std::size_t rows_in_pool(BatchSize size, const std::vector<PairLength>& lengths) {
  const double count = static_cast<double>(lengths.size());
  double rows = static_cast<double>(size.pairs);
  if (size.tokens > 0 && !lengths.empty()) {
    double tokens = 0;
    for (const PairLength& length : lengths) tokens += static_cast<double>(width(length));
    rows = std::floor(static_cast<double>(size.tokens) / (tokens / count));
  }
  return static_cast<std::size_t>(std::clamp(rows * batches_in_pool, 1.0, std::max(1.0, count)));
}

}  // namespace

ParallelText read_parallel_text(const std::string& source_path, const std::string& target_path) {
  LineReader source(source_path);
  LineReader target(target_path);
  ParallelText text{source_path, target_path, {}, {}, 0};
  std::string source_line, target_line;
  bool more_source = source.next(source_line);
  bool more_target = target.next(target_line);
  while (more_source && more_target) {
    if (is_blank(source_line) || is_blank(target_line)) {
      ++text.skipped_empty;
    } else {
      text.source.push_back(source_line);
      text.target.push_back(target_line);
    }
    more_source = source.next(source_line);
    more_target = target.next(target_line);
  }
  if (more_source || more_target) {
    while (source.next(source_line)) continue;
    while (target.next(target_line)) continue;
    throw_error("{} has {} but {} has {}: a source and its target must match line by line", source_path,
                lines(source.line_number()), target_path, target.line_number());
  }
  return text;
}

ParallelCorpus tokenize(const ParallelText& text, const Tokenizers& tokenizers, i64 max_length) {
  ParallelCorpus corpus;
  corpus.left_out.empty = text.skipped_empty;
  for (std::size_t i = 0; i < text.source.size(); ++i) {
    SentencePair pair{tokenizers.source->split(text.source[i]), tokenizers.target->split(text.target[i])};
    const auto longest = static_cast<i64>(std::max(pair.source.size(), pair.target.size()));
    if (pair.source.empty() || pair.target.empty()) {
      ++corpus.left_out.empty;
    } else if (max_length > 0 && longest > max_length) {
      ++corpus.left_out.too_long;
    } else {
      corpus.pairs.push_back(std::move(pair));
      corpus.lines.push_back(i);
    }
  }
  if (corpus.pairs.empty()) {
    std::string why = fmt::format("{} empty", corpus.left_out.empty);
    if (max_length > 0) why += fmt::format(", {} longer than {} tokens", corpus.left_out.too_long, max_length);
    throw_error("{} and {} hold no usable sentence pair ({})", text.source_path, text.target_path, why);
  }
  return corpus;
}

ParallelCorpus read_parallel(const std::string& source_path, const std::string& target_path, i64 max_length) {
  return tokenize(read_parallel_text(source_path, target_path), {whitespace_tokenizer(), whitespace_tokenizer()}, max_length);
}

std::vector<std::vector<std::string>> source_sentences(const ParallelCorpus& corpus) {
  std::vector<std::vector<std::string>> sentences;
  for (const SentencePair& pair : corpus.pairs) sentences.push_back(pair.source);
  return sentences;
}

std::vector<std::vector<std::string>> target_sentences(const ParallelCorpus& corpus) {
  std::vector<std::vector<std::string>> sentences;
  for (const SentencePair& pair : corpus.pairs) sentences.push_back(pair.target);
  return sentences;
}

EncodedPair encode_pair(const SentencePair& pair, const Vocabulary& source, const Vocabulary& target) {
  EncodedPair encoded{source.encode(pair.source), target.encode(pair.target)};
  encoded.source.push_back(Vocabulary::end);
  return encoded;
}

std::vector<EncodedPair> encode_pairs(const std::vector<SentencePair>& pairs, const Vocabulary& source,
                                      const Vocabulary& target) {
  std::vector<EncodedPair> encoded;
  encoded.reserve(pairs.size());
  for (const SentencePair& pair : pairs) encoded.push_back(encode_pair(pair, source, target));
  return encoded;
}

std::vector<PairLength> pair_lengths(const std::vector<EncodedPair>& pairs) {
  std::vector<PairLength> lengths;
  lengths.reserve(pairs.size());
  for (const EncodedPair& pair : pairs) {
    lengths.push_back({static_cast<i64>(pair.source.size()), static_cast<i64>(pair.target.size())});
  }
  return lengths;
}

BatchSize BatchSize::times(i64 count) const {
  const auto product = [&](i64 x) {
    i64 result = 0;
    return __builtin_mul_overflow(x, count, &result) ? std::numeric_limits<i64>::max() : result;
  };
  return {product(pairs), product(tokens)};
}

std::vector<std::vector<std::size_t>> make_batches(const std::vector<PairLength>& lengths, BatchSize size, u64 seed,
                                                   u64 epoch) {
  check_size(size);
  SplitMix64 generator(seed, epoch);
  std::vector<std::size_t> order = all_indices(lengths.size());
  shuffle(order, generator);

  const std::size_t pool_size = rows_in_pool(size, lengths);
  std::vector<std::vector<std::size_t>> batches;
  std::span<std::size_t> rest(order);
  while (!rest.empty()) {
    const auto pool = rest.first(std::min(pool_size, rest.size()));
    rest = rest.subspan(pool.size());
    std::stable_sort(pool.begin(), pool.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(lengths[a].source, lengths[a].target) < std::pair(lengths[b].source, lengths[b].target);
    });
    cut(pool, size, lengths, batches);
  }
  shuffle(batches, generator);
  return batches;
}

std::vector<std::vector<std::size_t>> split_batch(const std::vector<std::size_t>& rows, BatchSize size,
                                                  const std::vector<PairLength>& lengths) {
  check_size(size);
  std::vector<std::vector<std::size_t>> parts;
  cut(rows, size, lengths, parts);
  return parts;
}

std::vector<std::vector<std::size_t>> make_batches(const std::vector<PairLength>& lengths, i64 batch_size) {
  check_size(batch_size);
  std::vector<std::size_t> order = all_indices(lengths.size());
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(lengths[a].source, lengths[a].target) > std::pair(lengths[b].source, lengths[b].target);
  });
  std::vector<std::vector<std::size_t>> batches;
  cut(order, batch_size, lengths, batches);
  return batches;
}

Batch make_batch(const std::vector<EncodedPair>& pairs, const std::vector<std::size_t>& rows) {
  if (rows.empty()) throw_error("[batch] a batch needs at least one row");
  Batch batch;
  batch.size = static_cast<i64>(rows.size());
  batch.rows = rows;
  for (const std::size_t row : rows) {
    if (row >= pairs.size()) throw_error("[batch] there is no row {}: the corpus has {} pairs", row, pairs.size());
    const auto target = static_cast<i64>(pairs[row].target.size());
    batch.source_lengths.push_back(static_cast<i64>(pairs[row].source.size()));
    batch.source_length = std::max(batch.source_length, batch.source_lengths.back());
    batch.target_length = std::max(batch.target_length, target + 1);
    batch.target_tokens += target + 1;
  }
  batch.source.assign(static_cast<std::size_t>(batch.size * batch.source_length), Vocabulary::pad);
  batch.target_in.assign(static_cast<std::size_t>(batch.size * batch.target_length), Vocabulary::pad);
  batch.target_out = batch.target_in;
  for (i64 b = 0; b < batch.size; ++b) {
    const EncodedPair& pair = pairs[rows[static_cast<std::size_t>(b)]];
    std::copy(pair.source.begin(), pair.source.end(), batch.source.begin() + b * batch.source_length);
    const auto in = batch.target_in.begin() + b * batch.target_length;
    const auto out = batch.target_out.begin() + b * batch.target_length;
    *in = Vocabulary::start;
    std::copy(pair.target.begin(), pair.target.end(), in + 1);
    *std::copy(pair.target.begin(), pair.target.end(), out) = Vocabulary::end;
  }
  return batch;
}

void drop_words(Batch& batch, double p, u64 seed, u64 stream) {
  const u64 threshold = kernels::dropout_threshold(p);
  u64 index = 0;
  for (std::vector<i64>* words : {&batch.source, &batch.target_in})
    for (i64& word : *words) {
      const bool drop = kernels::philox(seed, stream, index / 4).word[index % 4] < threshold;
      ++index;
      if (drop && word >= Vocabulary::specials) word = Vocabulary::unknown;
    }
}

}  // namespace seqgrad::seq2seq
