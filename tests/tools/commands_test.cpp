// Help, versions, and the checks.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/tools/program.h"

using namespace seqgrad;

TEST_CASE("each command has help with an example") {
  for (const std::vector<std::string>& command : {std::vector<std::string>{},
                                                  {"demo"},
                                                  {"train"},
                                                  {"translate"},
                                                  {"evaluate"},
                                                  {"average"},
                                                  {"bleu"},
                                                  {"chrf"},
                                                  {"check"},
                                                  {"check", "gradients"},
                                                  {"check", "parity"},
                                                  {"bench"},
                                                  {"bench", "train"},
                                                  {"experiment"},
                                                  {"study"},
                                                  {"bench", "kernels"}}) {
    CAPTURE(seq2seq::join(command));
    std::vector<std::string> arguments = command;
    arguments.push_back("--help");
    const Outcome outcome = seqgrad_program(arguments);
    CHECK(outcome.status == 0);
    CHECK(outcome.err == "");
    std::vector<std::string> name = command;
    name.insert(name.begin(), "seqgrad");
    CHECK(outcome.out.find("Usage: " + seq2seq::join(name) + " ") != std::string::npos);
    CHECK(outcome.out.find("Example: ") != std::string::npos);
    CHECK(outcome.out.find(seq2seq::join(name), outcome.out.find("Example: ")) != std::string::npos);
  }
}

TEST_CASE("the version names the CPU routines") {
  const Outcome outcome = seqgrad_program({"--version"}, "", [] { ::setenv("SEQGRAD_CPU", "v1", 1); });
  CHECK(outcome.status == 0);
  CHECK(outcome.out.starts_with("seqgrad 0."));
  CHECK(outcome.out.find("(CPU routines: v1;") != std::string::npos);
}

TEST_CASE("the gradients are right, as the program says it") {
  const Outcome outcome = seqgrad_program({"check", "gradients", "--threads", "1"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out.starts_with("case "));
  CHECK(outcome.out.find("; worst relative error ") != std::string::npos);
  CHECK(outcome.out.find("FAILED") == std::string::npos);
  const Outcome list = seqgrad_program({"check", "gradients", "--list"});
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == std::count(list.out.begin(), list.out.end(), '\n') + 3);
}

TEST_CASE("a filter chooses cases, and JSON has the numbers") {
  const Outcome outcome = seqgrad_program({"check", "gradients", "--filter", "softmax*", "--json"});
  REQUIRE(outcome.status == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["ok"] == true);
  CHECK(json["failed"] == 0);
  REQUIRE(json["cases"] == json["results"].size());
  for (const auto& result : json["results"]) {
    CHECK(result["name"].get<std::string>().starts_with("softmax"));
    CHECK(result["compared"] > 0);
    CHECK(result["error"] <= 1e-7);
  }
}

TEST_CASE("a gradient check that fails names operation, argument, index and both values") {
  const Outcome outcome = seqgrad_program({"check", "gradients", "--filter", "tanh", "--rtol", "1e-30"});
  CHECK(outcome.status == 1);
  CHECK(outcome.err == "seqgrad: 1 of 1 gradient checks failed\n");
  const std::size_t at = outcome.out.find("tanh: FAILED: worst of 15 entries is a (");
  REQUIRE(at != std::string::npos);
  CHECK(outcome.out.find("analytic ", at) != std::string::npos);
  CHECK(outcome.out.find("numeric ", at) != std::string::npos);
}

TEST_CASE("recordings of another framework are replayed") {
  std::vector<std::string> arguments{"check", "parity"};
  for (const char* name : {"ops", "gru_1layer_uni", "gru_2layer_bi", "seq2seq_gru_bi_none", "seq2seq_gru_bi_mean",
                           "seq2seq_gru_bi_sdp", "seq2seq_gru_bi_bahdanau", "seq2seq_gru_uni_bahdanau"})
    arguments.push_back(fmt::format("{}/torch/{}.safetensors", SEQGRAD_FIXTURES, name));
  const Outcome outcome = seqgrad_program(arguments);
  CHECK(outcome.err == "");
  CHECK(outcome.status == 0);
  CHECK(outcome.out.ends_with(": all within tolerance\n"));
}

TEST_CASE("a short benchmark prints its figures") {
  const std::vector<std::string> arguments{"bench", "train",    "--steps", "2",       "--threads", "1",     "--embedding",
                                           "16",    "--hidden", "16",      "--batch", "8",         "--json"};
  const Outcome outcome = seqgrad_program(arguments);
  REQUIRE(outcome.status == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["steps"] == 2);
  CHECK(json["target_tokens_per_second"] > 0);
  CHECK(json["share_of_peak"] > 0);
  CHECK(json["peak_memory_megabytes"] > 0);
  double share = 0;
  for (const auto& kind : json["breakdown"]["kinds"]) share += kind["share_of_step"].get<double>();
  CHECK(share == doctest::Approx(1));
  CHECK(json["breakdown"]["matrix_products"].size() > 3);
  CHECK(json["steady_state"].contains("page_faults_per_step"));
  CHECK(!json.contains("thread_comparison"));
}

TEST_CASE("a benchmark says where the time goes, and what a second thread brings") {
  std::vector<std::string> arguments{"bench",    "train", "--steps", "2", "--threads",        "2", "--embedding", "16",
                                     "--hidden", "16",    "--batch", "8", "--compare-threads"};
  const Outcome outcome = seqgrad_program(arguments);
  CHECK(outcome.status == 0);
  for (const char* line : {"\nthreads            2 are ", "\nwhere a step's time goes ", "\n  gates ", "\n  rest ",
                           "\nmatrix products, m x n x k ", "\n  adam_step "}) {
    INFO(line);
    CHECK(outcome.out.find(line) != std::string::npos);
  }
  arguments[5] = "1";
  const Outcome alone = seqgrad_program(arguments);
  CHECK(alone.status == 2);
  CHECK(alone.err == "seqgrad: --compare-threads needs more than one thread: this is --threads 1\n");
}

TEST_CASE("a short benchmark of translating prints its figures") {
  const std::vector<std::string> sizes{"--threads", "1", "--embedding", "16", "--hidden", "16"};
  std::vector<std::string> arguments{"bench", "decode", "--json", "--batch", "8"};
  arguments.insert(arguments.end(), sizes.begin(), sizes.end());
  const Outcome outcome = seqgrad_program(arguments);
  REQUIRE(outcome.status == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["sentences"] == 1000);
  CHECK(json["target_tokens"] == json["source_tokens"]);
  for (const char* figure : {"tokens_per_second", "limit_tokens_per_second", "share_of_limit", "peak_gflops",
                             "latency_median_ms", "latency_p99_ms", "peak_memory_megabytes"})
    CHECK(json[figure] > 0);
}

TEST_CASE("a benchmark of translating takes a run and its text, or neither") {
  const auto complaint = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", "decode"});
    const Outcome outcome = seqgrad_program(more);
    CHECK(outcome.status == 2);
    return outcome.err;
  };
  CHECK(complaint({"--model", small_run()}) ==
        "seqgrad: --model and --source go together: without both, a made-up model translates made-up sentences\n");
  CHECK(complaint({"--model", small_run(), "--source", small_corpus() / "test.de", "--hidden", "5"}) ==
        "seqgrad: --hidden has no effect beside --model, whose sizes are those of the run\n");
  CHECK(complaint({"--model", small_run(), "--source", "/dev/null"}) == "seqgrad: /dev/null holds no sentence\n");
  CHECK(complaint({"--batch", "0"}) == "seqgrad: batch is 0: it must be at least 1\n");
  const Outcome outcome = seqgrad_program({"bench", "decode", "--model", small_run(), "--source", small_corpus() / "test.de"});
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find("share of the limit ") != std::string::npos);
  CHECK(outcome.out.find("start ") != std::string::npos);
}

TEST_CASE("the benchmark of kernels measures what the filter lets through") {
  const Outcome outcome = seqgrad_program({"bench", "kernels", "--filter", "rnn_gates*", "--threads", "1", "--json"});
  REQUIRE(outcome.status == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  REQUIRE(json["routines"].size() == 4);  // forward and backward, of a large and a small model
  CHECK(json["routines"][0]["routine"] == "rnn_gates");
  CHECK(json["routines"][0]["seconds"]["v1"] > 0);
  CHECK(json["peak_gflops"] > 0);
  CHECK(json["arithmetic_gflops"] > 0);
  CHECK(!json.contains("products"));
  CHECK(!json.contains("tape_nodes_per_second"));

  const Outcome tape = seqgrad_program({"bench", "kernels", "--filter", "tape", "--json"});
  REQUIRE(tape.status == 0);
  for (const char* key : {"tape_nodes_per_second", "tape_forward_us", "tape_backward_us"})
    CHECK(nlohmann::json::parse(tape.out)[key] > 0);

  const Outcome none = seqgrad_program({"bench", "kernels", "--filter", "no_such"});
  CHECK(none.status == 2);
  CHECK(none.err == "seqgrad: no routine matches --filter 'no_such': 'seqgrad bench kernels' lists all of them\n");
}
