#include "seq2seq/vocabulary.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/error.h"
#include "seq2seq/text.h"
#include "tensor/file.h"

namespace seqgrad::seq2seq {
namespace {

const std::array<std::string, Vocabulary::specials> special_tokens = {"<pad>", "<unk>", "<s>", "</s>"};

bool is_special(std::string_view word) {
  return std::find(special_tokens.begin(), special_tokens.end(), word) != special_tokens.end();
}

void check_word(std::string_view word) {
  if (word.empty()) throw_error("[vocabulary] a word is empty");
  if (word.find_first_of("\r\n") != word.npos) throw_error("[vocabulary] a word holds a line break");
}

}  // namespace

Vocabulary::Vocabulary() : tokens_(special_tokens.begin(), special_tokens.end()) {}

bool Vocabulary::add(const std::string& word) {
  if (!ids_.emplace(word, size()).second) return false;
  tokens_.push_back(word);
  return true;
}

Vocabulary Vocabulary::build(const std::vector<std::vector<std::string>>& sentences, i64 min_frequency, i64 max_size) {
  if (min_frequency < 1) throw_error("[vocabulary] the minimal frequency must be at least 1, not {}", min_frequency);
  if (max_size != 0 && max_size < specials) {
    throw_error("[vocabulary] the maximal size must be 0 (no limit) or at least {}, not {}", specials, max_size);
  }
  std::unordered_map<std::string_view, i64> counts;
  for (const auto& sentence : sentences) {
    for (const std::string& word : sentence) ++counts[word];
  }
  std::vector<std::pair<std::string_view, i64>> words;
  for (const auto& [word, count] : counts) {
    check_word(word);
    if (count >= min_frequency && !is_special(word)) words.emplace_back(word, count);
  }
  std::sort(words.begin(), words.end(),
            [](const auto& a, const auto& b) { return a.second != b.second ? a.second > b.second : a.first < b.first; });
  Vocabulary vocabulary;
  for (const auto& [word, count] : words) {
    if (max_size != 0 && vocabulary.size() == max_size) break;
    vocabulary.add(std::string(word));
  }
  return vocabulary;
}

Vocabulary Vocabulary::of(const std::vector<std::string>& words) {
  Vocabulary vocabulary;
  for (const std::string& word : words) {
    check_word(word);
    if (!is_special(word) && !vocabulary.add(word)) throw_error("[vocabulary] the word '{}' stands there twice", word);
  }
  return vocabulary;
}

const std::string& Vocabulary::token(i64 id) const {
  if (id < 0 || id >= size()) throw_error("[vocabulary] there is no word {}: the vocabulary holds {}", id, size());
  return tokens_[static_cast<std::size_t>(id)];
}

i64 Vocabulary::id(std::string_view word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? unknown : found->second;
}

std::vector<i64> Vocabulary::encode(const std::vector<std::string>& words) const {
  std::vector<i64> ids;
  ids.reserve(words.size() + 1);  // callers often add </s>
  for (const std::string& word : words) ids.push_back(id(word));
  return ids;
}

std::vector<std::string> Vocabulary::decode(const std::vector<i64>& ids) const {
  std::vector<std::string> words;
  for (const i64 id : ids) {
    if (id == end) break;
    if (id != pad && id != start) words.push_back(token(id));
  }
  return words;
}

void Vocabulary::save(const std::string& path) const {
  AtomicFile file(path);
  for (const std::string& token : tokens_) {
    file.write(token);
    file.write("\n");
  }
  file.commit();
}

Vocabulary Vocabulary::load(const std::string& path) {
  const char* const remedy = "take the vocabulary file that training wrote";
  Vocabulary vocabulary;
  LineReader reader(path);
  for (std::string line; reader.next(line);) {
    const i64 number = reader.line_number();
    if (number <= specials) {
      const std::string& expected = special_tokens[static_cast<std::size_t>(number - 1)];
      if (line != expected) throw_error("{}:{}: expected {}, found '{}': {}", path, number, expected, line, remedy);
      continue;
    }
    if (line.empty()) throw_error("{}:{}: a word is empty: {}", path, number, remedy);
    if (line.find('\r') != line.npos) throw_error("{}:{}: a word holds a line break: {}", path, number, remedy);
    if (is_special(line)) throw_error("{}:{}: {} may stand only among the first four lines: {}", path, number, line, remedy);
    if (!vocabulary.add(line)) {
      throw_error("{}:{}: the word '{}' stands in line {} already: {}", path, number, line, vocabulary.id(line) + 1, remedy);
    }
  }
  if (reader.line_number() < specials) {
    throw_error("{}: ends after {} lines, but must begin with {}: {}", path, reader.line_number(), "<pad>, <unk>, <s>, </s>",
                remedy);
  }
  return vocabulary;
}

}  // namespace seqgrad::seq2seq
