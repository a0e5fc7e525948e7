// Attention between words, merged from that between tokens.
#include "seq2seq/word_alignment.h"

#include <doctest/doctest.h>

#include "seq2seq/random.h"
#include "seq2seq/spm.h"
#include "seq2seq/text.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

using Strings = std::vector<std::string>;
using Rows = std::vector<std::vector<float>>;

Run run_with(const Tokenizers& tokenizers, const Strings& source, const Strings& target) {
  Settings settings{.embedding = 2, .hidden = 2, .attention_dim = 2};
  return Run(settings, Vocabulary::of(source), Vocabulary::of(target), tokenizers);
}

void check_rows(const Rows& rows, const Rows& expected) {
  REQUIRE(rows.size() == expected.size());
  for (std::size_t t = 0; t < rows.size(); ++t) {
    REQUIRE(rows[t].size() == expected[t].size());
    for (std::size_t s = 0; s < rows[t].size(); ++s) CHECK(rows[t][s] == doctest::Approx(expected[t][s]).epsilon(1e-6));
  }
}

}  // namespace

TEST_CASE("source tokens are summed, target tokens averaged") {
  const Tokenizers tokenizers{word_tokenizer(), word_tokenizer()};
  // "Ein Hund." -> Ein | Hund ￭. | </s>     "Dogs (run)" -> Dogs | (￭ run ￭) | </s>
  const Run run = run_with(tokenizers, {"Ein", "Hund", "￭."}, {"Dogs", "(￭", "run", "￭)"});
  Translation translation;
  translation.ids = {4, 5, 6, 7};
  translation.weights = {{.1f, .2f, .3f, .4f}, {.5f, .2f, .2f, .1f}, {.1f, .6f, .2f, .1f}, {0, 0, .1f, .9f}, {0, 0, 0, 1}};
  const Alignment alignment = word_alignment(run, " Ein  Hund. ", translation);
  CHECK(alignment.source == Strings{"Ein", "Hund.", "</s>"});
  CHECK(alignment.target == Strings{"Dogs", "(run)", "</s>"});
  check_rows(alignment.weights, {{.1f, .5f, .4f}, {.6f / 3, 1.3f / 3, 1.1f / 3}, {0, 0, 1}});
  CHECK(to_pharaoh(word_alignment(run, " Ein  Hund. ", translation)) == "1-0 1-1");

  translation.cut_off = true;  // no row of </s>
  translation.ids.pop_back();
  translation.weights.resize(3);
  check_rows(word_alignment(run, "Ein Hund.", translation).weights, {{.1f, .5f, .4f}, {.3f, .6f, .1f}});
  CHECK(to_pharaoh(word_alignment(run, "Ein Hund.", translation)) == "1-0 1-1");
}

TEST_CASE("a word that looked at </s> most has no pair") {
  const Tokenizers tokenizers{whitespace_tokenizer(), whitespace_tokenizer()};
  const Run run = run_with(tokenizers, {"a", "b"}, {"x", "y"});
  Translation translation;
  translation.ids = {5, 1, 4};
  translation.weights = {{.2f, .3f, .5f}, {.2f, .5f, .3f}, {.6f, .4f, 0}, {0, 0, 1}};
  CHECK(to_pharaoh(word_alignment(run, "a b", translation)) == "1-1 0-2");
  CHECK(word_alignment(run, "a b", translation).target == Strings{"y", "<unk>", "x", "</s>"});
}

TEST_CASE("specials that the text does not show have no row") {
  const Tokenizers tokenizers{whitespace_tokenizer(), whitespace_tokenizer()};
  const Run run = run_with(tokenizers, {"a", "b"}, {"x", "y"});
  Translation translation;
  translation.ids = {Vocabulary::pad, 4, Vocabulary::start, 5};
  translation.weights = {{1, 0, 0}, {0, 1, 0}, {1, 0, 0}, {1, 0, 0}, {0, 0, 1}};
  CHECK(to_pharaoh(word_alignment(run, "a b", translation)) == "1-0 0-1");
}

TEST_CASE("a line of which the model saw the beginning alone: its </s> is the sentence's") {
  const Tokenizers tokenizers{whitespace_tokenizer(), whitespace_tokenizer()};
  const Run run = run_with(tokenizers, {"a", "b"}, {"x", "y"});
  Translation translation;
  translation.ids = {4};
  translation.weights = {{.2f, .3f, .5f}, {.1f, .2f, .7f}};
  const Alignment alignment = word_alignment(run, "a b a b a", translation);
  CHECK(alignment.source == Strings{"a", "b", "</s>"});
  check_rows(alignment.weights, translation.weights);
  CHECK(to_pharaoh(alignment) == "");
}

TEST_CASE("words that were copied in <unk>'s place are the text's") {
  const Tokenizers tokenizers{word_tokenizer(), word_tokenizer()};
  const Run run = run_with(tokenizers, {"Hallo"}, {"Hello"});
  const std::vector<std::string> source = tokenizers.source->split("Hallo Berlin!");
  Translation translation;
  translation.ids = {4, Vocabulary::unknown, Vocabulary::unknown};
  translation.weights = {{.8f, .1f, .1f, 0}, {.1f, .8f, .1f, 0}, {.1f, .2f, .7f, 0}, {0, 0, 0, 1}};
  const std::vector<std::string> tokens = words_with_copies(run, source, translation);
  CHECK(tokens == Strings{"Hello", "Berlin", "￭!"});
  const Alignment alignment = word_alignment(run, "Hallo Berlin!", translation, tokens);
  CHECK(alignment.target == Strings{"Hello", "Berlin!", "</s>"});
  check_rows(alignment.weights, {{.8f, .2f, 0}, {.1f, .9f, 0}, {0, 0, 1}});
  CHECK(to_pharaoh(alignment) == "0-0 1-1");
}

TEST_CASE("nothing to align") {
  const Tokenizers tokenizers{whitespace_tokenizer(), whitespace_tokenizer()};
  const Run run = run_with(tokenizers, {"a"}, {"x"});
  CHECK(to_pharaoh(word_alignment(run, " ", {})) == "");
  CHECK(word_alignment(run, " ", {}).source.empty());
  Translation empty, blind;
  empty.weights = {{.5f, .5f}};
  blind.ids = {4};
  CHECK(to_pharaoh(word_alignment(run, "a", empty)) == "");
  CHECK(to_pharaoh(word_alignment(run, "a", blind)) == "");  // attention none
}

TEST_CASE("pairs stay inside their sentences, whatever the line and the translation") {
  const Strings lines{"der hund und die hunde .", "ein kleiner ball, und ein großer ball!"};
  const auto spm = std::make_shared<const SpmTokenizer>(train_spm({&lines}, "text", {}), "text");
  const Strings odd{"der hund",  " der\u00a0hund\t", "\u200b der \u200b hund",
                    "🐶🐶 hund 🐶", "ein \u00adball",   "مرحبا بالعالم",
                    "我爱你",    "ﬁn ½ …",           "￭ ▁ ▁x",
                    "x\u2028y",  "\u0301x"};
  SplitMix64 random(3);
  for (const Tokenizers& tokenizers :
       {Tokenizers{spm, spm}, Tokenizers{word_tokenizer(true), spm}, Tokenizers{spm, word_tokenizer()}}) {
    const Run run = run_with(tokenizers, {"x"}, {"▁der", "▁", "hund", "￭,", "(￭", "▁New▁York", "￭"});
    for (const std::string& line : odd) {
      const std::size_t sources = tokenizers.source->split(line).size();
      for (int repeat = 0; repeat < 20; ++repeat) {
        Translation translation;
        translation.cut_off = random.below(2) == 0;
        for (u64 n = random.below(6); n > 0; --n) translation.ids.push_back(static_cast<i64>(random.below(11)));
        std::erase(translation.ids, Vocabulary::end);
        for (std::size_t t = 0; t < translation.ids.size() + (translation.cut_off ? 0 : 1); ++t) {
          translation.weights.emplace_back(sources + 1);
          for (float& weight : translation.weights.back()) weight = static_cast<float>(random.below(100));
        }
        if (sources == 0) translation = {};
        const std::string pairs = to_pharaoh(word_alignment(run, line, translation)), text = run.text(translation.ids);
        CAPTURE(line);
        CAPTURE(text);
        for (const std::string& pair : split_whitespace(pairs)) {
          std::size_t at = 0;
          CHECK(std::stoul(pair, &at) < split_whitespace(line).size());
          CHECK(std::stoul(pair.substr(at + 1)) < split_whitespace(text).size());
        }
      }
    }
  }
}
