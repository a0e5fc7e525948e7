#include "seq2seq/benchmark.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>

#include "kernels/kernels.h"
#include "kernels/threads.h"
#include "seq2seq/random.h"
#include "seq2seq/train.h"
#include "tensor/matmul.h"

namespace seqgrad::seq2seq {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Square enough and large enough that the library is at its best.
double product_gflops() {
  const i64 n = 1536;
  static const Tensor a = randn({n, n}), b = randn({n, n}), c = zeros({n, n});
  const auto start = Clock::now();
  int count = 0;
  do {
    matmul_into(a, b, 0, c);
    ++count;
  } while (seconds_since(start) < 0.15);
  return 2e-9 * static_cast<double>(n * n * n * count) / seconds_since(start);
}

double copy_rate() {
  static const Tensor from = randn({i64{1} << 23}), to = zeros({i64{1} << 23});
  const auto start = Clock::now();
  to.copy_from(from);
  return 2e-9 * 4 * static_cast<double>(from.numel()) / seconds_since(start);
}

double peak_memory_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

double training_flops(const Settings& s, const Run& run, const Batch& batch) {
  double source = 0, pairs = 0;  // real source tokens, (target token, source token) pairs
  for (std::size_t b = 0; b < batch.source_lengths.size(); ++b) {
    const double length = static_cast<double>(batch.source_lengths[b]);
    double targets = 0;
    for (i64 t = 0; t < batch.target_length; ++t)
      targets +=
          batch.target_out[b * static_cast<std::size_t>(batch.target_length) + static_cast<std::size_t>(t)] != Vocabulary::pad;
    source += length;
    pairs += length * targets;
  }
  const double target = static_cast<double>(batch.target_tokens), rows = static_cast<double>(batch.size);
  const double e = static_cast<double>(s.embedding), h = static_cast<double>(s.hidden),
               d = static_cast<double>(s.decoder_width()), k = static_cast<double>(s.attention_width()),
               v = static_cast<double>(run.target.size()), directions = s.bidirectional ? 2 : 1,
               gates = s.cell == "lstm"  ? 4
                       : s.cell == "rnn" ? 1
                                         : 3,
               c = s.attention == "none" ? 0 : h * directions;
  double macs = 0;
  double width = e;
  for (i64 layer = 0; layer < s.layers; ++layer) {
    macs += source * directions * gates * h * (width + h);
    width = h * directions;
  }
  if (s.bridge == "tanh-linear") macs += rows * h * directions * d * (s.cell == "lstm" ? 2 : 1);
  macs += target * gates * d * (e + c + d);
  if (s.attention == "sdp") macs += source * c * k + target * d * k + pairs * k;
  if (s.attention == "bahdanau") macs += source * c * k + target * d * k;
  if (s.attention == "luong_dot") macs += pairs * d;
  if (s.attention == "luong_general") macs += source * c * d + pairs * d;
  if (s.attention != "none" && s.attention != "mean") macs += pairs * c;
  macs += target * v * (s.readout == "deep" ? d + c + e : d);
  return 2 * 3 * macs;
}

TrainBenchmark bench_train(Run& run, const std::vector<EncodedPair>& pairs, i64 steps) {
  const auto batches = make_batches(pair_lengths(pairs), run.settings.batch, static_cast<u64>(run.settings.seed), 0);
  nn::Adam adam(run.block);
  Tape tape;
  constexpr i64 warm_up = 4, steps_between_products = 5;
  std::vector<double> seconds, peaks, copies;
  double tokens = 0, flops = 0, total = 0;
  for (i64 step = 0; step < warm_up + steps; ++step) {
    const Batch batch = make_batch(pairs, batches[static_cast<std::size_t>(step) % batches.size()]);
    if (step % steps_between_products == 0) {
      peaks.push_back(product_gflops());
      copies.push_back(copy_rate());
    }
    const auto start = Clock::now();
    train_step(run, adam, tape, batch, step);
    if (step < warm_up) continue;
    seconds.push_back(seconds_since(start));
    total += seconds.back();
    tokens += static_cast<double>(batch.target_tokens);
    flops += training_flops(run.settings, run, batch);
  }
  TrainBenchmark result;
  result.steps = steps;
  result.parameters = run.model.parameter_count();
  result.target_tokens_per_second = tokens / total;
  result.milliseconds_per_step = 1e3 * median(seconds);
  result.gflop_per_step = 1e-9 * flops / static_cast<double>(steps);
  result.gflops = 1e-9 * flops / total;
  result.peak_gflops = median(peaks);
  result.copy_gigabytes_per_second = median(copies);
  result.share_of_peak = result.gflops / result.peak_gflops;
  result.peak_memory_megabytes = peak_memory_megabytes();
  result.threads = threads();
  result.cpu_level = kernels::cpu_level();
  return result;
}

std::unique_ptr<Run> made_up_run(const Settings& settings) {
  constexpr i64 source_words = 7853, target_words = 5893;  // Multi30k, German and English, words seen twice
  const auto made_up = [](i64 size) {
    std::vector<std::vector<std::string>> words(1);
    for (i64 i = Vocabulary::specials; i < size; ++i) words[0].push_back(fmt::format("w{}", i));
    return Vocabulary::build(words);
  };
  return std::make_unique<Run>(settings, made_up(source_words), made_up(target_words));
}

std::vector<EncodedPair> made_up_pairs(const Run& run, i64 count) {
  SplitMix64 random(1);
  std::vector<EncodedPair> pairs(static_cast<std::size_t>(count));
  const auto word = [&](const Vocabulary& vocabulary) {
    return Vocabulary::specials + static_cast<i64>(random.below(static_cast<u64>(vocabulary.size() - Vocabulary::specials)));
  };
  for (EncodedPair& pair : pairs) {
    // A sum of uniform draws: 5 to 25 words, 12.4 in the mean as Multi30k has them, and a target of nearly the same length.
    const i64 length = 5 + static_cast<i64>(random.below(6) + random.below(6) + random.below(6));
    for (i64 i = 0; i < length; ++i) pair.source.push_back(word(run.source));
    pair.source.push_back(Vocabulary::end);
    const i64 target_length = length - 1 + static_cast<i64>(random.below(4));
    for (i64 i = 0; i < target_length; ++i) pair.target.push_back(word(run.target));
  }
  return pairs;
}

}  // namespace seqgrad::seq2seq
