// Tokenizers and vocabularies from settings and text, to a folder and back.
#include "seq2seq/language.h"

#include <doctest/doctest.h>

#include "seq2seq/run.h"
#include "seq2seq/spm.h"
#include "seq2seq/text.h"
#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

const ParallelText text{"train.de",
                        "train.en",
                        {"Ein Hund läuft.", "Ein Hund, ein Ball!", "Der Ball rollt."},
                        {"A dog runs.", "A dog, a ball!", "The ball rolls."},
                        0};

Language language_of(const Settings& settings) {
  const Tokenizers tokenizers = make_tokenizers(settings, text);
  return make_language(settings, tokenizers, tokenize(text, tokenizers));
}

Settings with_tokenizer(const std::string& name) {
  Settings settings{.embedding = 2, .hidden = 2, .attention_dim = 2};
  settings.tokenizer = name;
  settings.min_frequency = 1;
  return settings;
}

}  // namespace

TEST_CASE("each tokenizer: text in, text out, and the same from the folder") {
  for (const char* name : {"whitespace", "words", "spm"})
    for (const bool lower : {false, true})
      for (const bool shared : {false, true}) {
        CAPTURE(name);
        CAPTURE(lower);
        CAPTURE(shared);
        Settings settings = with_tokenizer(name);
        settings.lowercase = lower;
        settings.shared_vocabulary = shared;
        const TemporaryFolder folder;
        const Language made = language_of(settings);
        CHECK((made.source == made.target) == shared);
        save_language(made, folder.path.string());
        const Language kept = load_language(settings, folder.path.string());
        CHECK(kept.source == made.source);
        CHECK(kept.target == made.target);
        const Run run(settings, kept.source, kept.target, kept.tokenizers);
        for (const Language* language : {&made, &kept})
          for (const std::string& line : text.target) {
            const std::vector<std::string> tokens = language->tokenizers.target->split(line);
            CHECK(tokens == made.tokenizers.target->split(line));
            std::vector<i64> ids = language->target.encode(tokens);
            for (const i64 id : ids) CHECK(id >= Vocabulary::specials);
            ids.push_back(Vocabulary::end);
            CHECK(run.text(ids) == (lower ? lowercase(line) : line));
          }
        CHECK(std::filesystem::exists(folder.path / "spm.target.model") == (std::string(name) == "spm"));
      }
}

TEST_CASE("sizes of vocabularies") {
  Settings settings = with_tokenizer("whitespace");
  CHECK(language_of(settings).source.size() == 4 + 9);
  settings.min_frequency = 2;
  CHECK(language_of(settings).source == Vocabulary::of({"Ein"}));
  settings.vocabulary_size = 5;
  settings.min_frequency = 1;
  CHECK(language_of(settings).source == Vocabulary::of({"Ein"}));
  settings.shared_vocabulary = true;
  settings.vocabulary_size = 0;
  CHECK(language_of(settings).source.size() == 4 + 9 + 9);
  settings.tokenizer = "spm";
  settings.vocabulary_size = 35;
  CHECK(language_of(settings).source.size() == 35);
  settings.vocabulary_size = 4000;
  CHECK(
      message_of([&] { language_of(settings); }).starts_with("vocabulary-size is 4000, but train.de with train.en has only "));
  settings.shared_vocabulary = false;
  CHECK(message_of([&] { language_of(settings); }).starts_with("vocabulary-size is 4000, but train.de has only "));
}

TEST_CASE("a user's own SentencePiece model") {
  const TemporaryFolder folder;
  const std::vector<std::string> lines{"der hund und die hunde", "der ball und die bälle"};
  const std::string model = folder.file("own.model", train_spm({&lines}, "text", {}));
  Settings settings = with_tokenizer("spm");
  settings.spm_source_model = model;
  const Language language = language_of(settings);
  CHECK(language.source == SpmTokenizer::open(model)->vocabulary());
  CHECK_FALSE(language.target == language.source);
  settings.spm_target_model = model;
  CHECK(language_of(settings).target == language.source);
  settings.spm_target_model = "";
  settings.shared_vocabulary = true;
  CHECK(language_of(settings).target == language.source);

  // What the folder keeps does not need the file any more.
  save_language(language, folder.path.string());
  std::filesystem::remove(model);
  settings.shared_vocabulary = false;
  CHECK(load_language(settings, folder.path.string()).source == language.source);
  CHECK(message_of([&] { language_of(settings); }) == "cannot read " + model + ": No such file or directory");
}

TEST_CASE("a folder whose files do not belong together") {
  const TemporaryFolder folder;
  const Settings settings = with_tokenizer("spm");
  const std::string path = folder.path.string();
  save_language(language_of(settings), path);
  write_file(folder / "vocab.target", read_file(folder / "vocab.source"));
  CHECK(message_of([&] { load_language(settings, path); }) ==
        path + "/spm.target.model and " + path + "/vocab.target do not belong together");
  std::filesystem::remove(folder / "spm.source.model");
  CHECK(message_of([&] { load_language(settings, path); }) ==
        "cannot read " + path + "/spm.source.model: No such file or directory");
}

TEST_CASE("tokenizers that cut alike") {
  std::vector<Tokenizers> all;
  for (const char* name : {"whitespace", "words", "spm"})
    for (const bool lower : {false, true}) {
      Settings settings = with_tokenizer(name);
      settings.lowercase = lower;
      all.push_back(make_tokenizers(settings, text));
    }
  Settings smaller = with_tokenizer("spm");
  smaller.vocabulary_size = 25;
  all.push_back(make_tokenizers(smaller, text));
  for (std::size_t i = 0; i < all.size(); ++i)
    for (std::size_t j = 0; j < all.size(); ++j) CHECK(same_tokenizers(all[i], all[j]) == (i == j));
  CHECK(same_tokenizers(make_tokenizers(smaller, text), all.back()));
}

TEST_CASE("one vocabulary for both that is not one") {
  const TemporaryFolder folder;
  Settings settings = with_tokenizer("words");
  save_language(language_of(settings), folder.path.string());
  settings.shared_vocabulary = true;
  CHECK(message_of([&] { load_language(settings, folder.path.string()); }) ==
        folder / "vocab.source" + " and " + folder / "vocab.target" + " differ, but the run has one vocabulary for both");
}

TEST_CASE("a run of tokenizer spm is not made without its tokenizers") {
  CHECK(message_of([] { Run(with_tokenizer("spm"), Vocabulary(), Vocabulary()); }) == "[run] tokenizer spm needs its models");
}
