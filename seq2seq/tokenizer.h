// Lines of raw text into tokens, which models count in, and tokens back into text.
//
//   whitespace   tokens are what whitespace separates, and a space joins them: for text that is tokenised already
//   words        words, numbers and punctuation as Unicode's word boundaries separate them (word_tokenizer.cpp)
//   spm          SentencePiece's pieces of words, learnt from text (spm.h)
//
// Thread-safe for const use.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/types.h"

namespace seqgrad::seq2seq {

// The whitespace-separated words of a line that a token is part of: [begin, end), counted from 0.
struct WordRange {
  i64 begin = 0, end = 0;
  bool operator==(const WordRange&) const = default;
};

class Tokenizer {
 public:
  explicit Tokenizer(bool lowercase = false) : lowercase_(lowercase) {}
  virtual ~Tokenizer() = default;

  // The tokens of a line, and the words of the line that each belongs to. No token is empty or holds a '\n'; blank text has
  // none.
  std::vector<std::string> split(std::string_view line, std::vector<WordRange>* words = nullptr) const;
  // The text that the tokens make, and the words of this text that each belongs to.
  virtual std::string join(const std::vector<std::string>& tokens, std::vector<WordRange>* words = nullptr) const = 0;

  bool lowercases() const { return lowercase_; }

 private:
  virtual std::vector<std::string> cut(std::string_view line, std::vector<WordRange>* words) const = 0;

  bool lowercase_;
};

using TokenizerPointer = std::shared_ptr<const Tokenizer>;
struct Tokenizers {
  TokenizerPointer source, target;
};

TokenizerPointer whitespace_tokenizer(bool lowercase = false);
TokenizerPointer word_tokenizer(bool lowercase = false);

// Bytes of a text.
struct Span {
  std::size_t begin = 0, end = 0;
};
// The words of `text` that each span lies in; of a span of blanks alone the next word, or the last.
std::vector<WordRange> words_at(std::string_view text, const std::vector<Span>& spans);

}  // namespace seqgrad::seq2seq
