#include "seq2seq/benchmark_decode.h"

#include <sys/resource.h>

#include "kernels/cuda.h"
#include "kernels/kernels.h"
#include "kernels/threads.h"
#include "seq2seq/benchmark.h"
#include "seq2seq/timing.h"
#include "tensor/file.h"

namespace seqgrad::seq2seq {
double decoding_flops(const Settings& s, i64 target_vocabulary, const SearchWork& work) {
  const double source = static_cast<double>(work.source_tokens), rows = static_cast<double>(work.extended),
               looks = static_cast<double>(work.looks), sentences = static_cast<double>(work.sentences);
  const double e = static_cast<double>(s.embedding), h = static_cast<double>(s.hidden),
               d = static_cast<double>(s.decoder_width()), k = static_cast<double>(s.attention_width()),
               v = static_cast<double>(target_vocabulary), directions = s.bidirectional ? 2 : 1,
               gates = s.cell == "lstm"  ? 4
                       : s.cell == "rnn" ? 1
                                         : 3,
               c = s.attention == "none" ? 0 : h * directions;
  double macs = 0;
  for (i64 layer = 0; layer < s.layers; ++layer)
    macs += source * directions * gates * h * (h + (layer > 0 ? h * directions : 0));
  if (s.bridge == "tanh-linear") macs += sentences * h * directions * d * (s.cell == "lstm" ? 2 : 1);
  if (s.attention == "sdp" || s.attention == "bahdanau") macs += source * c * k + rows * d * k;
  if (s.attention == "sdp") macs += looks * k;
  if (s.attention == "luong_general") macs += source * c * d;
  if (s.attention == "luong_dot" || s.attention == "luong_general") macs += looks * d;
  // What is linear in features: the gates and, but for hidden, logits or their projection. Of these the context's part, which
  // may be made for each position (Inference::encode), and the state's.
  const double read = s.readout == "hidden" ? 0 : s.readout == "deep" ? v : e;
  const double shared_tokens = static_cast<double>(work.shared_tokens), shared_rows = static_cast<double>(work.shared_extended),
               shared_looks = static_cast<double>(work.shared_looks);
  macs += (rows - shared_rows + shared_tokens) * c * (gates * d + read);
  macs += (looks - shared_looks) * c + shared_looks * (c > 0 ? gates * d + read : 0);
  macs += rows * d * (gates * d + read);
  if (s.readout != "deep") macs += rows * v * static_cast<double>(s.readout_width());
  return 2 * macs;
}

DecodeBenchmark bench_decode(const Run& run, const std::vector<std::vector<std::string>>& sentences,
                             const SearchOptions& options) {
  constexpr i64 least_passes = 3, most_passes = 9;
  constexpr double enough_seconds = 8;
  DecodeBenchmark result;
  Translator translator(run, options);
  translator.translate(sentences);  // memory and tables
  const SearchWork warm = translator.work();
  std::vector<double> seconds, peaks;
  double total = 0;
  for (result.passes = 0; result.passes < least_passes || (total < enough_seconds && result.passes < most_passes);
       ++result.passes) {
    peaks.push_back(peak_product_gflops());
    const auto start = Clock::now();
    const std::vector<Translation> translations = translator.translate(sentences);
    seconds.push_back(seconds_since(start));
    total += seconds.back();
    result.target_tokens = 0;
    for (std::size_t i = 0; i < sentences.size(); ++i)
      if (!sentences[i].empty())
        result.target_tokens += static_cast<i64>(translations[i].ids.size()) + (translations[i].cut_off ? 0 : 1);
  }
  peaks.push_back(peak_product_gflops());
  result.peak_gflops = median(peaks);

  // One sentence at a time, of all lengths.
  constexpr std::size_t most_sentences = 300;
  const std::size_t step = std::max<std::size_t>(1, sentences.size() / most_sentences);
  std::vector<double> latencies;
  for (std::size_t i = 0; i < sentences.size(); i += step) {
    if (sentences[i].empty()) continue;
    const auto start = Clock::now();
    translator.translate({sentences[i]});
    latencies.push_back(1e3 * seconds_since(start));
  }
  if (latencies.empty()) throw_error("there is no sentence to translate");

  result.sentences = warm.sentences;
  result.source_tokens = warm.source_tokens;
  result.parameters = 0;
  for (const Parameter* parameter : run.block.parameters()) result.parameters += parameter->value.numel();
  result.seconds = median(seconds);
  const double tokens = static_cast<double>(result.target_tokens);
  result.tokens_per_second = tokens / result.seconds;
  const double flops = decoding_flops(run.settings, run.target.size(), warm);
  result.megaflop_per_token = 1e-6 * flops / tokens;
  result.limit_tokens_per_second = 1e9 * result.peak_gflops * tokens / flops;
  result.share_of_limit = result.tokens_per_second / result.limit_tokens_per_second;
  result.latency_sentences = static_cast<i64>(latencies.size());
  result.latency_median_ms = median(latencies);
  result.latency_p99_ms = quantile(latencies, 0.99);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  result.peak_memory_megabytes = static_cast<double>(usage.ru_maxrss) / 1024;
  result.threads = threads();
  result.cpu_level = default_device() == Device::cpu ? kernels::cpu_level() : kernels::cuda::device_name();
  return result;
}

void bench_start(const std::string& folder, DecodeBenchmark& result) {
  result.start_seconds = result.read_seconds = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    const std::unique_ptr<Run> run = open_run(folder);
    const Translator translator(*run);
    result.start_seconds = std::min(result.start_seconds, seconds_since(start));
    const auto read_start = Clock::now();
    const SafetensorsReader file(path_in(folder, "model.safetensors"));
    for (const SafetensorsReader::Entry& entry : file.entries()) file.read(entry, Tensor(entry.shape, entry.dtype));
    result.read_seconds = std::min(result.read_seconds, seconds_since(read_start));
  }
}

std::vector<std::vector<std::string>> made_up_sentences(const Run& run, i64 count) {
  std::vector<std::vector<std::string>> sentences;
  for (const EncodedPair& pair : made_up_pairs(run, count)) sentences.push_back(run.source.decode(pair.source));
  return sentences;
}

SearchOptions made_up_lengths(Run& run, SearchOptions options) {
  for (const Parameter* parameter : run.block.parameters())
    if (parameter->name == "decoder.out.bias") parameter->value.slice(0, Vocabulary::end, Vocabulary::end + 1).fill(-1e9);
  options.length_factor = 1;
  options.length_more = 0;
  return options;
}

}  // namespace seqgrad::seq2seq
