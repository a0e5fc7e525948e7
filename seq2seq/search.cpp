#include "seq2seq/search.h"

#include <algorithm>
#include <numeric>

#include "tensor/launch.h"

namespace seqgrad::seq2seq {
namespace {

Source pad(const std::vector<std::vector<i64>>& sources) {
  const i64 batch = static_cast<i64>(sources.size());
  std::vector<i64> lengths;
  for (const auto& source : sources) lengths.push_back(static_cast<i64>(source.size()));
  const i64 longest = *std::max_element(lengths.begin(), lengths.end());
  std::vector<i64> ids(static_cast<std::size_t>(batch * longest), Vocabulary::pad);
  for (std::size_t b = 0; b < sources.size(); ++b)
    std::copy(sources[b].begin(), sources[b].end(), ids.begin() + static_cast<i64>(b) * longest);
  return Source::from(Tensor::from<i64>(ids, {batch, longest}), Tensor::from<i64>(lengths, {batch}));
}

}  // namespace

std::vector<Translation> greedy(const Seq2Seq& model, const std::vector<std::vector<i64>>& sources) {
  if (sources.empty()) return {};
  NoGrad values_only;
  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  const Encoded encoded = model.encode(tape, pad(sources), mode);
  const i64 batch = static_cast<i64>(sources.size());
  std::vector<Translation> translations(sources.size());
  std::vector<bool> done(sources.size());
  std::vector<i64> words(sources.size(), Vocabulary::start);
  std::vector<Tensor> state = encoded.state.values();
  const std::size_t mark = tape.size();
  for (i64 step = 0; !std::all_of(done.begin(), done.end(), [](bool b) { return b; }); ++step) {
    tape.rewind(mark);
    const DecoderStep out =
        model.decoder.step(encoded, Tensor::from<i64>(words, {batch}), nn::RecurrentState::constants(tape, state));
    state = out.state.values();
    const Tensor log_p = log_softmax(out.logits).value();
    const Tensor best({batch}, log_p.dtype()), index({batch}, DType::i64);
    launch(kernels::max_reduce, log_p, best, index, batch, log_p.size(1), i64{1});
    const std::vector<double> score = best.to(DType::f64).to_vector<double>();
    const std::vector<float> weights =
        out.weights.defined() ? out.weights.value().to(DType::f32).to_vector<float>() : std::vector<float>();
    words = index.to_vector<i64>();
    for (std::size_t b = 0; b < sources.size(); ++b) {
      if (done[b]) continue;
      Translation& translation = translations[b];
      const i64 length = static_cast<i64>(sources[b].size());
      if (!weights.empty()) {
        const auto row = weights.begin() + static_cast<i64>(b) * out.weights.size(1);
        translation.weights.emplace_back(row, row + length);
      }
      translation.log_probability += score[b];
      if (words[b] == Vocabulary::end) {
        done[b] = true;
      } else {
        translation.ids.push_back(words[b]);
        translation.cut_off = step + 1 == length_limit(length);
        done[b] = translation.cut_off;
      }
    }
  }
  return translations;
}

std::vector<Translation> translate(const Run& run, const std::vector<std::vector<std::string>>& sentences, i64 batch) {
  if (batch < 1) throw_error("[translate] the batch size must be at least 1, not {}", batch);
  std::vector<std::vector<i64>> sources;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    sources.push_back(run.source.encode(sentences[i]));
    if (sources[i].empty()) continue;
    sources[i].push_back(Vocabulary::end);
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() > sources[b].size(); });
  std::vector<Translation> translations(sentences.size());
  for (std::size_t begin = 0; begin < order.size(); begin += static_cast<std::size_t>(batch)) {
    const std::size_t end = std::min(order.size(), begin + static_cast<std::size_t>(batch));
    std::vector<std::vector<i64>> part;
    for (std::size_t i = begin; i < end; ++i) part.push_back(sources[order[i]]);
    std::vector<Translation> done = greedy(run.model, part);
    for (std::size_t i = begin; i < end; ++i) translations[order[i]] = std::move(done[i - begin]);
  }
  return translations;
}

}  // namespace seqgrad::seq2seq
