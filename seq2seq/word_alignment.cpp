#include "seq2seq/word_alignment.h"

#include <algorithm>

#include "seq2seq/text.h"

namespace seqgrad::seq2seq {

Alignment word_alignment(const Run& run, std::string_view line, const Translation& translation) {
  return word_alignment(run, line, translation, run.target.decode(translation.ids));
}

Alignment word_alignment(const Run& run, std::string_view line, const Translation& translation,
                         const std::vector<std::string>& tokens) {
  std::vector<WordRange> source_words, target_words;
  if (run.tokenizers.source->split(line, &source_words).empty()) return {};
  const std::string text = run.tokenizers.target->join(tokens, &target_words);
  Alignment alignment{split_whitespace(line), split_whitespace(text), {}, translation.cut_off};
  // The model may have been given the line's beginning alone, and its </s>.
  if (!translation.weights.empty() && translation.weights[0].size() <= source_words.size()) {
    source_words.resize(translation.weights[0].size() - 1);
    i64 seen = 0;
    for (const WordRange& range : source_words) seen = std::max(seen, range.end);
    alignment.source.resize(static_cast<std::size_t>(seen));
  }
  const std::string& end = run.target.token(Vocabulary::end);
  const auto add_end = [&](std::vector<std::string>& words, std::vector<WordRange>& ranges) {
    const i64 count = static_cast<i64>(words.size());
    ranges.push_back({count, count + 1});
    words.push_back(end);
  };
  add_end(alignment.source, source_words);
  if (!translation.cut_off) add_end(alignment.target, target_words);
  if (translation.weights.empty()) return alignment;

  std::vector<const std::vector<float>*> rows;  // of the tokens that the text shows, and of </s>
  for (std::size_t t = 0; t < translation.weights.size(); ++t)
    if (t >= translation.ids.size() || (translation.ids[t] != Vocabulary::pad && translation.ids[t] != Vocabulary::start))
      rows.push_back(&translation.weights[t]);
  alignment.weights.assign(alignment.target.size(), std::vector<float>(alignment.source.size()));
  std::vector<float> shares(alignment.target.size());  // of tokens in each target word
  for (std::size_t t = 0; t < target_words.size() && t < rows.size(); ++t)
    for (i64 word = target_words[t].begin; word < target_words[t].end; ++word) {
      const float share = 1 / static_cast<float>(target_words[t].end - target_words[t].begin);
      std::vector<float>& row = alignment.weights[static_cast<std::size_t>(word)];
      shares[static_cast<std::size_t>(word)] += share;
      for (std::size_t s = 0; s < source_words.size() && s < rows[t]->size(); ++s) {
        const float weight = share * (*rows[t])[s] / static_cast<float>(source_words[s].end - source_words[s].begin);
        for (i64 from = source_words[s].begin; from < source_words[s].end; ++from)
          row[static_cast<std::size_t>(from)] += weight;
      }
    }
  for (std::size_t word = 0; word < shares.size(); ++word)
    if (shares[word] > 0)
      for (float& weight : alignment.weights[word]) weight /= shares[word];
  return alignment;
}

std::string to_pharaoh(const Alignment& alignment) {
  const std::size_t words = alignment.weights.size() - (alignment.weights.empty() || alignment.cut_off ? 0 : 1);
  std::string pairs;
  for (std::size_t t = 0; t < words; ++t) {
    const std::vector<float>& row = alignment.weights[t];
    const auto best = std::max_element(row.begin(), row.end());
    if (best + 1 == row.end() || *best == 0) continue;
    pairs += fmt::format("{}{}-{}", pairs.empty() ? "" : " ", best - row.begin(), t);
  }
  return pairs;
}

}  // namespace seqgrad::seq2seq
