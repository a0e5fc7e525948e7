#include "seq2seq/invariance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "seq2seq/random.h"
#include "seq2seq/search.h"

namespace seqgrad::seq2seq {
namespace {

using Rows = std::vector<std::size_t>;

// The same weights in another precision.
std::unique_ptr<Run> converted(const Run& run, const char* precision) {
  Settings settings = run.settings;
  settings.precision = precision;
  auto other = std::make_unique<Run>(settings, run.source, run.target, run.tokenizers, Run::Unread());
  for (std::size_t i = 0; i < run.block.parameters().size(); ++i) {
    const Tensor& target = other->block.parameters()[i]->value;
    target.copy_from(run.block.parameters()[i]->value.to(target.dtype()));
  }
  return other;
}

// Rows of `width` more columns than they had.
std::vector<i64> widened(const std::vector<i64>& values, i64 rows, i64 columns, i64 more) {
  std::vector<i64> wide;
  for (i64 r = 0; r < rows; ++r) {
    wide.insert(wide.end(), values.begin() + r * columns, values.begin() + (r + 1) * columns);
    wide.insert(wide.end(), static_cast<std::size_t>(more), Vocabulary::pad);
  }
  return wide;
}

Batch padded_batch(const std::vector<EncodedPair>& pairs, const Rows& rows, i64 more) {
  Batch batch = make_batch(pairs, rows);
  batch.source = widened(batch.source, batch.size, batch.source_length, more);
  batch.target_in = widened(batch.target_in, batch.size, batch.target_length, more);
  batch.target_out = widened(batch.target_out, batch.size, batch.target_length, more);
  batch.source_length += more;
  batch.target_length += more;
  return batch;
}

// log p(word) for each row of features (N, F).
Tensor log_probabilities(const Seq2Seq& model, const Var& features) {
  return log_softmax(model.decoder.logits(features)).value().to(Device::cpu).to(DType::f64);
}

// Teacher-forced: each row's mean negative log-likelihood per target token.
std::vector<double> losses(const Seq2Seq& model, const Batch& batch) {
  NoGrad values_only;
  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  const Encoded encoded = model.encode(tape, Source::from(batch), mode);
  const Tensor target_in = Tensor::from<i64>(batch.target_in, {batch.size, batch.target_length});
  const Var features = model.decoder(tape, encoded, target_in, mode).features;
  std::vector<i64> real;
  for (std::size_t i = 0; i < batch.target_out.size(); ++i)
    if (batch.target_out[i] != Vocabulary::pad) real.push_back(static_cast<i64>(i));
  const Var rows =
      embedding(reshape(features, {-1, features.size(-1)}), Tensor::from<i64>(real, {static_cast<i64>(real.size())}));
  const Tensor log_p = log_probabilities(model, rows);
  std::vector<double> sums(static_cast<std::size_t>(batch.size)), counts(sums.size());
  for (std::size_t i = 0; i < real.size(); ++i) {
    const std::size_t row = static_cast<std::size_t>(real[i] / batch.target_length);
    sums[row] -= log_p.at({static_cast<i64>(i), batch.target_out[static_cast<std::size_t>(real[i])]});
    ++counts[row];
  }
  for (std::size_t row = 0; row < sums.size(); ++row) sums[row] /= counts[row];
  return sums;
}

// Greedy search on sources that are padded further than the longest of them needs.
std::vector<std::vector<i64>> greedy_on_padded(const Seq2Seq& model, const std::vector<std::vector<i64>>& sources, i64 more) {
  NoGrad values_only;
  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  std::vector<EncodedPair> pairs;
  for (const auto& source : sources) pairs.push_back({source, {}});
  Rows rows(pairs.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  const Batch batch = padded_batch(pairs, rows, more);
  const Encoded encoded = model.encode(tape, Source::from(batch), mode);
  auto state = encoded.state;
  std::vector<std::vector<i64>> translations(rows.size());
  std::vector<bool> done(rows.size());
  std::vector<i64> words(rows.size(), Vocabulary::start);
  while (!std::all_of(done.begin(), done.end(), [](bool b) { return b; })) {
    const DecoderStep out = model.decoder.step(encoded, Tensor::from<i64>(words, {batch.size}), state);
    state = out.state;
    const Tensor logits = out.logits.value().to(Device::cpu).to(DType::f64);
    const double* scores = logits.data<double>();
    for (std::size_t b = 0; b < rows.size(); ++b) {
      const double* row = scores + static_cast<i64>(b) * logits.size(1);
      words[b] = std::max_element(row, row + logits.size(1)) - row;
      if (done[b]) continue;
      if (words[b] != Vocabulary::end) translations[b].push_back(words[b]);
      done[b] = words[b] == Vocabulary::end ||
                static_cast<i64>(translations[b].size()) == SearchOptions().longest(batch.source_lengths[b]);
    }
  }
  return translations;
}

std::vector<std::vector<i64>> greedy_translations(Translator& translator, const Seq2Seq& model,
                                                  const std::vector<std::vector<i64>>& sources, i64 padding) {
  if (padding > 0) return greedy_on_padded(model, sources, padding);
  std::vector<std::vector<i64>> all;
  for (auto& translations : translator.search(sources)) all.push_back(std::move(translations[0].ids));
  return all;
}

ChangedTranslation changed_translation(const Seq2Seq& model, const EncodedPair& pair, std::vector<i64> alone,
                                       std::vector<i64> changed, double tie) {
  ChangedTranslation result;
  std::vector<i64> prefix{Vocabulary::start};
  std::size_t at = 0;
  while (at < alone.size() && at < changed.size() && alone[at] == changed[at]) prefix.push_back(alone[at++]);
  result.alone_word = at < alone.size() ? alone[at] : Vocabulary::end;
  result.changed_word = at < changed.size() ? changed[at] : Vocabulary::end;
  NoGrad values_only;
  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  const i64 steps = static_cast<i64>(prefix.size());
  const Encoded encoded = model.encode(tape, Source::from(make_batch({pair}, {0})), mode);
  const Var features = model.decoder(tape, encoded, Tensor::from<i64>(prefix, {1, steps}), mode).features;
  const Tensor log_p = log_probabilities(model, select(features, 1, steps - 1));
  result.gap = std::fabs(log_p.at({0, result.alone_word}) - log_p.at({0, result.changed_word}));
  result.tie = result.gap <= tie;
  result.alone = std::move(alone);
  result.changed = std::move(changed);
  return result;
}

// The order in which a variant meets the sentences.
Rows order_of(const std::vector<EncodedPair>& pairs, bool shuffled, u64 seed) {
  Rows order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (shuffled) {
    SplitMix64 generator(seed);
    shuffle(order, generator);
  } else {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return pairs[a].source.size() > pairs[b].source.size(); });
  }
  return order;
}

// f(rows) for each batch of the variant.
template <class F>
void for_each_batch(const std::vector<EncodedPair>& pairs, const InvarianceVariant& variant, u64 seed, const F& f) {
  const Rows order = order_of(pairs, variant.shuffled, seed);
  for (std::size_t begin = 0; begin < order.size(); begin += static_cast<std::size_t>(variant.batch)) {
    const std::size_t end = std::min(order.size(), begin + static_cast<std::size_t>(variant.batch));
    f(Rows(order.begin() + static_cast<std::ptrdiff_t>(begin), order.begin() + static_cast<std::ptrdiff_t>(end)));
  }
}

// Losses of each sentence alone in one precision, and the largest difference that a variant makes.
class Losses {
 public:
  Losses(const Seq2Seq& model, const std::vector<EncodedPair>& pairs) : model_(model), pairs_(pairs) {
    for (std::size_t i = 0; i < pairs.size(); ++i) alone_.push_back(losses(model, make_batch(pairs, {i}))[0]);
  }

  void compare(const Rows& rows, i64 padding, double& largest, std::size_t& worst) const {
    const std::vector<double> found = losses(model_, padded_batch(pairs_, rows, padding));
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (const double difference = std::fabs(found[i] - alone_[rows[i]]); !(difference <= largest)) {
        if (std::isnan(largest)) return;
        largest = difference;
        worst = rows[i];
      }
  }

 private:
  const Seq2Seq& model_;
  const std::vector<EncodedPair>& pairs_;
  std::vector<double> alone_;
};

std::vector<InvarianceVariant> variants_of(const InvarianceOptions& options) {
  std::vector<InvarianceVariant> variants;
  const auto add = [&](i64 batch, bool shuffled, i64 padding) {
    InvarianceVariant& variant = variants.emplace_back();
    variant.batch = batch;
    variant.shuffled = shuffled;
    variant.padding = padding;
  };
  for (const i64 batch : options.batches) {
    if (batch < 1) throw_error("[invariance] the batch size must be at least 1, not {}", batch);
    if (batch > 1)
      for (const bool shuffled : {false, true}) add(batch, shuffled, 0);
    if (options.padding > 0) add(batch, batch > 1, options.padding);
  }
  return variants;
}

}  // namespace

std::string InvarianceVariant::name() const {
  std::string name = fmt::format("batch {}", batch);
  if (batch > 1) name += shuffled ? ", shuffled" : ", sorted";
  if (padding > 0) name += fmt::format(", {} more columns", padding);
  return name;
}

bool InvarianceReport::ok(const InvarianceOptions& options) const {
  return !variants.empty() && std::all_of(variants.begin(), variants.end(), [&](const InvarianceVariant& variant) {
    return variant.sentences > 0 && variant.identical == variant.sentences &&
           (!with_losses ||
            (variant.f64_difference <= options.f64_tolerance && variant.f32_difference <= options.f32_tolerance));
  });
}

InvarianceReport check_invariance(const Run& run, const std::vector<EncodedPair>& pairs, bool with_losses,
                                  const InvarianceOptions& options,
                                  const std::function<void(const InvarianceVariant&)>& on_variant) {
  InvarianceReport report;
  report.with_losses = with_losses;
  std::unique_ptr<Run> f32, f64;
  std::vector<Losses> exact, rounded;  // one each, or none
  if (with_losses) {
    f32 = converted(run, "f32");
    f64 = converted(run, "f64");
    exact.emplace_back(f64->model, pairs);
    rounded.emplace_back(f32->model, pairs);
  }
  Translator translator(run);
  const auto translations_of = [&](const Rows& rows, i64 padding) {
    std::vector<std::vector<i64>> sources;
    for (const std::size_t row : rows) sources.push_back(pairs[row].source);
    return options.translator ? options.translator(sources, padding)
                              : greedy_translations(translator, run.model, sources, padding);
  };
  std::vector<std::vector<i64>> alone;
  for (std::size_t i = 0; i < pairs.size(); ++i) alone.push_back(translations_of({i}, 0)[0]);

  for (InvarianceVariant& variant : variants_of(options)) {
    for_each_batch(pairs, variant, options.seed, [&](const Rows& rows) {
      std::vector<std::vector<i64>> translations = translations_of(rows, variant.padding);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        ++variant.sentences;
        if (translations[i] == alone[rows[i]]) {
          ++variant.identical;
          continue;
        }
        variant.changed.push_back(
            changed_translation(run.model, pairs[rows[i]], alone[rows[i]], std::move(translations[i]), options.tie));
        variant.changed.back().sentence = rows[i];
      }
      for (const Losses& l : exact) l.compare(rows, variant.padding, variant.f64_difference, variant.f64_worst);
      for (const Losses& l : rounded) l.compare(rows, variant.padding, variant.f32_difference, variant.f32_worst);
    });
    std::sort(variant.changed.begin(), variant.changed.end(),
              [](const auto& a, const auto& b) { return a.sentence < b.sentence; });
    if (on_variant) on_variant(variant);
    report.variants.push_back(std::move(variant));
  }
  return report;
}

}  // namespace seqgrad::seq2seq
