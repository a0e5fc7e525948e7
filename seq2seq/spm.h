// SentencePiece: pieces of words that are learnt from text, so that few of them write every word (Kudo, Richardson,
// "SentencePiece: a simple and language independent subword tokenizer and detokenizer for neural text processing", EMNLP 2018).
// '▁' in a piece is a space. Models are files of SentencePiece's own format. Thread-safe for const use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "seq2seq/tokenizer.h"
#include "seq2seq/vocabulary.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace seqgrad::seq2seq {

struct SpmOptions {
  std::string type = "unigram";  // or "bpe"
  i64 size = 0;                  // pieces, <pad>, <unk>, <s> and </s> among them; 0: 8000, or as many as the text has
  double coverage = 1;           // share of the text's characters that are pieces; the rarest others are <unk>
};

// Learns from all lines of the texts; `name` is theirs in messages. The same text gives the same model on every machine.
// Errors, all of bad input:
//   "vocabulary-size is 8000, but train.de has only 2175 pieces: take 2175 or less, or 0 for as many as there are"
//   "vocabulary-size is 20, but the characters of train.de alone are 76 pieces: take 76 or more, or a lower character-coverage"
//   "train.de has no text to learn pieces from"
std::string train_spm(const std::vector<const std::vector<std::string>*>& texts, const std::string& name,
                      const SpmOptions& options);

class SpmTokenizer : public Tokenizer {
 public:
  // A model as train_spm gives it. Error: "spm.source.model: this is no SentencePiece model, or it is damaged".
  SpmTokenizer(std::string model, const std::string& name, bool lowercase = false);
  ~SpmTokenizer() override;

  std::string join(const std::vector<std::string>& tokens, std::vector<WordRange>* words = nullptr) const override;

  // Pieces that are drawn instead of the best ones, the same for the same seed. Of bpe each merge is left out with probability
  // alpha (Provilkov, Emelianenko, Voita, "BPE-Dropout: simple and effective subword regularization", ACL 2020); of unigram a
  // segmentation of probability p is drawn in proportion to p^alpha (Kudo, "Subword regularization", ACL 2018).
  std::vector<std::vector<std::string>> draw(const std::vector<std::string>& lines, double alpha, u64 seed) const;

  // The model's pieces in its order, behind the four specials. With a model of train_spm the ids are the model's own.
  Vocabulary vocabulary() const;
  const std::string& model() const { return model_; }

  // A run's folder keeps the model with a check sum, in a field that other programs skip. load finds damage that
  // SentencePiece itself would not notice; open reads any model.
  void save(const std::string& path) const;
  static std::shared_ptr<const SpmTokenizer> load(const std::string& path, bool lowercase = false);
  static std::shared_ptr<const SpmTokenizer> open(const std::string& path, bool lowercase = false);

 private:
  std::vector<std::string> cut(std::string_view line, std::vector<WordRange>* words) const override;

  std::string model_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
};

}  // namespace seqgrad::seq2seq
