// SentencePiece: learnt, kept, loaded, damaged; text in and text out.
#include "seq2seq/spm.h"

#include <doctest/doctest.h>

#include "seq2seq/demo_corpus.h"
#include "seq2seq/text.h"
#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

using Strings = std::vector<std::string>;
using Ranges = std::vector<WordRange>;

// Sentences with capitals and marks at their words.
Strings raw_text(bool source) {
  Strings lines;
  for (const SentencePair& pair : make_demo_corpus(1, 300, 10, 10).train) {
    std::string line = join(source ? pair.source : pair.target);
    line[0] = static_cast<char>(std::toupper(line[0]));
    if (line.ends_with(" .")) line.erase(line.size() - 2, 1);
    lines.push_back(line);
  }
  return lines;
}

std::string learnt(const Strings& lines, const SpmOptions& options = {}) { return train_spm({&lines}, "text", options); }

}  // namespace

TEST_CASE("pieces are learnt from text, the four specials first, and write every line of it") {
  const Strings lines = raw_text(true);
  for (const char* type : {"unigram", "bpe"}) {
    CAPTURE(type);
    const SpmOptions options{.type = type, .size = 120};
    const std::string model = learnt(lines, options);
    CHECK(learnt(lines, options) == model);
    const SpmTokenizer tokenizer(model, "model");
    const Vocabulary vocabulary = tokenizer.vocabulary();
    CHECK(vocabulary.size() == 120);
    CHECK(vocabulary.token(Vocabulary::pad) == "<pad>");
    CHECK(vocabulary.token(Vocabulary::end) == "</s>");
    for (const std::string& line : lines) {
      const Strings tokens = tokenizer.split(line);
      CHECK(tokenizer.join(tokens) == line);
      for (const i64 id : vocabulary.encode(tokens)) CHECK(id >= Vocabulary::specials);
    }
    CHECK(vocabulary.encode(tokenizer.split("<s> </s>"))[1] != Vocabulary::start);
  }
}

TEST_CASE("two texts, one model") {
  const Strings german = raw_text(true), english = raw_text(false);
  const SpmTokenizer tokenizer(train_spm({&german, &english}, "both", {.size = 200}), "model");
  for (const Strings* lines : {&german, &english})
    for (const std::string& line : *lines) CHECK(tokenizer.join(tokenizer.split(line)) == line);
}

TEST_CASE("as many pieces as the text has, or what would do") {
  const Strings one{"Ein Hund läuft."}, lines = raw_text(true);
  for (const char* type : {"unigram", "bpe"}) {
    CAPTURE(type);
    const SpmTokenizer tokenizer(learnt(one, {.type = type}), "model");
    CHECK(tokenizer.join(tokenizer.split(one[0])) == one[0]);
    const i64 most = tokenizer.vocabulary().size();
    CHECK(most < 50);
    CHECK(message_of([&] { learnt(one, {.type = type, .size = 8000}); }) ==
          fmt::format("vocabulary-size is 8000, but text has only {} pieces: take {} or less, or 0 for as many as there are",
                      most, most));
    CHECK(SpmTokenizer(learnt(one, {.type = type, .size = most}), "model").vocabulary().size() == most);
    // E i n ▁ H u d l ä f t . and the specials
    CHECK(message_of([&] { learnt(one, {.type = type, .size = 15}); }) ==
          "vocabulary-size is 15, but the characters of text alone are 16 pieces: take 16 or more, or a lower "
          "character-coverage");
    CHECK(SpmTokenizer(learnt(one, {.type = type, .size = 16}), "model").vocabulary().size() == 16);
    for (const Strings& nothing : {Strings{}, Strings{""}, Strings{" ", "\u00a0"}})
      CHECK(message_of([&] { learnt(nothing, {.type = type}); }) == "text has no text to learn pieces from");
  }
}

TEST_CASE("drawn pieces write the same text, as the seed and alpha have it") {
  const Strings lines = raw_text(true);
  for (const char* type : {"unigram", "bpe"}) {
    CAPTURE(type);
    const bool bpe = type == std::string("bpe");
    const SpmTokenizer tokenizer(learnt(lines, {.type = type, .size = 120}), "model");
    const auto draw = [&](double alpha, u64 seed) {
      const std::vector<Strings> drawn = tokenizer.draw(lines, alpha, seed);
      REQUIRE(drawn.size() == lines.size());
      for (std::size_t i = 0; i < lines.size(); ++i) CHECK(tokenizer.join(drawn[i]) == lines[i]);
      return drawn;
    };
    std::vector<Strings> best;
    for (const std::string& line : lines) best.push_back(tokenizer.split(line));
    const auto tokens = [](const std::vector<Strings>& sentences) {
      std::size_t sum = 0;
      for (const Strings& sentence : sentences) sum += sentence.size();
      return sum;
    };
    const std::vector<Strings> some = draw(0.1, 1);
    CHECK(draw(0.1, 1) == some);
    CHECK(draw(0.1, 2) != some);
    CHECK(some != best);
    CHECK(tokens(some) > tokens(best));
    // At one end the best pieces, at the other characters (of bpe) or pieces of any kind.
    CHECK(draw(bpe ? 0 : 1e4, 1) == best);
    CHECK(tokens(draw(bpe ? 0.9 : 0, 1)) > tokens(some));
    CHECK(tokenizer.draw({}, 0.1, 1).empty());
  }
  const SpmTokenizer lower(learnt({"ab ab abc"}), "model", true);
  CHECK(lower.join(lower.draw({"AB Abc"}, 0.5, 1)[0]) == "ab abc");
}

TEST_CASE("rare characters can be left to <unk>") {
  Strings lines(200, "aaaa bbbb aabb");
  lines.push_back("aaaa 🐶 bbbb");
  const SpmTokenizer all(learnt(lines), "model"), most(learnt(lines, {.coverage = 0.999}), "model");
  const auto knows = [](const SpmTokenizer& tokenizer) { return tokenizer.vocabulary().id("🐶") != Vocabulary::unknown; };
  CHECK(knows(all));
  CHECK_FALSE(knows(most));
}

TEST_CASE("odd lines") {
  const SpmTokenizer tokenizer(learnt(raw_text(true), {.size = 120}), "model");
  for (const std::string& line : Strings{"", " ", "\u00a0\u3000\t", "\u200b", "\r"}) {
    Ranges words;
    CHECK(tokenizer.split(line, &words).empty());
    CHECK(words.empty());
  }
  CHECK(tokenizer.join({}) == "");
  CHECK(tokenizer.join(tokenizer.split("  ein \u00a0\t mann\u2028ein\u3000hund ")) == "ein mann ein hund");
  // What no piece writes stays as it is in the tokens, and is <unk> to the model.
  CHECK(tokenizer.split("🐶") == Strings{"▁", "🐶"});
  for (const std::string& line :
       Strings{"🐶🐶 x", "مرحبا بالعالم", "我爱你。", std::string("a\0b", 3), "\"</s>\" <unk> <0x0A>"}) {
    const Strings tokens = tokenizer.split(line);
    CHECK(!tokens.empty());
    for (const std::string& token : tokens) CHECK(!token.empty());
  }
  std::string long_line;
  for (int i = 0; i < 10000; ++i) long_line += "mann ";
  CHECK(tokenizer.join(tokenizer.split(long_line)) + " " == long_line);
}

TEST_CASE("what a model may write") {
  const SpmTokenizer tokenizer(learnt(raw_text(true), {.size = 120}), "model");
  CHECK(tokenizer.join({"▁", "▁ein", "▁", "▁", "▁hun", "d", ".", "▁"}) == "ein hund.");
  CHECK(tokenizer.join({"▁", "<unk>", "▁a", "<unk>", "."}) == "<unk> a<unk>.");
  CHECK(tokenizer.join({"▁New▁York", "▁x"}) == "New York x");
}

TEST_CASE("each piece knows the whitespace-separated words it is part of") {
  const SpmTokenizer tokenizer(learnt(raw_text(true), {.size = 60}), "model");
  Ranges words, written;
  const Strings tokens = tokenizer.split("  Ein  mann\u00a0 zieht 🐶.", &words);
  REQUIRE(tokens.size() == words.size());
  CHECK(tokens == tokenizer.split("  Ein  mann\u00a0 zieht 🐶."));
  CHECK(tokenizer.join(tokens, &written) == "Ein mann zieht 🐶.");
  CHECK(words == written);
  i64 word = -1;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    word += tokens[i].starts_with("▁");
    CHECK(words[i] == WordRange{word, word + 1});
  }
  CHECK(word == 3);
  tokenizer.join({"▁New▁York", "▁x"}, &written);
  CHECK(written == Ranges{{0, 2}, {2, 3}});
}

TEST_CASE("lower case comes first") {
  const SpmTokenizer tokenizer(learnt(raw_text(true), {.size = 120}), "model", true);
  CHECK(tokenizer.split("EIN MANN") == tokenizer.split("ein mann"));
}

TEST_CASE("a kept model, and damage to it") {
  const TemporaryFolder folder;
  const std::string model = learnt(raw_text(true), {.size = 120}), path = folder / "spm.source.model";
  const SpmTokenizer tokenizer(model, "model");
  tokenizer.save(path);
  CHECK(SpmTokenizer::load(path)->model() == model);
  CHECK(SpmTokenizer::load(path)->vocabulary() == tokenizer.vocabulary());
  CHECK(SpmTokenizer::open(path)->model() == model);
  CHECK(SpmTokenizer::open(folder.file("plain", model))->model() == model);
  const std::string sealed = read_file(path);
  SpmTokenizer(sealed, "other programs skip the check sum");

  const std::string wrong = ": this is no SentencePiece model, or it is damaged";
  CHECK(message_of([&] { SpmTokenizer::load(folder / "plain"); }) == folder / "plain" + wrong);
  for (std::size_t at = 0; at < sealed.size(); at += 977) {
    std::string damaged = sealed;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    const std::string file = folder.file("damaged", damaged), cut = folder.file("cut", sealed.substr(0, at));
    CHECK(message_of([&] { SpmTokenizer::load(file); }) == file + wrong);
    CHECK(message_of([&] { SpmTokenizer::load(cut); }) == cut + wrong);
  }
  for (const std::string& text : Strings{"", "no model", std::string(1000, '\0'), sealed.substr(0, sealed.size() / 2)}) {
    const std::string file = folder.file("file", text);
    CHECK(message_of([&] { SpmTokenizer::open(file); }) == file + wrong);
  }
  CHECK(message_of([&] { SpmTokenizer::open(folder / "none"); }) ==
        "cannot read " + folder / "none" + ": No such file or directory");
  CHECK(message_of([&] { SpmTokenizer::open(folder.path.string()); }).starts_with("cannot read "));
}
