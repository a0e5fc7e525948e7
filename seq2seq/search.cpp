#include "seq2seq/search.h"

#include <algorithm>

#include "tensor/launch.h"

namespace seqgrad::seq2seq {

Translator::Translator(const Run& run, const SearchOptions& options) : run_(run), options_(options), model_(run) {
  if (options.batch < 1) throw_error("[translate] the batch size must be at least 1, not {}", options.batch);
}

std::vector<Translation> Translator::greedy(const std::vector<std::vector<i64>>& sources) {
  struct Row {
    std::size_t sentence;
    Segment segment;
  };
  std::vector<Translation> translations(sources.size());
  std::vector<Row> rows;
  std::vector<i64> from, words;  // of each row: where its state is (Inference::arrange), its last word
  std::vector<Segment> segments;
  // Sentences group..encoded were encoded together, those up to `started` have a row or had one.
  std::size_t group = 0, started = 0, encoded = 0;
  std::vector<Segment> group_segments;
  for (const std::size_t most = static_cast<std::size_t>(options_.batch);;) {
    if (started == encoded && rows.size() < most && encoded < sources.size()) {
      i64 first = 0;
      const auto take = [&](i64 length) {
        const Segment segment{first, length};
        first += length;
        return segment;
      };
      segments.clear();
      for (Row& row : rows) {
        segments.push_back(row.segment);
        row.segment = take(row.segment.length);
      }
      group = encoded;
      encoded = std::min(sources.size(), encoded + most);
      model_.encode(segments, std::span(sources).subspan(group, encoded - group));
      group_segments.clear();
      for (std::size_t i = group; i < encoded; ++i) group_segments.push_back(take(static_cast<i64>(sources[i].size())));
      work_.sentences += static_cast<i64>(encoded - group);
      for (const Segment& segment : group_segments) work_.source_tokens += segment.length;
    }
    for (; rows.size() < most && started < encoded; ++started) {
      rows.push_back({started, group_segments[started - group]});
      words.push_back(Vocabulary::start);
      from.push_back(-1 - static_cast<i64>(started - group));
    }
    if (rows.empty()) return translations;
    segments.clear();
    for (const Row& row : rows) {
      segments.push_back(row.segment);
      work_.looks += row.segment.length;
    }
    ++work_.steps;
    work_.extended += static_cast<i64>(rows.size());
    model_.arrange(from);
    const Inference::Step step = model_.step(words, segments);
    const i64 count = static_cast<i64>(rows.size());
    const Tensor best({count, 1}, step.logits.dtype());
    launch(kernels::top_of_rows, step.logits, true, best, words.data(), count, model_.vocabulary(), i64{1});

    // The rows that go on close up.
    from.clear();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Row row = rows[i];
      Translation& translation = translations[row.sentence];
      if (step.weights.defined()) {
        const Tensor looked = step.weights.select(0, static_cast<i64>(i)).slice(0, 0, row.segment.length);
        translation.weights.push_back(looked.to(DType::f32).to_vector<float>());
      }
      translation.log_probability += best.at({static_cast<i64>(i), 0});
      if (words[i] == Vocabulary::end) continue;
      translation.ids.push_back(words[i]);
      translation.cut_off = static_cast<i64>(translation.ids.size()) == options_.longest(row.segment.length);
      if (translation.cut_off) continue;
      rows[kept] = row;
      words[kept] = words[i];
      from.push_back(static_cast<i64>(i));
      ++kept;
    }
    rows.resize(kept);
    words.resize(kept);
  }
}

std::vector<Translation> Translator::translate(const std::vector<std::vector<std::string>>& sentences) {
  std::vector<std::vector<i64>> sources;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    sources.push_back(run_.source.encode(sentences[i]));
    if (sources[i].empty()) continue;
    sources[i].push_back(Vocabulary::end);
    order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() > sources[b].size(); });
  std::vector<std::vector<i64>> sorted;
  for (const std::size_t i : order) sorted.push_back(sources[i]);
  std::vector<Translation> done = greedy(sorted), translations(sentences.size());
  for (std::size_t i = 0; i < order.size(); ++i) translations[order[i]] = std::move(done[i]);
  return translations;
}

}  // namespace seqgrad::seq2seq
