#include "seq2seq/demo_corpus.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "seq2seq/text.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

bool has(const std::vector<SentencePair>& pairs, const std::string& german, const std::string& english) {
  return std::any_of(pairs.begin(), pairs.end(), [&](const SentencePair& pair) {
    return join(pair.source).find(german) != std::string::npos && join(pair.target).find(english) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("the demo corpus has the sizes asked for, and no sentence twice") {
  const DemoCorpus corpus = make_demo_corpus(1);
  CHECK(corpus.train.size() == 4000);
  CHECK(corpus.valid.size() == 200);
  CHECK(corpus.test.size() == 200);
  std::set<std::string> german, english;
  for (const auto* part : {&corpus.train, &corpus.valid, &corpus.test}) {
    for (const SentencePair& pair : *part) {
      REQUIRE(german.insert(join(pair.source)).second);
      REQUIRE(english.insert(join(pair.target)).second);
    }
  }
}

TEST_CASE("every word of the demo's unseen sentences was seen") {
  for (const u64 seed : {1, 2, 3}) {
    const DemoCorpus corpus = make_demo_corpus(seed);
    std::map<std::string, int> german, english;
    for (const SentencePair& pair : corpus.train) {
      for (const std::string& word : pair.source) ++german[word];
      for (const std::string& word : pair.target) ++english[word];
    }
    CHECK(german.size() > 140);
    CHECK(german.size() < 200);
    CHECK(english.size() > 120);
    CHECK(english.size() < 160);
    for (const auto* part : {&corpus.valid, &corpus.test}) {
      for (const SentencePair& pair : *part) {
        for (const std::string& word : pair.source) REQUIRE(german[word] >= 2);
        for (const std::string& word : pair.target) REQUIRE(english[word] >= 2);
      }
    }
  }
}

TEST_CASE("a demo sentence has one translation, whatever the seed") {
  std::map<std::string, std::string> translation;
  for (u64 seed = 0; seed < 20; ++seed) {
    for (const SentencePair& pair : make_demo_corpus(seed).train) {
      const auto [known, added] = translation.emplace(join(pair.source), join(pair.target));
      REQUIRE(known->second == join(pair.target));
    }
  }
  CHECK(translation.size() > 60000);
}

TEST_CASE("the demo corpus depends on its seed alone") {
  const DemoCorpus corpus = make_demo_corpus(1, 300, 10, 10);
  const DemoCorpus again = make_demo_corpus(1, 300, 10, 10);
  const DemoCorpus other = make_demo_corpus(2, 300, 10, 10);
  REQUIRE(corpus.test.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) CHECK(corpus.test[i].source == again.test[i].source);
  CHECK(corpus.test[0].source != other.test[0].source);
  // The same on every machine.
  CHECK(join(corpus.train[0].source) ==
        "der junge hebt den brief auf , weil zwei fußballspieler dem mädchen den brief geben .");
  CHECK(join(corpus.train[0].target) == "the boy picks up the letter because two soccer players give the girl the letter .");
}

TEST_CASE("the demo corpus shows what German does") {
  const auto pairs = make_demo_corpus(1, 20000, 0, 0).train;
  CHECK(has(pairs, "hebt den roten ball auf .", "picks up the red ball ."));                                 // the prefix parts
  CHECK(has(pairs, ", weil der hund heute den ball fängt .", " because the dog catches the ball today ."));  // verb last
  CHECK(has(pairs, " aufhebt .", "picks up"));                                 // and the prefix joins it
  CHECK(has(pairs, "heute wirft der mann ", "today the man throws "));         // inversion
  CHECK(has(pairs, " , folgt ein ", " , a "));                                 // after a clause, too
  CHECK(has(pairs, " will den ball fangen .", " wants to catch the ball ."));  // infinitive last
  CHECK(has(pairs, " hat gestern ", " yesterday ."));                          // participle last
  CHECK(has(pairs, " ist gestern in den see gesprungen .", " jumped into the lake yesterday ."));
  CHECK(has(pairs, " im park ", " in the park"));        // where
  CHECK(has(pairs, " in den park ", " into the park"));  // where to
  CHECK(has(pairs, "dem jungen ", "the boy "));          // cases
  CHECK(has(pairs, "ein kleiner hund", "a small dog"));
  CHECK(has(pairs, "einen kleinen hund", "a small dog"));
  CHECK(has(pairs, "zwei kleine hunde", "two small dogs"));
  CHECK(has(pairs, "die kleinen hunde", "the small dogs"));
  CHECK(has(pairs, "fußballspieler", "soccer player"));                         // compounds
  CHECK(has(pairs, "frau , die den hut trägt ,", "woman who wears the hat "));  // relative clauses
  CHECK(has(pairs, "mit dem roten hut ", "with the red hat "));
  CHECK(has(pairs, "trägt den ball", "carries the ball"));  // one verb, two meanings
  CHECK(has(pairs, "isst einen apfel", "eats an apple"));
}

TEST_CASE("a demo corpus too small to know its words is refused") {
  CHECK(message_of([] { make_demo_corpus(1, 3, 10, 10); }) ==
        "[demo corpus] 3 training pairs are too few for 10 and 10 unseen ones");
}
