#include <doctest/doctest.h>

#include <algorithm>

#include "seq2seq/report.h"
#include "seq2seq/settings.h"
#include "tests/tools/program.h"

using namespace seqgrad;

namespace {

void train(const std::string& folder, const std::vector<std::string>& more) {
  const Outcome outcome = seqgrad_program(small_corpus().train_arguments(folder, more));
  INFO(outcome.err);
  REQUIRE(outcome.status == 0);
}

bool same_file(const std::string& a, const std::string& b, const char* name) {
  return read_file(a + "/" + name) == read_file(b + "/" + name);
}

}  // namespace

TEST_CASE("the same command writes the same weights") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) train(folder / name, {"--epochs", "2", "--seed", "3", "--threads", "2"});
  CHECK(same_file(folder / "a", folder / "b", "model.safetensors"));
  CHECK(same_file(folder / "a", folder / "b", "checkpoint.safetensors"));
  train(folder / "c", {"--epochs", "2", "--seed", "4"});
  CHECK_FALSE(same_file(folder / "a", folder / "c", "model.safetensors"));
}

TEST_CASE("a resumed run ends where an uninterrupted one does") {
  const TemporaryFolder folder;
  train(folder / "whole", {"--epochs", "4"});
  train(folder / "halves", {"--epochs", "2"});
  const Outcome outcome = seqgrad_program({"train", "--resume", folder / "halves", "--epochs", "4"});
  REQUIRE(outcome.status == 0);
  CHECK(outcome.err.find("epoch 3/4") != std::string::npos);
  CHECK(outcome.err.find("epoch 2/4") == std::string::npos);
  for (const char* name : {"model.safetensors", "checkpoint.safetensors", "config.toml", "vocab.source", "vocab.target"})
    CHECK(same_file(folder / "whole", folder / "halves", name));
  CHECK(seq2seq::read_metrics(folder / "halves/metrics.jsonl").size() == 4);

  SUBCASE("and a complete one has nothing to do") {
    const auto before = contents(folder / "halves");
    const Outcome again = seqgrad_program({"train", "--resume", folder / "halves", "--hidden", "16"});
    CHECK(again.status == 0);
    CHECK(again.out == outcome.out);
    CHECK(contents(folder / "halves") == before);
  }
  SUBCASE("and one that ended before its first checkpoint starts from the beginning") {
    std::filesystem::remove(folder / "halves/checkpoint.safetensors");
    REQUIRE(seqgrad_program({"train", "--resume", folder / "halves"}).status == 0);
    CHECK(same_file(folder / "whole", folder / "halves", "checkpoint.safetensors"));
    CHECK(seq2seq::read_metrics(folder / "halves/metrics.jsonl").size() == 4);
  }
}

TEST_CASE("a run folder says how it was made, and makes it again") {
  const std::string& run = small_run();
  for (const char* name :
       {"config.toml", "vocab.source", "vocab.target", "model.safetensors", "checkpoint.safetensors", "metrics.jsonl"})
    CHECK(std::filesystem::is_regular_file(run + "/" + name));
  const TemporaryFolder folder;
  const Outcome outcome = seqgrad_program({"train", "--config", run + "/config.toml", "--out", folder / "again"});
  REQUIRE(outcome.status == 0);
  CHECK(same_file(run, folder / "again", "model.safetensors"));
  CHECK(same_file(run, folder / "again", "config.toml"));
}

TEST_CASE("options come before the config file, and the file before the defaults") {
  const TemporaryFolder folder;
  const std::string config = folder.file("config.toml", "hidden = 24\nembedding = 24\nbidirectional = false\nlayers = 2\n");
  train(folder / "run", {"--config", config, "--epochs", "1", "--layers", "1"});
  const seq2seq::Settings settings = seq2seq::settings_from_toml(folder / "run/config.toml");
  CHECK(settings.hidden == 16);  // train_arguments() gives it as an option
  CHECK(settings.layers == 1);
  CHECK_FALSE(settings.bidirectional);
  CHECK(settings.clip == 1);
  CHECK(settings.epochs == 1);
}

TEST_CASE("training says on the standard error what it does, and its result on the standard output") {
  const TemporaryFolder folder;
  const SmallCorpus& corpus = small_corpus();
  const std::string source = folder.file("train.de", read_file(corpus / "train.de") + "\nein hund .\nein ein ein ein .\n");
  const std::string target = folder.file("train.en", read_file(corpus / "train.en") + "a dog .\n\na\n");
  const Outcome trained = seqgrad_program(corpus.train_arguments(
      folder / "run", {"--train-source", source, "--train-target", target, "--epochs", "2", "--max-length", "30"}));
  REQUIRE(trained.status == 0);
  CHECK(
      trained.err.starts_with("left out of the training text: 2 pairs with an empty side, 0 longer than 30 tokens\n"
                              "401 training pairs, 40 validation pairs; vocabulary "));
  CHECK(trained.err.find("\nepoch 1/2  train perplexity ") != std::string::npos);
  CHECK(trained.err.find('\r') == std::string::npos);  // no terminal
  CHECK(std::count(trained.err.begin(), trained.err.end(), '\n') == 4);
  CHECK(trained.out.starts_with(folder / "run" + ": validation perplexity "));
  CHECK(trained.out.ends_with(" of 2\n"));
}

TEST_CASE("the demo writes a run and a report, and replaces only its own folder") {
  const TemporaryFolder folder;
  const std::string demo = folder / "demo";
  for (int time = 0; time < 2; ++time) {
    const Outcome outcome = seqgrad_program({"demo", "--out", demo, "--epochs", "1", "--ascii"});
    CHECK(outcome.status == 1);  // one epoch is not enough, and it says so
    CHECK(outcome.err.find("seqgrad: BLEU is ") != std::string::npos);
    CHECK(outcome.out.find("  translation  ") != std::string::npos);
    CHECK(outcome.out.find("weight:  ... from 0.05") != std::string::npos);
    CHECK(outcome.out.find("Report: " + demo + "/report.html\n") != std::string::npos);
  }
  CHECK(read_file(demo + "/report.html").starts_with("<!DOCTYPE html>"));
  CHECK(seqgrad_program({"translate", "--model", demo}, "der hund schläft .\n").status == 0);
}
