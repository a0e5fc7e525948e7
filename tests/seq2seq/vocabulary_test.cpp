#include "seq2seq/vocabulary.h"

#include <doctest/doctest.h>

#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Strings = std::vector<std::string>;

namespace {

const std::vector<Strings> sentences = {{"der", "hund", "und", "der", "ball"}, {"der", "ball", "ärger", "Zug"}};

Strings tokens_of(const Vocabulary& vocabulary) {
  Strings tokens;
  for (i64 id = 0; id < vocabulary.size(); ++id) tokens.push_back(vocabulary.token(id));
  return tokens;
}

}  // namespace

TEST_CASE("words are numbered by falling frequency, then in byte order") {
  CHECK(tokens_of(Vocabulary::build(sentences)) ==
        Strings{"<pad>", "<unk>", "<s>", "</s>", "der", "ball", "Zug", "hund", "und", "ärger"});
  CHECK(tokens_of(Vocabulary::build(sentences, 2)) == Strings{"<pad>", "<unk>", "<s>", "</s>", "der", "ball"});
  CHECK(tokens_of(Vocabulary::build(sentences, 1, 7)) == Strings{"<pad>", "<unk>", "<s>", "</s>", "der", "ball", "Zug"});
  CHECK(Vocabulary::build({}).size() == 4);
}

TEST_CASE("words become numbers and come back") {
  const Vocabulary vocabulary = Vocabulary::build(sentences, 2);
  CHECK(vocabulary.encode({"der", "hund", "ball"}) == std::vector<i64>{4, 1, 5});
  CHECK(vocabulary.decode({2, 4, 1, 5, 3, 4, 0}) == Strings{"der", "<unk>", "ball"});
  CHECK(vocabulary.decode({}) == Strings{});
  CHECK(vocabulary.encode({}) == std::vector<i64>{});
}

TEST_CASE("a special's spelling in a text stays a word, an unknown one") {
  const Vocabulary vocabulary = Vocabulary::build({{"<s>", "</s>", "<pad>", "<unk>", "<pad>", "x"}});
  CHECK(tokens_of(vocabulary) == Strings{"<pad>", "<unk>", "<s>", "</s>", "x"});
  CHECK(vocabulary.encode({"<pad>", "<unk>", "<s>", "</s>", "x"}) == std::vector<i64>{1, 1, 1, 1, 4});
}

TEST_CASE("a vocabulary survives its file") {
  TemporaryFolder folder;
  const Vocabulary vocabulary = Vocabulary::build(sentences);
  vocabulary.save(folder / "vocab");
  CHECK(read_file(folder / "vocab") == "<pad>\n<unk>\n<s>\n</s>\nder\nball\nZug\nhund\nund\närger\n");
  const Vocabulary loaded = Vocabulary::load(folder / "vocab");
  CHECK(loaded == vocabulary);
  CHECK(loaded.encode({"ärger", "<s>"}) == std::vector<i64>{9, 1});
}

TEST_CASE("a damaged vocabulary file is refused with file, line and remedy") {
  TemporaryFolder folder;
  const std::string specials = "<pad>\n<unk>\n<s>\n</s>\n";
  const auto message = [&](const std::string& content) {
    const std::string path = folder.file("vocab", content);
    const std::string text = message_of([&] { Vocabulary::load(path); });
    return text.starts_with(path) ? text.substr(path.size()) : "another file: " + text;
  };
  const std::string remedy = ": take the vocabulary file that training wrote";
  CHECK(message("der\nball\n") == ":1: expected <pad>, found 'der'" + remedy);
  CHECK(message("<pad>\n<unk>\n</s>\n<s>\n") == ":3: expected <s>, found '</s>'" + remedy);
  CHECK(message("<pad>\n<unk>\n") == ": ends after 2 lines, but must begin with <pad>, <unk>, <s>, </s>" + remedy);
  CHECK(message("") == ": ends after 0 lines, but must begin with <pad>, <unk>, <s>, </s>" + remedy);
  CHECK(message(specials + "a\n\nb\n") == ":6: a word is empty" + remedy);
  CHECK(message(specials + "a\rb\r\n") == ":5: a word holds a line break" + remedy);
  CHECK(message(specials + "a\nb\r") == ":6: a word holds a line break" + remedy);  // it would read as another
  CHECK(message(specials + "a\nb\na\n") == ":7: the word 'a' stands in line 5 already" + remedy);
  CHECK(message(specials + "a\n<s>\n") == ":6: <s> may stand only among the first four lines" + remedy);
  CHECK(message(specials + "a\n\xff\n") == ":6: invalid UTF-8 at byte 1");
  CHECK(message_of([&] { Vocabulary::load(folder / "none"); }) ==
        "cannot read " + (folder / "none") + ": No such file or directory");
}

TEST_CASE("what a vocabulary cannot be built from is refused") {
  CHECK(message_of([] { Vocabulary::build({{"a", ""}}); }) == "[vocabulary] a word is empty");
  CHECK(message_of([] { Vocabulary::build({{"a\nb"}}); }) == "[vocabulary] a word holds a line break");
  CHECK(message_of([] { Vocabulary::build({}, 0); }) == "[vocabulary] the minimal frequency must be at least 1, not 0");
  CHECK(message_of([] { Vocabulary::build({}, 1, 3); }) ==
        "[vocabulary] the maximal size must be 0 (no limit) or at least 4, not 3");
  CHECK(message_of([] { Vocabulary().token(4); }) == "[vocabulary] there is no word 4: the vocabulary holds 4");
  CHECK(message_of([] { Vocabulary().token(-1); }) == "[vocabulary] there is no word -1: the vocabulary holds 4");
}

TEST_CASE("a vocabulary file on a full disk is an error") {
  CHECK(message_of([] { Vocabulary().save("/dev/full"); }) == "cannot write /dev/full: No space left on device");
}
