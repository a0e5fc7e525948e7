// Beam search, n best lists, samples, ensembles and scores, as the program's users ask for them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "seq2seq/search.h"
#include "tests/tools/program.h"

using namespace seqgrad;

namespace {

const std::string input = "der hund schläft im park .\n\nein mann zieht die jacke an .\n";

Outcome translate(std::vector<std::string> more, const std::string& text = input) {
  more.insert(more.begin(), {"translate", "--model", small_run(), "--threads", "1"});
  return seqgrad_program(more, text);
}

std::string translated(const std::vector<std::string>& more, const std::string& text = input) {
  const Outcome outcome = translate(more, text);
  CHECK(outcome.err.find("seqgrad:") == std::string::npos);
  REQUIRE(outcome.status == 0);
  return outcome.out;
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != text.npos; begin = end + separator.size())
    parts.push_back(text.substr(begin, end - begin));
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace

TEST_CASE("a beam of one is greedy search; a wider one gives as many lines, the same in any batch") {
  const std::string greedy = translated({});
  CHECK(translated({"--beam", "1", "--length-penalty", "2"}) == greedy);
  const std::string beam = translated({"--beam", "4"});
  CHECK(split(beam, "\n").size() == 4);
  CHECK(split(beam, "\n")[1] == "");
  CHECK(translated({"--beam", "4", "--batch", "1"}) == beam);
}

TEST_CASE("n best lists have a number, a translation, its log-probability and its score") {
  const std::string list = translated({"--beam", "4", "--nbest", "3", "--length-penalty", "0.5"});
  const std::string best = translated({"--beam", "4", "--length-penalty", "0.5"});
  std::vector<std::string> lines = split(list, "\n");
  lines.pop_back();
  REQUIRE(lines.size() == 7);
  CHECK(lines[3] == "1 |||  ||| logprob= 0.000000 ||| 0.000000");
  double before = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::vector<std::string> fields = split(lines[i], " ||| ");
    REQUIRE(fields.size() == 4);
    CHECK(fields[0] == (i < 3 ? "0" : i == 3 ? "1" : "2"));
    if (i == 0 || i == 4) CHECK(fields[1] == split(best, "\n")[i / 2]);
    const double score = std::stod(fields[3]), log_p = std::stod(fields[2].substr(9));
    if (i != 0 && i != 3 && i != 4) CHECK(score <= before);
    before = score;
    const std::size_t tokens = split(fields[1], " ").size() + 1;  // cut off, it would be one less
    if (i != 3) CHECK(score == doctest::Approx(log_p / std::sqrt((5 + static_cast<double>(tokens)) / 6)).epsilon(1e-5));
  }
}

TEST_CASE("samples repeat with their seed") {
  const std::string sample = translated({"--sample", "1", "--seed", "3"});
  CHECK(translated({"--sample", "1", "--seed", "3", "--batch", "1"}) == sample);
  CHECK(translated({"--sample", "1", "--seed", "4"}) != sample);
  CHECK(translated({"--sample", "0.5", "--top-k", "1"}) == translated({}));
}

TEST_CASE("lengths of translations can be bounded") {
  const Outcome cut = translate({"--max-length", "2"});
  CHECK(cut.status == 0);
  CHECK(cut.err == "2 of 3 translations were cut off: they had not ended after 2 words\n");
  for (const std::string& line : split(cut.out, "\n")) CHECK(split(line, " ").size() <= 2);
  for (const char* beam : {"1", "3"}) {
    const std::vector<std::string> lines =
        split(translated({"--min-length", "15", "--max-length", "20", "--beam", beam}), "\n");
    for (const std::size_t i : {0, 2}) {
      CHECK(split(lines[i], " ").size() >= 15);
      CHECK(split(lines[i], " ").size() <= 20);
    }
  }
}

TEST_CASE("several models translate together where they know the same words") {
  CHECK(translated({"--model", small_run(), "--beam", "2"}) == translated({"--beam", "2"}));
  const TemporaryFolder folder;
  std::filesystem::copy(small_run(), folder / "run");
  const auto run = seq2seq::open_run(folder / "run");
  seq2seq::Vocabulary::build({{"one"}}).save(folder / "run/vocab.source");
  seq2seq::Run other(run->settings, seq2seq::Vocabulary::build({{"one"}}), run->target);
  seq2seq::save_weights(other, folder / "run/model.safetensors");
  const Outcome outcome = translate({"--model", folder / "run"});
  CHECK(outcome.status == 2);
  CHECK(outcome.err ==
        fmt::format("seqgrad: {} and {} know different source words: models that translate together need the same "
                    "vocabularies\n",
                    folder / "run", small_run()));
}

TEST_CASE("unknown words are copied from where the model looked") {
  // A model that says <unk> and </s> only.
  const TemporaryFolder folder;
  std::filesystem::copy(small_run(), folder / "run");
  const auto run = seq2seq::open_run(folder / "run");
  for (Parameter* parameter : run->block.parameters())
    if (parameter->name == "decoder.out.bias") parameter->value.mutable_data<float>()[seq2seq::Vocabulary::unknown] = 1e6f;
  seq2seq::save_weights(*run, folder / "run/model.safetensors");
  const std::string text = "der zebu schläft .\n";
  const auto program = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"translate", "--model", folder / "run", "--max-length", "5"});
    return seqgrad_program(more, text).out;
  };
  CHECK(program({}) == "<unk> <unk> <unk> <unk> <unk>\n");
  const auto alignment = nlohmann::json::parse(program({"--alignments", "soft"}));
  std::vector<std::string> expected;
  for (const auto& row : alignment["weights"]) {
    std::size_t most = 0;
    for (std::size_t s = 1; s < 4; ++s)  // not </s>
      if (row[s] > row[most]) most = s;
    expected.push_back(alignment["source"][most]);
  }
  CHECK(program({"--replace-unk"}) == seq2seq::join(expected) + "\n");
}

TEST_CASE("scores of given pairs") {
  const TemporaryFolder folder;
  const std::string source = folder.file("source", input);
  const std::string found = translated({});
  const std::string target = folder.file("target", found);
  const auto scored = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"score", "--model", small_run(), "--source", source, "--target", target});
    const Outcome outcome = seqgrad_program(more);
    CHECK(outcome.err == "");
    REQUIRE(outcome.status == 0);
    return outcome.out;
  };
  std::vector<std::string> lines = split(scored({}), "\n");
  REQUIRE(lines.size() == 4);
  CHECK(lines[1] == "0.000000");
  const std::vector<std::string> list = split(translated({"--nbest", "1"}), "\n");
  for (const std::size_t i : {0, 2}) CHECK("logprob= " + lines[i] == split(list[i], " ||| ")[2]);
  const std::vector<std::string> objects = split(scored({"--json"}), "\n");
  const auto third = nlohmann::json::parse(objects[2]);
  CHECK(third["line"] == 3);
  CHECK(third["tokens"] == split(split(found, "\n")[2], " ").size() + 1);
  CHECK(third["unknown_words"] == 0);
  CHECK(third["log_probability"].get<double>() == doctest::Approx(std::stod(lines[2])).epsilon(1e-5));
}

TEST_CASE("a pair without its other half is named") {
  const TemporaryFolder folder;
  const std::string three = folder.file("three", "a\nb\nc\n"), two = folder.file("two", "a\nb\n");
  const auto complaint = [&](const std::string& source, const std::string& target) {
    const Outcome outcome = seqgrad_program({"score", "--model", small_run(), "--source", source, "--target", target});
    CHECK(outcome.status == 2);
    return outcome.err;
  };
  CHECK(complaint(three, two) ==
        fmt::format("seqgrad: {}:3: no such line, but {} has one: a source and its target must match line "
                    "by line\n",
                    two, three));
  CHECK(complaint(two, three) ==
        fmt::format("seqgrad: {}:3: no such line, but {} has one: a source and its target must match line "
                    "by line\n",
                    two, three));
}

TEST_CASE("options of a search that cannot be") {
  const auto complaint = [](const std::vector<std::string>& more) {
    const Outcome outcome = translate(more);
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    return outcome.err;
  };
  CHECK(complaint({"--beam", "0"}) == "seqgrad: beam is 0: it must be at least 1\n");
  CHECK(complaint({"--batch", "0"}) == "seqgrad: batch is 0: it must be at least 1\n");
  CHECK(complaint({"--nbest", "2"}) == "seqgrad: nbest is 2: it must be at most the beam, 1\n");
  CHECK(complaint({"--nbest", "-1"}) == "seqgrad: nbest is -1: it must be at least 1\n");
  CHECK(complaint({"--nbest", "1", "--heatmap"}) == "seqgrad: --nbest and --heatmap exclude each other\n");
  CHECK(complaint({"--nbest", "1", "--alignments", "soft"}) == "seqgrad: --nbest and --alignments exclude each other\n");
  CHECK(complaint({"--length-penalty", "-1"}) == "seqgrad: length-penalty is -1: it must be at least 0\n");
  CHECK(complaint({"--max-length", "-1"}) == "seqgrad: max-length is -1: it must be at least 0\n");
  CHECK(complaint({"--max-length", "3", "--min-length", "4"}) ==
        "seqgrad: min-length is 4: it must be at most the max-length, 3\n");
  CHECK(complaint({"--sample", "1", "--beam", "3"}) == "seqgrad: sample and a beam of 3 exclude each other\n");
  CHECK(complaint({"--sample", "-1"}) == "seqgrad: sample is -1: it must be a temperature of at least 1e-30, or 0\n");
  CHECK(complaint({"--top-k", "5"}) == "seqgrad: --top-k chooses among samples: add --sample 1\n");
}
