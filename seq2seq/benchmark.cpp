#include "seq2seq/benchmark.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "kernels/cuda.h"
#include "kernels/kernels.h"
#include "kernels/threads.h"
#include "seq2seq/random.h"
#include "seq2seq/timing.h"
#include "seq2seq/train.h"
#include "tensor/matmul.h"
#include "tensor/storage.h"

namespace seqgrad::seq2seq {
namespace {

// Waits for a device, which computes while the host goes on.
void finish() {
  if (default_device() != Device::cpu) kernels::cuda::synchronize();
}

// Square enough and large enough that the library is at its best. Here and below memory is given back at once, so that the
// training that is measured finds what it left.
double product_gflops() {
  const i64 n = 1536;
  const Device device = default_device();
  const Tensor a = randn({n, n}).to(device), b = randn({n, n}).to(device), c({n, n}, DType::f32, device);
  const auto multiply = [&] {
    matmul_into(a, b, 0, c);
    finish();
  };
  multiply();
  const auto start = Clock::now();
  int count = 0;
  do {
    multiply();
    ++count;
  } while (seconds_since(start) < 0.15);
  return 2e-9 * static_cast<double>(n * n * n * count) / seconds_since(start);
}

double copy_rate() {
  const Dims size{i64{1} << 23};
  const Tensor from = ones(size, DType::f32, default_device()), to = zeros(size, DType::f32, default_device());
  finish();
  const auto start = Clock::now();
  to.copy_from(from);
  finish();
  return 2e-9 * 4 * static_cast<double>(from.numel()) / seconds_since(start);
}

rusage resources() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}

double resident_megabytes() {
  std::ifstream file("/proc/self/statm");
  double pages = 0;
  file >> pages >> pages;  // the second: resident
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

constexpr double megabyte = 1 << 20;

// Sizes that do not change from batch to batch.
std::set<i64> fixed_sizes(const Run& run) {
  std::set<i64> sizes{1, run.settings.batch};
  for (const Parameter* parameter : run.block.parameters())
    for (const i64 size : parameter->value.shape()) sizes.insert(size);
  return sizes;
}

// Training steps over and over the same epoch, of which the first `count` after the warm-up are to be measured.
class Steps {
 public:
  Steps(Run& run, const std::vector<EncodedPair>& pairs, i64 count)
      : run_(run),
        pairs_(pairs),
        batches_(make_batches(pair_lengths(pairs), run.settings.batch, static_cast<u64>(run.settings.seed), 0)),
        adam_(run.block) {
    // The largest batch first: after it no other should need memory.
    std::size_t largest = 0;
    double most = 0;
    for (std::size_t i = 0; i < std::min(batches_.size(), static_cast<std::size_t>(warm_up + count)); ++i) {
      const Batch batch = make_batch(pairs_, batches_[i]);
      const double size = static_cast<double>(batch.size * (batch.source_length + batch.target_length));
      if (size > most) largest = i;
      most = std::max(most, size);
    }
    train(make_batch(pairs_, batches_[largest]));
    for (i64 i = 0; i < warm_up; ++i) train(next_batch());
  }

  Batch next_batch() {
    ++next_;
    return same_batch();
  }
  Batch same_batch() const { return make_batch(pairs_, batches_[static_cast<std::size_t>(next_ - 1) % batches_.size()]); }
  void train(const Batch& batch) { train_step(run_, adam_, tape_, batch, step_++); }
  void forget() { tape_.clear(); }  // the last step's values

 private:
  static constexpr i64 warm_up = 4;
  Run& run_;
  const std::vector<EncodedPair>& pairs_;
  std::vector<std::vector<std::size_t>> batches_;
  nn::Adam adam_;
  Tape tape_;
  i64 next_ = 0, step_ = 0;
};

constexpr i64 steps_between_products = 5;  // and between steps under a profile

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
  if (s.readout == "projected") macs += target * static_cast<double>(s.feature_width() * s.readout_width());
  macs += target * v * static_cast<double>(s.readout_width());
  return 2 * 3 * macs;
}

TrainBenchmark bench_train(Run& run, const std::vector<EncodedPair>& pairs, i64 count) {
  const MatmulPrecisionScope products(products_of(run.settings));  // the peak's too
  Steps steps(run, pairs, count);
  steps.forget();
  TrainBenchmark result;
  result.breakdown = Breakdown(fixed_sizes(run));
  std::vector<double> seconds, peaks{product_gflops()}, copies{copy_rate()};
  double tokens = 0, flops = 0, total = 0, page_faults = 0, allocations = 0;
  const double resident = resident_megabytes();
  finish();
  for (i64 i = 0; i < count; ++i) {
    const rusage before = resources();
    const std::size_t calls_before = memory_statistics().system_calls;
    const auto start = Clock::now();
    const Batch batch = steps.next_batch();
    steps.train(batch);
    finish();
    seconds.push_back(seconds_since(start));
    total += seconds.back();
    page_faults += static_cast<double>(resources().ru_minflt - before.ru_minflt);
    allocations += static_cast<double>(memory_statistics().system_calls - calls_before);
    tokens += static_cast<double>(batch.target_tokens);
    flops += training_flops(run.settings, run, batch);
    if ((i + 1) % steps_between_products != 0 && i + 1 < count) continue;
    steps.forget();
    peaks.push_back(product_gflops());
    copies.push_back(copy_rate());
    if (default_device() != Device::cpu) continue;  // where routines take their time unseen by the host
    kernels::start_profile();
    const auto profile_start = Clock::now();
    const Batch profiled = steps.same_batch();
    const double data_seconds = seconds_since(profile_start);
    steps.train(profiled);
    const double profile_seconds = seconds_since(profile_start);
    kernels::stop_profile();
    result.breakdown.add_step(kernels::profile(), profile_seconds, data_seconds);
  }
  result.steady.resident_growth_megabytes = resident_megabytes() - resident;
  result.steady.page_faults_per_step = page_faults / static_cast<double>(count);
  result.steady.system_allocations_per_step = allocations / static_cast<double>(count);
  result.steps = count;
  result.parameters = run.model.parameter_count();
  result.target_tokens_per_second = tokens / total;
  result.milliseconds_per_step = 1e3 * median(seconds);
  result.gflop_per_step = 1e-9 * flops / static_cast<double>(count);
  result.gflops = 1e-9 * flops / total;
  result.peak_gflops = median(peaks);
  result.copy_gigabytes_per_second = median(copies);
  result.share_of_peak = result.gflops / result.peak_gflops;
  result.peak_memory_megabytes = static_cast<double>(resources().ru_maxrss) / 1024;
  const std::size_t peak = memory_statistics().peak;
  result.tensor_memory_megabytes =
      static_cast<double>(default_device() == Device::cpu ? peak : kernels::cuda::statistics().peak) / megabyte;
  const Tensor& weights = run.block.values();
  result.parameter_memory_megabytes =
      4 * static_cast<double>(weights.numel()) * static_cast<double>(size_of(weights.dtype())) / megabyte;
  result.threads = threads();
  result.cpu_level = kernels::cpu_level();
  if (default_device() != Device::cpu) result.device = kernels::cuda::device_name();
  return result;
}

ThreadComparison compare_threads(Run& run, const std::vector<EncodedPair>& pairs, i64 count) {
  const MatmulPrecisionScope products(products_of(run.settings));
  ThreadComparison result;
  result.threads = threads();
  Steps steps(run, pairs, count);
  std::vector<double> one, all, speedups, peak_speedups;
  const auto on = [](int count, const auto& measure) {
    set_threads(count);
    return measure();
  };
  for (i64 i = 0; i < count; ++i) {
    const Batch batch = steps.next_batch();
    const auto step = [&] {
      const auto start = Clock::now();
      steps.train(batch);
      return seconds_since(start);
    };
    // Now one thread first, now several: what changes from step to step favours neither.
    if (i % 2 == 0) one.push_back(on(1, step));
    all.push_back(on(result.threads, step));
    if (i % 2 == 1) one.push_back(on(1, step));
    speedups.push_back(one.back() / all.back());
    if (i % steps_between_products == 0) {
      steps.forget();
      const double alone = on(1, product_gflops);
      peak_speedups.push_back(on(result.threads, product_gflops) / alone);
    }
  }
  set_threads(result.threads);
  result.one_milliseconds = 1e3 * median(one);
  result.all_milliseconds = 1e3 * median(all);
  result.speedup = median(speedups);
  result.least = quantile(speedups, 0.25);
  result.most = quantile(speedups, 0.75);
  result.peak_speedup = median(peak_speedups);
  return result;
}

std::unique_ptr<Run> made_up_run(const Settings& settings) {
  constexpr i64 source_words = 7853, target_words = 5893;  // Multi30k, German and English, words seen twice
  const auto made_up = [](i64 size) {
    std::vector<std::vector<std::string>> words(1);
    for (i64 i = Vocabulary::specials; i < size; ++i) words[0].push_back(fmt::format("w{}", i));
    return Vocabulary::build(words);
  };
  Settings all = settings;
  all.tokenizer = "whitespace";  // there is no text to learn pieces from
  all.spm_source_model = all.spm_target_model = "";
  const i64 source = all.vocabulary_size > 0 ? all.vocabulary_size : source_words;
  const i64 target = all.vocabulary_size > 0 || all.shared_vocabulary ? source : target_words;
  return std::make_unique<Run>(all, made_up(source), made_up(target));
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

double peak_product_gflops() { return product_gflops(); }

}  // namespace seqgrad::seq2seq
