// The words a model knows, and their numbers: 0 <pad>, 1 <unk>, 2 <s>, 3 </s>, then words by falling frequency, equally
// frequent ones in byte order, so that the same text gives the same numbers on every machine.
// A word of a text that happens to be spelt like one of the four is never that special: it is unknown, id 1.
// Thread-safe for const use.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/types.h"

namespace seqgrad::seq2seq {

class Vocabulary {
 public:
  static constexpr i64 pad = 0, unknown = 1, start = 2, end = 3, specials = 4;

  Vocabulary();  // the specials alone

  // All words that occur at least min_frequency times; of these the most frequent if max_size, which counts the four
  // specials too, is not 0 (no limit). Error: a word that is empty or holds a line break, which no file could keep.
  static Vocabulary build(const std::vector<std::vector<std::string>>& sentences, i64 min_frequency = 1, i64 max_size = 0);

  // The words in this order. The specials' spellings are left out; Error: a word that is empty, holds a line break or stands
  // there twice.
  static Vocabulary of(const std::vector<std::string>& words);

  i64 size() const { return static_cast<i64>(tokens_.size()); }
  const std::string& token(i64 id) const;  // Error outside [0, size())
  i64 id(std::string_view word) const;     // `unknown` for words it does not hold and for the specials' spellings

  // One id a word; adds no <s> or </s>.
  std::vector<i64> encode(const std::vector<std::string>& words) const;

  // The words up to the first </s> or the end; <pad> and <s> are left out, <unk> stays.
  std::vector<std::string> decode(const std::vector<i64>& ids) const;

  // One token a line, in the order of the ids. load checks what it reads:
  // "vocab.source:1: expected <pad>, found 'the': ..." and "vocab.source:9: the word 'dog' stands in line 5 already: ...".
  void save(const std::string& path) const;
  static Vocabulary load(const std::string& path);

  bool operator==(const Vocabulary& other) const { return tokens_ == other.tokens_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  bool add(const std::string& word);  // false if it is there already

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, i64, Hash, std::equal_to<>> ids_;  // without the specials
};

}  // namespace seqgrad::seq2seq
