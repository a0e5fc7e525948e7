#include "seq2seq/spm.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <zlib.h>

#include <algorithm>
#include <future>
#include <unordered_map>

#include "kernels/error.h"
#include "seq2seq/random.h"
#include "seq2seq/spm_check.h"
#include "seq2seq/text.h"
#include "tensor/file.h"

namespace seqgrad::seq2seq {
namespace {

constexpr i64 usual_size = 8000;
constexpr const char damaged[] = "{}: this is no SentencePiece model, or it is damaged";

// A field that the format does not know, number 2030 of 32 bits, at the end of the file: the check sum of all before it.
std::string seal(std::string_view model) {
  const uLong sum = crc32(0, reinterpret_cast<const Bytef*>(model.data()), static_cast<uInt>(model.size()));
  std::string field = "\xf5\x7e";
  for (int shift = 0; shift < 32; shift += 8) field += static_cast<char>(sum >> shift & 0xff);
  return field;
}

// Takes the seal off; false if it is missing or wrong.
bool take_seal(std::string& model) {
  constexpr std::size_t bytes = 6;
  if (model.size() < bytes) return false;
  const std::string rest = model.substr(0, model.size() - bytes);
  if (model.substr(rest.size()) != seal(rest)) return false;
  model = rest;
  return true;
}

// The lines of several texts, one after the other. Longer words than this have a space after so many characters: SentencePiece
// ends the program at words of 65536, and no piece is longer than 16.
constexpr std::size_t longest_word = 1000;

using Texts = std::vector<const std::vector<std::string>*>;

class Lines : public sentencepiece::SentenceIterator {
 public:
  Lines(const Texts& texts, std::size_t most) : texts_(texts), left_(most) { find(); }
  Lines(const Lines&) = delete;  // value_ may point to cut_
  Lines& operator=(const Lines&) = delete;

  bool done() const override { return text_ == texts_.size() || left_ == 0; }
  void Next() override {
    ++line_;
    --left_;
    find();
  }
  const std::string& value() const override { return *value_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  void find() {
    while (!done() && line_ == texts_[text_]->size()) {
      ++text_;
      line_ = 0;
    }
    if (done()) return;
    value_ = &(*texts_[text_])[line_];
    if (value_->size() > longest_word) cut();
  }

  void cut() {
    cut_.clear();
    std::size_t length = 0;
    for (std::size_t position = 0; position < value_->size();) {
      const std::size_t begin = position;
      length = is_whitespace(next_code_point(*value_, position)) ? 0 : length + 1;
      if (length > longest_word) {
        cut_ += ' ';
        length = 1;
      }
      cut_.append(*value_, begin, position - begin);
    }
    value_ = &cut_;
  }

  const Texts& texts_;
  std::size_t text_ = 0, line_ = 0, left_;
  const std::string* value_ = nullptr;
  std::string cut_;
};

// The model, or "" and why not.
struct Trained {
  std::string model, complaint;
};

constexpr std::size_t all_lines = std::string::npos;

Trained train(const Texts& texts, const std::string& type, i64 size, double coverage, bool exactly,
              std::size_t most = all_lines) {
  Lines lines(texts, most);
  Trained trained;
  const sentencepiece::util::Status status = sentencepiece::SentencePieceTrainer::Train(
      std::unordered_map<std::string, std::string>{
          {"model_type", type},
          {"vocab_size", fmt::format("{}", size)},
          {"hard_vocab_limit", exactly ? "true" : "false"},
          {"character_coverage", fmt::format("{}", coverage)},
          {"pad_id", "0"},
          {"unk_id", "1"},
          {"bos_id", "2"},
          {"eos_id", "3"},
          {"max_sentence_length", "1073741824"},  // the most that there can be; longer lines are left out
          {"num_threads", "8"},                   // sums are taken in their order, whatever the machine has
          {"minloglevel", "3"}},
      &lines, &trained.model);
  if (!status.ok()) return {"", status.message()};
  return trained;
}

i64 pieces_of(const std::string& model) {
  sentencepiece::SentencePieceProcessor processor;
  return processor.LoadFromSerializedProto(model).ok() ? processor.GetPieceSize() : 0;
}

// A model of single characters. SentencePiece counts to the size asked for, so this is no more than there can be.
std::string characters_of(const Texts& texts, double coverage, std::size_t most = all_lines) {
  constexpr i64 code_points = 0x110000;
  return train(texts, "char", code_points + Vocabulary::specials, coverage, false, most).model;
}

// Whether anything is left of the lines once SentencePiece has normalised them. It ends the program where nothing is.
bool has_text(const Texts& texts, std::size_t most = all_lines) {
  sentencepiece::SentencePieceProcessor processor;
  if (!processor.LoadFromSerializedProto(characters_of(texts, 1, most)).ok()) return false;
  for (int id = 0; id < processor.GetPieceSize(); ++id)
    if (!processor.IsControl(id) && !processor.IsUnknown(id) && processor.IdToPiece(id) != "▁") return true;
  return false;
}

}  // namespace

std::string train_spm(const Texts& texts, const std::string& name, const SpmOptions& options) {
  if (!has_text(texts, 100) && !has_text(texts)) throw_error("{} has no text to learn pieces from", name);
  const i64 size = options.size ? options.size : usual_size;
  Trained trained = train(texts, options.type, size, options.coverage, options.size > 0);
  if (trained.complaint.empty()) return std::move(trained.model);
  // Which sizes would do: the characters alone, and all that there is.
  const i64 least = pieces_of(characters_of(texts, options.coverage));
  if (size < least)
    throw_error("vocabulary-size is {}, but the characters of {} alone are {} pieces: take {} or more, or a lower {}",
                options.size, name, least, least, "character-coverage");
  const i64 most = pieces_of(train(texts, options.type, size, options.coverage, false).model);
  if (most > 0 && most < size)
    throw_error("vocabulary-size is {}, but {} has only {} pieces: take {} or less, or 0 for as many as there are", size, name,
                most, most);
  throw_failure("SentencePiece cannot learn from {}: {}", name, trained.complaint);
}

SpmTokenizer::SpmTokenizer(std::string model, const std::string& name, bool lowercase)
    : Tokenizer(lowercase), model_(std::move(model)), processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  if (!is_sound_model(model_) || !processor_->LoadFromSerializedProto(model_).ok() || processor_->GetPieceSize() == 0)
    throw_error(damaged, name);
}

SpmTokenizer::~SpmTokenizer() = default;

std::vector<std::string> SpmTokenizer::cut(std::string_view line, std::vector<WordRange>* words) const {
  if (!words) return processor_->EncodeAsPieces(line);
  std::vector<std::string> tokens;
  std::vector<Span> spans;
  const auto encoded = processor_->EncodeAsImmutableProto(line);  // owns what its pieces point to
  for (const auto& piece : encoded.pieces()) {
    tokens.push_back(piece.piece());
    spans.push_back({piece.begin(), piece.end()});
  }
  *words = words_at(line, spans);
  return tokens;
}

std::vector<std::vector<std::string>> SpmTokenizer::draw(const std::vector<std::string>& lines, double alpha, u64 seed) const {
  constexpr int all_segmentations = -1;
  // SentencePiece's generator belongs to a thread, and takes its seed when the thread first draws: hence a new thread.
  const auto work = [&] {
    sentencepiece::SetRandomGeneratorSeed(static_cast<unsigned>(SplitMix64(seed).below(1u << 31)));
    std::vector<std::vector<std::string>> drawn;
    drawn.reserve(lines.size());
    for (const std::string& line : lines)
      drawn.push_back(processor_->SampleEncodeAsPieces(lowercases() ? lowercase(line) : line, all_segmentations,
                                                       static_cast<float>(alpha)));
    return drawn;
  };
  return std::async(std::launch::async, work).get();
}

std::string SpmTokenizer::join(const std::vector<std::string>& tokens, std::vector<WordRange>* words) const {
  constexpr std::string_view space = "▁";
  const auto is_byte = [&](const std::string& token) { return processor_->IsByte(processor_->PieceToId(token)); };
  std::string text;
  std::vector<Span> spans;
  // A line starts with no space and holds none twice.
  const auto put_space = [&] { text += text.empty() || text.back() == ' ' ? "" : " "; };
  for (std::size_t i = 0; i < tokens.size();) {
    const std::size_t begin = text.size();
    std::size_t behind = i;
    std::string bytes;  // "<0xC3>" and so on: several of them are a character
    for (; behind < tokens.size() && is_byte(tokens[behind]); ++behind)
      bytes += static_cast<char>(std::stoi(tokens[behind].substr(3, 2), nullptr, 16));
    for (std::size_t at = 0; at < bytes.size();) {
      const char32_t c = next_code_point(bytes, at);
      is_whitespace(c) ? put_space() : append_utf8(text, c);  // no translation is two lines
    }
    if (behind == i) {
      std::string_view token = tokens[behind++];
      for (std::size_t at = 0; at != token.npos;) {
        at = token.find(space);
        text += token.substr(0, at);
        if (at == token.npos) break;
        put_space();
        token.remove_prefix(at + space.size());
      }
    }
    for (; i < behind; ++i) spans.push_back({begin, text.size()});
  }
  if (text.ends_with(' ')) text.pop_back();
  if (words) *words = words_at(text, spans);
  return text;
}

Vocabulary SpmTokenizer::vocabulary() const {
  std::vector<std::string> pieces;
  for (int id = 0; id < processor_->GetPieceSize(); ++id)
    if (!processor_->IsControl(id) && !processor_->IsUnknown(id) && !processor_->IsUnused(id))
      pieces.push_back(processor_->IdToPiece(id));
  return Vocabulary::of(pieces);
}

void SpmTokenizer::save(const std::string& path) const { write_file(path, model_ + seal(model_)); }

std::shared_ptr<const SpmTokenizer> SpmTokenizer::load(const std::string& path, bool lowercase) {
  std::string model = read_file(path);
  if (!take_seal(model)) throw_error(damaged, path);
  return std::make_shared<const SpmTokenizer>(std::move(model), path, lowercase);
}

std::shared_ptr<const SpmTokenizer> SpmTokenizer::open(const std::string& path, bool lowercase) {
  std::string model = read_file(path);
  take_seal(model);  // if it is from a run's folder
  return std::make_shared<const SpmTokenizer>(std::move(model), path, lowercase);
}

}  // namespace seqgrad::seq2seq
