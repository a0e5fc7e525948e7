#include "seq2seq/text.h"

#include "seq2seq/bleu.h"
#include "seq2seq/corpus.h"
#include "seq2seq/tokenizer.h"
#include "tests/fuzz/target.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

// Plain or gzipped.
FUZZ_TARGET(text) {
  for (const std::string& line : read_lines(input.path())) {
    fuzz::require(find_invalid_utf8(line) == line.npos, "a line is UTF-8");
    fuzz::require(line.find('\n') == line.npos, "a line is one line");
    const std::vector<std::string> words = split_whitespace(line);
    fuzz::require(split_whitespace(join(words)) == words, "words stay the same");
    fuzz::require(find_invalid_utf8(lowercase(line)) == line.npos, "lower case is UTF-8");
  }
  read_parallel_text(input.path(), input.path());
}

// Every tokenizer of text; for BLEU they are others.
FUZZ_TARGET(tokens) {
  const std::string text(input.bytes());
  if (find_invalid_utf8(text) != text.npos || text.find_first_of("\r\n") != text.npos) return;
  for (const bool lower : {false, true})
    for (const TokenizerPointer& tokenizer : {whitespace_tokenizer(lower), word_tokenizer(lower)}) {
      const std::vector<std::string> tokens = tokenizer->split(text);
      for (const std::string& token : tokens) fuzz::require(!token.empty(), "no token is empty");
      fuzz::require(find_invalid_utf8(tokenizer->join(tokens)) == text.npos, "tokens join to UTF-8");
    }
  for (const BleuTokenizer tokenizer :
       {BleuTokenizer::none, BleuTokenizer::mteval13a, BleuTokenizer::international, BleuTokenizer::character}) {
    BleuOptions options;
    options.tokenize = tokenizer;
    corpus_bleu({text}, {{text}}, options);
  }
}
