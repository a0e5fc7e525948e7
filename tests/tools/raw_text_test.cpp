// Text as people write it goes in, and such text comes out, whatever the model counts in.
#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "seq2seq/text.h"
#include "tests/tools/program.h"

using namespace seqgrad;

namespace {

// A file of the small corpus with capitals and with its marks at their words.
std::string raw(const std::string& path) {
  std::string result;
  for (std::string line : seq2seq::read_lines(path)) {
    line[0] = static_cast<char>(std::toupper(line[0]));
    for (const char* mark : {" .", " ,"})
      for (std::size_t at = 0; (at = line.find(mark)) != line.npos;) line.erase(at, 1);
    result += line + "\n";
  }
  return result;
}

struct RawCorpus {
  TemporaryFolder folder;

  RawCorpus() {
    for (const char* name : {"train.de", "train.en", "valid.de", "valid.en", "test.de", "test.en"})
      folder.file(name, raw(small_corpus() / name));
  }

  std::vector<std::string> arguments(const std::string& out, const std::vector<std::string>& more) const {
    std::vector<std::string> all{"train", "--out", out, "--threads", "1", "--epochs", "1", "--embedding", "8", "--hidden", "8"};
    for (const char* option : {"train-source", "train-target", "valid-source", "valid-target"}) {
      const std::string name = option;
      all.push_back("--" + name);
      all.push_back(folder / (name.substr(0, 5) + (name.ends_with("source") ? ".de" : ".en")));
    }
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

const RawCorpus& raw_corpus() {
  static const RawCorpus corpus;
  return corpus;
}

const std::string& run_of(const std::string& name) {
  static std::map<std::string, std::string> runs;
  std::string& run = runs[name];
  if (!run.empty()) return run;
  run = raw_corpus().folder / name;
  const std::map<std::string, std::vector<std::string>> options{
      {"spm", {}},  // the default
      {"shared", {"--spm-type", "bpe", "--shared-vocabulary", "--vocabulary-size", "150", "--lowercase"}},
      {"tied", {"--shared-vocabulary", "--readout", "projected", "--tie-embeddings", "all", "--output-dropout", "0.1"}},
      {"words", {"--tokenizer", "words"}},
      {"whitespace", {"--tokenizer", "whitespace"}}};
  const Outcome outcome = seqgrad_program(raw_corpus().arguments(run, options.at(name)));
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
  return run;
}

const char* const odd_lines =
    "Der Hund schläft.\r\n"
    "\n"
    "   \t\u00a0\n"
    "Zeile\u2028mit\u0085Trennern\u00a0und\tTab\n"
    "\u200b\n"
    "🐶 läuft 👨‍👩‍👧!\n"
    "مرحبا بالعالم، كيف حالك؟\n"
    "我爱你。今天天气很好！\n"
    "</s> <s> <pad> <unk> ￭ ▁ <0x0A>\n"
    "mitten\rdrin\n"
    "ohne Ende";
constexpr std::ptrdiff_t odd_line_count = 11;

}  // namespace

TEST_CASE("a line out for each line in, and text of no tokens' marks") {
  for (const char* name : {"spm", "shared", "tied", "words", "whitespace"}) {
    CAPTURE(name);
    const std::string nul = std::string("a\0b\n", 4);
    const Outcome outcome = seqgrad_program({"translate", "--model", run_of(name), "--threads", "1"}, nul + odd_lines);
    REQUIRE(outcome.status == 0);
    CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == odd_line_count + 1);
    CHECK(outcome.out.find("▁") == outcome.out.npos);
    CHECK(outcome.out.find("￭") == outcome.out.npos);
    CHECK(seqgrad_program({"translate", "--model", run_of(name), "--batch", "1"}, nul + odd_lines).out == outcome.out);
  }
}

TEST_CASE("evaluate compares raw text with raw references") {
  for (const char* name : {"spm", "shared", "words", "whitespace"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const std::string source = raw_corpus().folder / "test.de", reference = raw_corpus().folder / "test.en";
    const Outcome outcome =
        seqgrad_program({"evaluate", "--model", run_of(name), "--source", source, "--reference", reference, "--json"});
    REQUIRE(outcome.status == 0);
    const auto json = nlohmann::json::parse(outcome.out);
    const std::string signature = json["bleu_signature"];
    const bool words = std::string(name) != "whitespace", lower = std::string(name) == "shared";
    CHECK((signature.find("|tok:13a|") != signature.npos) == words);
    CHECK((signature.find("|case:lc|") != signature.npos) == lower);
    const std::string out = folder.file("out", seqgrad_program({"translate", "--model", run_of(name)}, read_file(source)).out);
    std::vector<std::string> arguments{"bleu", reference, out, "--json", "--tokenize", words ? "13a" : "none"};
    if (lower) arguments.push_back("--lowercase");
    CHECK(nlohmann::json::parse(seqgrad_program(arguments).out)["bleu"] == json["bleu"]);
    CHECK(json["perplexity"] > 1);
  }
}

TEST_CASE("the run keeps what it was trained with: lower case, pieces, vocabularies") {
  const std::string& run = run_of("shared");
  const std::string text = "DER HUND SCHLÄFT.\n", lower = "der hund schläft.\n";
  CHECK(seqgrad_program({"translate", "--model", run}, text).out == seqgrad_program({"translate", "--model", run}, lower).out);
  CHECK(read_file(run + "/config.toml").find("lowercase = true\n") != std::string::npos);
  CHECK(seq2seq::read_lines(run + "/vocab.source").size() == 150);
  CHECK(read_file(run + "/vocab.source") == read_file(run + "/vocab.target"));
  CHECK(read_file(run + "/spm.source.model") == read_file(run + "/spm.target.model"));
  CHECK_FALSE(std::filesystem::exists(run_of("words") + "/spm.source.model"));
  // It does not need the text again, but to go on with the training.
  const TemporaryFolder folder;
  std::filesystem::copy(run, folder / "run");
  const Outcome resumed = seqgrad_program({"train", "--resume", folder / "run", "--epochs", "2"});
  CHECK(resumed.status == 0);
  CHECK(read_file(folder / "run/spm.source.model") == read_file(run + "/spm.source.model"));
}

TEST_CASE("one matrix for the embeddings of both sides and the output layer: trained, kept, resumed, the same in any batch") {
  const TemporaryFolder folder;
  std::filesystem::copy(run_of("tied"), folder / "run");
  const Outcome model = seqgrad_program({"show", "model", "--model", folder / "run"});
  CHECK(model.out.find("encoder.embedding.weight") != std::string::npos);
  CHECK(model.out.find("decoder.readout.weight") != std::string::npos);
  CHECK(model.out.find("decoder.embedding.weight") == std::string::npos);
  CHECK(model.out.find("decoder.out.weight") == std::string::npos);
  CHECK(seqgrad_program({"train", "--resume", folder / "run", "--epochs", "2"}).status == 0);
  const std::string source = raw_corpus().folder / "test.de", target = raw_corpus().folder / "test.en";
  const Outcome same =
      seqgrad_program({"check", "invariance", "--model", folder / "run", "--source", source, "--target", target});
  INFO(same.out);
  CHECK(same.status == 0);
}

TEST_CASE("the same command makes the same pieces") {
  const TemporaryFolder folder;
  const std::vector<std::string> more{"--spm-type", "unigram", "--threads", "2"};
  REQUIRE(seqgrad_program(raw_corpus().arguments(folder / "again", more)).status == 0);
  for (const char* file : {"spm.source.model", "spm.target.model", "vocab.source", "vocab.target"})
    CHECK(read_file(folder / ("again/" + std::string(file))) == read_file(run_of("spm") + "/" + file));
}

TEST_CASE("zipped text in, and a user's own pieces") {
  const TemporaryFolder folder;
  const std::string zipped = folder / "train.de.gz", text = read_file(raw_corpus().folder / "train.de");
  gzFile file = ::gzopen(zipped.c_str(), "wb");
  REQUIRE(::gzwrite(file, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  REQUIRE(::gzclose(file) == Z_OK);
  const std::string model = run_of("shared") + "/spm.source.model";
  const Outcome outcome = seqgrad_program(raw_corpus().arguments(
      folder / "run", {"--train-source", zipped, "--spm-source-model", model, "--vocabulary-size", "90"}));
  CHECK(outcome.status == 0);
  CHECK(read_file(folder / "run/spm.source.model") == read_file(model));
  CHECK(outcome.err.find("vocabulary 150 source, 90 target") != std::string::npos);
}

TEST_CASE("a corpus of one sentence, and lines that are left out") {
  const TemporaryFolder folder;
  const std::string one = folder.file("one", "Ein Hund.\n");
  std::string odd = "\n\u200b\nEin Hund.\n", long_line;
  for (int i = 0; i < 10000; ++i) long_line += "Hund ";
  odd += long_line + "\n";
  const auto train = [&](const std::string& text, const std::vector<std::string>& more) {
    std::vector<std::string> all{"--train-source", text, "--train-target", text, "--valid-source", one, "--valid-target", one};
    all.insert(all.end(), more.begin(), more.end());
    return seqgrad_program(raw_corpus().arguments(folder / ("run" + more.back()), all));
  };
  for (const char* tokenizer : {"spm", "words", "whitespace"}) {
    CAPTURE(tokenizer);
    const Outcome outcome = train(one, {"--min-frequency", "1", "--tokenizer", tokenizer});
    CHECK(outcome.err.starts_with("1 training pairs, 1 validation pairs; vocabulary "));
    CHECK(outcome.status == 0);
  }
  const Outcome outcome = train(folder.file("odd", odd), {"--max-length", "20"});
  CHECK(outcome.status == 0);
  CHECK(outcome.err.starts_with(
      "left out of the training text: 2 pairs with an empty side, 1 longer than 20 tokens\n1 training pairs, "));
}

TEST_CASE("what does not go is said in one line") {
  const TemporaryFolder folder;
  const auto complaint = [&](const Outcome& outcome) {
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    return outcome.err;
  };
  const std::string text = raw_corpus().folder / "train.de", out = folder / "out";
  const std::string large = complaint(seqgrad_program(raw_corpus().arguments(out, {"--vocabulary-size", "8000"})));
  const std::string start = "seqgrad: vocabulary-size is 8000, but " + text + " has only ";
  REQUIRE(large.starts_with(start));
  const std::string size = large.substr(start.size(), large.find(' ', start.size()) - start.size());
  CHECK(large == start + size + " pieces: take " + size + " or less, or 0 for as many as there are\n");
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(complaint(seqgrad_program(raw_corpus().arguments(out, {"--spm-source-model", text}))) ==
        "seqgrad: " + text + ": this is no SentencePiece model, or it is damaged\n");
  CHECK(complaint(seqgrad_program(raw_corpus().arguments(out, {"--tokenizer", "words", "--spm-source-model", text}))) ==
        "seqgrad: tokenizer is 'words': it must be spm to use a SentencePiece model\n");
  CHECK(complaint(seqgrad_program(raw_corpus().arguments(out, {"--from", "de"}))) ==
        "seqgrad: --from is a language of a preset's text: add --preset multi30k\n");

  std::filesystem::copy(run_of("spm"), folder / "run");
  const std::string model = folder / "run/spm.target.model", good = read_file(model);
  for (const std::string& bad : {std::string(), good.substr(0, good.size() / 2), "x" + good.substr(1), good + "x"}) {
    write_file(model, bad);
    CHECK(complaint(seqgrad_program({"translate", "--model", folder / "run"}, "Ein Hund.\n")) ==
          "seqgrad: " + model + ": this is no SentencePiece model, or it is damaged\n");
  }
}
