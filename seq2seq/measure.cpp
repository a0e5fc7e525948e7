#include "seq2seq/measure.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "kernels/error.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {
namespace {

// In a sentence's row: matches and n-grams of each order, then the lengths.
constexpr std::size_t bleu_width = 2 * bleu_orders + 2;

BleuCounts bleu_of(const i64* row) {
  BleuCounts counts;
  std::copy_n(row, bleu_orders, counts.correct.begin());
  std::copy_n(row + bleu_orders, bleu_orders, counts.total.begin());
  counts.hypothesis_length = row[2 * bleu_orders];
  counts.reference_length = row[2 * bleu_orders + 1];
  return counts;
}

// How a text writes full stops and commas.
struct Marks {
  i64 alone = 0, attached = 0;

  void add(const std::string& line) {
    for (const std::string& word : split_whitespace(line))
      if (word.back() == '.' || word.back() == ',') ++(word.size() == 1 ? alone : attached);
  }
  i64 all() const { return alone + attached; }
  double share_alone() const { return static_cast<double>(alone) / static_cast<double>(all()); }
};

}  // namespace

double Measured::score() const {
  std::vector<i64> sums(width);
  for (std::size_t i = 0; i < counts.size(); ++i) sums[i % width] += counts[i];
  return value(sums.data());
}

double Measured::score(const std::vector<std::size_t>& of) const {
  std::vector<i64> sums(width);
  for (const std::size_t i : of)
    for (std::size_t k = 0; k < width; ++k) sums[k] += sentence(i)[k];
  return value(sums.data());
}

Measured measure_bleu(const std::vector<std::string>& hypotheses, const std::vector<std::vector<std::string>>& references,
                      const BleuOptions& options) {
  Measured measured;
  measured.name = "BLEU";
  measured.width = bleu_width;
  for (const BleuCounts& sentence : bleu_counts(hypotheses, references, options)) {
    std::ranges::copy(sentence.correct, std::back_inserter(measured.counts));
    std::ranges::copy(sentence.total, std::back_inserter(measured.counts));
    measured.counts.push_back(sentence.hypothesis_length);
    measured.counts.push_back(sentence.reference_length);
  }
  const std::size_t reference_count = references.size();
  measured.signature = bleu_from_counts({}, reference_count, options).signature;
  measured.value = [=](const i64* sums) { return bleu_from_counts(bleu_of(sums), reference_count, options).score; };
  return measured;
}

Measured mean_of(const std::vector<Measured>& systems) {
  if (systems.empty()) throw_error("[mean_of] there is no system");
  const Measured& first = systems.front();
  for (const Measured& one : systems)
    if (one.name != first.name || one.signature != first.signature || one.counts.size() != first.counts.size())
      throw_error("[mean_of] the systems are measured differently: {} {} of {} sentences and {} {} of {}", first.name,
                  first.signature, first.sentences(), one.name, one.signature, one.sentences());
  Measured mean;
  mean.name = first.name;
  mean.signature = first.signature;
  mean.width = systems.size() * first.width;
  mean.counts.reserve(mean.width * first.sentences());
  for (std::size_t i = 0; i < first.sentences(); ++i)
    for (const Measured& one : systems) mean.counts.insert(mean.counts.end(), one.sentence(i), one.sentence(i) + one.width);
  mean.value = [value = first.value, width = first.width, count = systems.size()](const i64* sums) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += value(sums + i * width);
    return sum / static_cast<double>(count);
  };
  return mean;
}

Measured measure_chrf(const std::vector<std::string>& hypotheses, const std::vector<std::vector<std::string>>& references,
                      const ChrfOptions& options) {
  Measured measured;
  measured.counts = chrf_counts(hypotheses, references, options);
  measured.name = chrf_name(options);
  measured.signature = chrf_signature(options, references.size());
  measured.width = chrf_width(options);
  measured.value = [=](const i64* sums) { return chrf_from_counts(sums, options); };
  return measured;
}

std::string LengthBucket::name() const { return to == 0 ? fmt::format("{}+", from) : fmt::format("{}-{}", from, to); }

std::vector<LengthBucket> length_buckets(const std::vector<i64>& lengths, const std::vector<i64>& edges) {
  std::vector<LengthBucket> buckets;
  i64 from = 0;
  for (const i64 edge : edges) {
    if (edge < std::max(from, i64{1}))
      throw_error("[length_buckets] {} stands after {}: the lengths must rise from 1 or more", edge,
                  std::max(from, i64{1}) - 1);
    buckets.push_back({from, edge, {}});
    from = edge + 1;
  }
  buckets.push_back({from, 0, {}});
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const auto at = std::lower_bound(edges.begin(), edges.end(), lengths[i]);
    buckets[static_cast<std::size_t>(at - edges.begin())].sentences.push_back(i);
  }
  std::erase_if(buckets, [](const LengthBucket& bucket) { return bucket.sentences.empty(); });
  return buckets;
}

std::vector<std::string> text_warnings(const std::vector<std::string>& hypotheses,
                                       const std::vector<std::vector<std::string>>& references, BleuTokenizer tokenize) {
  Marks ours, theirs;
  i64 full_stops = 0;
  for (const std::string& line : hypotheses) {
    ours.add(line);
    full_stops += line.ends_with(" .");
  }
  for (const auto& stream : references)
    for (const std::string& line : stream) theirs.add(line);

  constexpr double nearly_all = 0.8, nearly_none = 0.2;
  if (ours.all() > 0 && theirs.all() > 0) {
    const bool ours_alone = ours.share_alone() >= nearly_all, theirs_alone = theirs.share_alone() >= nearly_all;
    const bool ours_attached = ours.share_alone() <= nearly_none, theirs_attached = theirs.share_alone() <= nearly_none;
    if ((ours_alone && theirs_attached) || (theirs_alone && ours_attached))
      return {
          fmt::format("the {} are tokenised but the {} are not: {:.0f}% of the full stops and commas stand alone in the "
                      "translations, {:.0f}% in the references; score both in the same form, detokenised if you can",
                      ours_alone ? "translations" : "references", ours_alone ? "references" : "translations",
                      100 * ours.share_alone(), 100 * theirs.share_alone())};
  }
  if (full_stops >= 100 && tokenize != BleuTokenizer::none)
    return {
        fmt::format("{} of {} translations end in ' .', so the text seems to be tokenised already: detokenise it, or "
                    "compare its words as they stand with --tokenize none",
                    full_stops, hypotheses.size())};
  return {};
}

}  // namespace seqgrad::seq2seq
