// Text as people write it goes in, and such text comes out, whatever the model counts in.
#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

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

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    if (lines.back().ends_with('\r')) lines.back().pop_back();
    begin = end + 1;
  }
  return lines;
}

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

TEST_CASE("alignments between words: every pair inside its sentences, whatever the tokens and the search") {
  const std::string input = odd_lines + ("\n" + read_file(raw_corpus().folder / "test.de"));
  const std::vector<std::string> sources = lines_of(input);
  const std::vector<std::vector<std::string>> searches{
      {}, {"--beam", "4"}, {"--sample", "1", "--top-k", "5", "--max-length", "12"}, {"--replace-unk"}};
  for (const char* name : {"spm", "shared", "tied", "words", "whitespace"})
    for (const std::vector<std::string>& search : searches) {
      const TemporaryFolder folder;
      CAPTURE(name);
      const std::string options = seq2seq::join(search);
      CAPTURE(options);
      const auto translate = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"translate", "--model", run_of(name), "--threads", "1"});
        more.insert(more.end(), search.begin(), search.end());
        return seqgrad_program(more, input);
      };
      const Outcome outcome = translate(
          {"--alignments", folder / "pairs", "--alignments", folder / "soft.json", "--alignments", folder / "page.html"});
      REQUIRE(outcome.status == 0);
      CHECK(translate({}).out == outcome.out);  // the text is the same
      const std::string pairs = read_file(folder / "pairs"), soft = read_file(folder / "soft.json");
      CHECK(translate({"--alignments", "pharaoh"}).out == pairs);
      CHECK(translate({"--alignments", "soft"}).out == soft);
      const std::vector<std::string> texts = lines_of(outcome.out), lines = lines_of(pairs), objects = lines_of(soft);
      REQUIRE(texts.size() == sources.size());
      REQUIRE(lines.size() == sources.size());
      REQUIRE(objects.size() == sources.size());
      std::size_t count = 0;
      for (std::size_t i = 0; i < sources.size(); ++i) {
        const std::vector<std::string> source = seq2seq::split_whitespace(sources[i]),
                                       text = seq2seq::split_whitespace(texts[i]);
        for (const std::string& pair : seq2seq::split_whitespace(lines[i])) {
          std::size_t end = 0;
          CHECK(std::stoul(pair, &end) < source.size());
          CHECK(std::stoul(pair.substr(end + 1)) < text.size());
          ++count;
        }
        const auto object = nlohmann::json::parse(objects[i]);
        auto from = object["source"].get<std::vector<std::string>>(), to = object["target"].get<std::vector<std::string>>();
        const auto weights = object["weights"].get<std::vector<std::vector<double>>>();
        if (from.empty()) {  // no tokens
          CHECK(text.empty());
          continue;
        }
        CHECK(weights.size() == to.size());
        for (const auto& row : weights) {
          CHECK(row.size() == from.size());
          CHECK(std::accumulate(row.begin(), row.end(), 0.0) <= 1 + 1e-4);
        }
        CHECK(from.back() == "</s>");
        from.pop_back();
        if (to.size() > text.size()) to.pop_back();
        CHECK(from == source);
        CHECK(to == text);
      }
      CHECK(count > 40);
      const std::string page = read_file(folder / "page.html");
      const std::string last = fmt::format("<h2 id=\"line-{}\">", sources.size());
      CHECK(page.find(last) != page.npos);
    }
}

TEST_CASE("a source that is too long is cut, which is said, and the others are not") {
  std::string line;
  for (int i = 0; i < 10000; ++i) line += "Hund ";
  const std::string input = "Der Hund schläft.\n" + line + "\nDer Ball rollt.\n";
  for (const char* name : {"tied", "words", "whitespace"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const Outcome outcome = seqgrad_program(
        {"translate", "--model", run_of(name), "--threads", "1", "--alignments", folder / "pairs", "--max-length", "30"},
        input);
    CHECK(outcome.status == 0);
    if (std::string(name) != "tied")  // whose words are pieces, as many as they are
      CHECK(outcome.err.starts_with("line 2: 10000 tokens, of which the first 1000 are translated (--max-source-length)\n"));
    else
      CHECK(outcome.err.find(" tokens, of which the first 1000 are translated (--max-source-length)\n") != std::string::npos);
    CHECK(outcome.err.find("line 1:") == std::string::npos);
    CHECK(outcome.err.find("line 3:") == std::string::npos);
    const std::vector<std::string> texts = lines_of(outcome.out), pairs = lines_of(read_file(folder / "pairs"));
    REQUIRE(texts.size() == 3);
    REQUIRE(pairs.size() == 3);
    for (const std::string& pair : seq2seq::split_whitespace(pairs[1])) CHECK(std::stoul(pair) < 1000);
    const Outcome others =
        seqgrad_program({"translate", "--model", run_of(name), "--max-source-length", "0", "--max-length", "30"},
                        "Der Hund schläft.\n\nDer Ball rollt.\n");
    CHECK(lines_of(others.out) == std::vector<std::string>{texts[0], "", texts[2]});

    const std::string source = folder.file("de", input), reference = folder.file("en", "The dog sleeps.\na\nThe ball rolls.\n");
    const Outcome evaluated =
        seqgrad_program({"evaluate", "--model", run_of(name), "--source", source, "--reference", reference});
    CHECK(evaluated.status == 0);
    CHECK(evaluated.err.find(source + ":2: of its tokens the first 1000 are translated (--max-source-length)\n") !=
          std::string::npos);
    CHECK(evaluated.out.find("(1 without perplexity: a side is empty or too long)") != std::string::npos);
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
  Outcome outcome = train(folder.file("odd", odd), {"--max-length", "20"});
  CHECK(outcome.status == 0);
  CHECK(outcome.err.starts_with(
      "left out of the training text: 2 pairs with an empty side, 1 longer than 20 tokens\n1 training pairs, "));
  outcome = train(folder / "odd", {"--valid-source", folder / "odd", "--valid-target", folder / "odd", "--seed", "2"});
  CHECK(outcome.status == 0);
  CHECK(
      outcome.err.starts_with("left out of the training text: 2 pairs with an empty side, 1 longer than 200 tokens\n"
                              "left out of the validation text: 2 pairs with an empty side, 1 longer than 200 tokens\n"
                              "1 training pairs, 1 validation pairs; "));
}

TEST_CASE("corpora of every kind are trained on and translated, a line out for each line in, and what happened is said") {
  struct Kind {
    const char* name;
    std::string source, target;
    const char* said;              // of the text, before its counts
    i64 pairs;                     // that are left of it
    const char* translating = "";  // what is said then
  };
  const auto repeated = [](const std::string& word, int times) {
    std::string line;
    for (int i = 0; i < times; ++i) line += (i ? " " : "") + word;
    return line;
  };
  const std::string empty = "left out of the training text: 2 pairs with an empty side, 0 longer than 200 tokens\n";
  const std::vector<Kind> kinds{
      {"CRLF", "Ein Hund.\r\nEin Ball.\r\n", "A dog.\r\nA ball.\r\n", "", 2},
      {"CRLF on one side", "Ein Hund.\r\nEin Ball.\r\n", "A dog.\nA ball.\n", "", 2},
      {"no end of the last line", "Ein Hund.\nEin Ball.", "A dog.\nA ball.\n", "", 2},
      {"line separators that are none", "Ein\u2028Hund.\nEin\u0085Ball.\n", "A\u2029dog.\nA\x0c ball.\n", "", 2},
      {"a lone carriage return", "Ein\rHund.\nEin Ball.\n", "A\rdog.\nA ball.\n", "", 2},
      {"no-break spaces", "Ein\u00a0Hund.\n\u00a0\u202f\nEin Ball.\n\u00a0Ein Ball\u00a0.\n",
       "A\u00a0dog.\na\n\u00a0\nA ball.\n", empty.c_str(), 2},
      {"tabs", "\tEin\tHund.\t\nEin Ball.\n", "A\tdog.\n\tA ball.\n", "", 2},
      {"empty lines", "\nEin Hund.\n\nEin Ball.\n", "\nA dog.\na\nA ball.\n", empty.c_str(), 2},
      {"a line of 10,000 tokens", "Ein Hund.\n" + repeated("Hund", 10000) + "\nEin Ball.\n",
       "A dog.\n" + repeated("dog", 10000) + "\nA ball.\n",
       "left out of the training text: 0 pairs with an empty side, 1 longer than 200 tokens\n", 2,
       "line 2: 10000 tokens, of which the first 1000 are translated (--max-source-length)\n"},
      {"emoji", "Ein 🐶 läuft 👨‍👩‍👧!\n🐶🐶🐶\n", "A 🐶 runs 👨‍👩‍👧!\n🐶🐶🐶\n", "",
       2},
      {"Arabic", "مرحبا بالعالم\nكيف حالك؟\n", "Hello world\nHow are you?\n", "", 2},
      {"Chinese", "我爱你。\n今天天气很好！\n", "I love you.\nThe weather is fine today!\n", "", 2},
      {"one sentence", "Ein Hund.\n", "A dog.\n", "", 1},
  };
  for (const char* tokenizer : {"spm", "words", "whitespace"})
    for (const Kind& kind : kinds) {
      const TemporaryFolder folder;
      CAPTURE(kind.name);
      CAPTURE(tokenizer);
      const std::string source = folder.file("source", kind.source), target = folder.file("target", kind.target);
      const std::string valid = folder.file("valid", "Ein Hund.\n");
      const Outcome trained = seqgrad_program(
          raw_corpus().arguments(folder / "run", {"--train-source", source, "--train-target", target, "--valid-source", valid,
                                                  "--valid-target", valid, "--tokenizer", tokenizer, "--min-frequency", "1"}));
      INFO(trained.err);
      CHECK(trained.status == 0);
      CHECK(trained.err.starts_with(fmt::format("{}{} training pairs, 1 validation pairs; ", kind.said, kind.pairs)));
      const Outcome outcome =
          seqgrad_program({"translate", "--model", folder / "run", "--threads", "1", "--max-length", "20"}, kind.source);
      CHECK(outcome.status == 0);
      const auto lines = std::count(kind.source.begin(), kind.source.end(), '\n') + (kind.source.ends_with('\n') ? 0 : 1);
      CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == lines);
      CHECK(outcome.err.starts_with(kind.translating));
      for (const char* separator : {"\r", "\u2028", "\u2029", "\u0085", "\x0c"})
        CHECK(outcome.out.find(separator) == outcome.out.npos);
    }
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
