// The alignments of many translations in a file, one after another as they come. The file is there when it is whole. Not for
// use by two threads at once.
//
//   FILE.html           a page with a heat map for each line, which needs no other file; maps of more than 200 x 200 words are
//                       left out, which no reader could read
//   FILE.json, .jsonl   an object for each line, as to_json() writes it
//   any other name      Pharaoh's pairs, a line for each line (word_alignment.h)
#pragma once

#include <string>

#include "seq2seq/heatmap.h"
#include "tensor/file.h"

namespace seqgrad::seq2seq {

class AlignmentFile {
 public:
  // title: what the page says it is of. Errors: those of writing a file.
  AlignmentFile(const std::string& path, const std::string& title);

  // Of the next line, which may be empty: an alignment without words.
  void add(const std::string& line, const std::string& translation, const Alignment& alignment);
  void commit();

 private:
  enum class Format { pharaoh, json, html };

  Format format_;
  AtomicFile file_;
  i64 lines_ = 0;
};

}  // namespace seqgrad::seq2seq
