// seqgrad check invariance, as its users run it.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "seq2seq/run.h"
#include "tests/tools/program.h"

TEST_CASE("check invariance passes on a trained model and prints a row for each variant") {
  const std::string source = small_corpus() / "test.de", target = small_corpus() / "test.en";
  const Outcome outcome = seqgrad_program(
      {"check", "invariance", "--threads", "1", "--model", small_run(), "--source", source, "--target", target});
  CHECK(outcome.status == 0);
  CHECK(outcome.err == "");
  CHECK(outcome.out.starts_with("40 sentences of " + source + ", each compared with itself alone\n"));
  for (const char* variant : {"batch 1, 40 more columns", "batch 7, sorted", "batch 64, shuffled, 40 more columns"}) {
    const std::size_t at = outcome.out.find(variant);
    REQUIRE(at != std::string::npos);
    CHECK(outcome.out.substr(at, outcome.out.find('\n', at) - at).find(" 40 / 40 ") != std::string::npos);
  }
  CHECK(outcome.out.ends_with("\nneither neighbours nor order nor padding change anything\n"));
}

TEST_CASE("check invariance as JSON, empty lines left out") {
  const TemporaryFolder folder;
  const std::string source = folder.file("in.de", "der mann .\n\n \neine frau .\n");
  const Outcome outcome =
      seqgrad_program({"check", "invariance", "--threads", "1", "--json", "--model", small_run(), "--source", source});
  CHECK(outcome.status == 0);
  const nlohmann::json result = nlohmann::json::parse(outcome.out);
  CHECK(result["ok"] == true);
  CHECK(result["sentences"] == 2);
  CHECK(result["empty_lines"] == 2);
  CHECK(result["changed"] == 0);
  CHECK(result["variants"].size() == 7);
  CHECK(result["variants"][1]["name"] == "batch 7, sorted");
  CHECK_FALSE(result["variants"][0].contains("f32_loss_difference"));
}

TEST_CASE("check invariance fails with the sentence on weights that are not numbers") {
  const TemporaryFolder folder;
  const std::string model = folder / "run";
  std::filesystem::copy(small_run(), model);
  const auto run = seqgrad::seq2seq::open_run(model);
  run->block.parameters()[0]->value.fill(std::numeric_limits<double>::quiet_NaN());
  seqgrad::seq2seq::save_weights(*run, model + "/model.safetensors");
  const std::string source = folder.file("in.de", "\nder mann .\n"), target = folder.file("in.en", "\nthe man .\n");
  const Outcome outcome =
      seqgrad_program({"check", "invariance", "--threads", "1", "--model", model, "--source", source, "--target", target});
  CHECK(outcome.status == 1);
  CHECK(outcome.err.starts_with("seqgrad: " + source + ":2: "));
}

TEST_CASE("check invariance names what is wrong with its files") {
  const TemporaryFolder folder;
  const std::string one = folder.file("one", "a\n"), two = folder.file("two", "a\nb\n"), blank = folder.file("blank", "\n\n");
  const auto check = [&](const std::string& source, const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"check", "invariance", "--model", small_run(), "--source", source};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = seqgrad_program(arguments);
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    return outcome.err;
  };
  CHECK(check(one, {"--target", two}) ==
        "seqgrad: " + one + " has 1 lines but " + two + " has 2: a source and its target must match line by line\n");
  CHECK(check(blank, {}) == "seqgrad: " + blank + " holds no sentence\n");
  CHECK(check(folder / "none", {}) == "seqgrad: cannot read " + (folder / "none") + ": No such file or directory\n");
}
