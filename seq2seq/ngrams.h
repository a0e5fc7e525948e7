// Clipped matches of n-grams, the counting under BLEU and chrF: an n-gram of a translation matches as often as it stands in
// the reference, and of several references in the one that has it most often.
//
// The n-grams of the references are a table of (n-gram without its last symbol, last symbol), so that no n-gram is ever
// spelt out and none is mistaken for another. An object belongs to one thread.
#pragma once

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/error.h"
#include "kernels/types.h"

namespace seqgrad::seq2seq {

// references: a list of streams, each with one line for each hypothesis.
inline void check_lines(const char* measure, const std::vector<std::string>& hypotheses,
                        const std::vector<std::vector<std::string>>& references) {
  if (hypotheses.empty()) throw_error("[{}] there are no hypotheses", measure);
  if (references.empty()) throw_error("[{}] there are no references", measure);
  for (const auto& stream : references)
    if (stream.size() != hypotheses.size())
      throw_error("[{}] {} hypotheses but {} references: they must match line by line", measure, hypotheses.size(),
                  stream.size());
}

using Symbols = std::vector<u32>;  // the words or characters of a line, by number

// How many n-grams a line of `length` symbols has.
inline i64 ngram_count(std::size_t length, std::size_t n) { return length < n ? 0 : static_cast<i64>(length - n + 1); }

class NgramMatcher {
 public:
  explicit NgramMatcher(std::size_t orders) : orders_(orders) {}

  // Forgets all references and makes room for new ones that have at most so many symbols together.
  void start(std::size_t symbols) {
    const std::size_t size = std::bit_ceil(std::max<std::size_t>(16, 2 * orders_ * symbols));
    slots_.assign(size, Slot{});
    shift_ = 64 - std::countr_zero(size);
    reference_ = 0;
  }

  void add_reference(const Symbols& symbols) {
    ++reference_;
    for (std::size_t begin = 0; begin < symbols.size(); ++begin) {
      u32 prefix = 0;
      for (std::size_t n = 0; n < orders_ && begin + n < symbols.size(); ++n) {
        const u64 key = key_of(prefix, symbols[begin + n]);
        const std::size_t at = find(key);
        Slot& slot = slots_[at];
        if (slot.reference != reference_) {
          slot.key = key;
          slot.reference = reference_;
          slot.here = 0;
        }
        if (++slot.here > slot.allowed) ++slot.allowed;
        prefix = static_cast<u32>(at) + 1;
      }
    }
  }

  // correct[n - 1] += the matches of the symbols' n-grams. Once after the references: matches are used up.
  void match(const Symbols& symbols, i64* correct, std::size_t stride = 1) {
    for (std::size_t begin = 0; begin < symbols.size(); ++begin) {
      u32 prefix = 0;
      for (std::size_t n = 0; n < orders_ && begin + n < symbols.size(); ++n) {
        const std::size_t at = find(key_of(prefix, symbols[begin + n]));
        Slot& slot = slots_[at];
        if (slot.reference == 0) break;  // then no longer n-gram from here is known either
        if (slot.allowed > 0) {
          --slot.allowed;
          ++correct[n * stride];
        }
        prefix = static_cast<u32>(at) + 1;
      }
    }
  }

 private:
  struct Slot {
    u64 key = 0;
    u32 reference = 0;  // that had it last; 0: an empty slot
    u32 here = 0;       // how often that one has it
    u32 allowed = 0;    // matches left
  };

  // prefix: the slot of the n-gram without its last symbol, plus 1; 0 for a single symbol.
  static u64 key_of(u32 prefix, u32 symbol) { return u64{prefix} << 32 | symbol; }

  // The slot that holds the key, or the empty one where it belongs.
  std::size_t find(u64 key) const {
    std::size_t at = (key * 0x9e3779b97f4a7c15) >> shift_;
    while (slots_[at].reference != 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::size_t orders_;
  std::vector<Slot> slots_;
  int shift_ = 0;
  u32 reference_ = 0;
};

// Numbers for words, the same for equal words.
class WordNumbers {
 public:
  u32 operator()(std::string_view word) {
    const auto found = numbers_.find(word);
    if (found != numbers_.end()) return found->second;
    return numbers_.emplace(word, static_cast<u32>(numbers_.size())).first->second;
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, u32, Hash, std::equal_to<>> numbers_;
};

}  // namespace seqgrad::seq2seq
