// Lines and words of UTF-8 text, plain or gzipped.
//
// Only '\n' separates lines; a '\r' before it is dropped, and a last line without '\n' counts. U+2028, U+0085 and a lone
// '\r' separate nothing. A byte-order mark at the start of a file is dropped. NUL bytes are text like any other.
// UTF-8 is checked strictly (no overlong forms, no surrogates, nothing above U+10FFFF).
// Errors (bad input): "train.de:17: invalid UTF-8 at byte 4", both numbers counted from 1, the byte within the line as it
// stands in the file; "cannot read train.de: No such file or directory"; "train.de.gz: the gzip data ends too early: the
// file is incomplete"; "train.de.gz: damaged gzip data (invalid block type)".
// The functions are thread-safe; a LineReader belongs to one thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/types.h"

namespace seqgrad::seq2seq {

// Reads line by line; one line is in memory at a time. gzip is recognised by its first two bytes, whatever the name.
// A line of a pipe or terminal is handed out as soon as its '\n' has arrived.
class LineReader {
 public:
  explicit LineReader(const std::string& path);  // "-" is the standard input, called "<stdin>" in messages
  LineReader(int descriptor, std::string name);  // an open file, which stays open
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // Puts the next line, without its end, into `line`; false when there is none.
  bool next(std::string& line);

  i64 line_number() const { return line_number_; }  // of the line that next() gave last; 0 before
  const std::string& name() const { return name_; }

 private:
  struct Source;  // the bytes, unzipped
  std::unique_ptr<Source> source_;
  std::string name_;
  i64 line_number_ = 0;
};

std::vector<std::string> read_lines(const std::string& path);

// Words, split at whitespace as Python's str.split() defines it: U+0009..000D, U+001C..0020, U+0085, U+00A0 (no-break
// space), U+1680, U+2000..200A, U+2028, U+2029, U+202F, U+205F, U+3000. U+200B and U+FEFF are not whitespace.
// No word is empty; blank text has no words.
std::vector<std::string> split_whitespace(std::string_view text);

std::string_view without_trailing_whitespace(std::string_view text);

std::string join(const std::vector<std::string>& words, std::string_view separator = " ");

// Lower case in all scripts, as Python's str.lower() has it, the final sigma of Greek included. Malformed UTF-8
// stays as it is.
std::string lowercase(std::string_view text);

// The position, from 0, of the first byte of the first malformed sequence; npos if the text is well-formed.
std::size_t find_invalid_utf8(std::string_view text);

// The code point at `position`, which is moved behind it. A byte that starts no well-formed sequence counts as one
// character, U+FFFD.
char32_t next_code_point(std::string_view text, std::size_t& position);

void append_utf8(std::string& text, char32_t code_point);

bool is_whitespace(char32_t code_point);  // as split_whitespace says

}  // namespace seqgrad::seq2seq
