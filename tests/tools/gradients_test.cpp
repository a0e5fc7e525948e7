// `seqgrad check gradients` with its options; autograd/suite's tests have what they mean.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/program.h"

using namespace seqgrad;

TEST_CASE("the gradients are right in f32, and along random directions") {
  for (const char* mode : {"--dtype=f32", "--fast"}) {
    CAPTURE(mode);
    const Outcome outcome = seqgrad_program({"check", "gradients", mode, "--threads", "1"});
    CHECK(outcome.err == "");
    CHECK(outcome.status == 0);
    CHECK(outcome.out.find("FAILED") == std::string::npos);
  }
  const Outcome fast = seqgrad_program({"check", "gradients", "--fast", "--filter", "model/sdp", "--json"});
  const auto json = nlohmann::json::parse(fast.out);
  CHECK(json["mode"] == "directions");
  CHECK(json["dtype"] == "f64");
}

TEST_CASE("the list says what cases declare, for people and for programs") {
  const Outcome text = seqgrad_program({"check", "gradients", "--list", "--filter", "relu"});
  CHECK(text.out == "relu  a (3, 5); kinks 0.1 away; tolerance 1e-07, in f32 1e-04\n");
  const Outcome list = seqgrad_program({"check", "gradients", "--list", "--json", "--filter", "log"});
  const auto json = nlohmann::json::parse(list.out);
  CHECK(json[0]["name"] == "log");
  CHECK(json[0]["domains"][0]["low"] == 0);
}

TEST_CASE("failures reach the JUnit file and name their likely cause") {
  const TemporaryFolder folder;
  const Outcome outcome =
      seqgrad_program({"check", "gradients", "--filter", "relu", "--rtol", "1e-30", "--junit", folder / "results.xml"});
  CHECK(outcome.status == 1);
  CHECK(outcome.out.find("\n  likely cause: the tolerance is finer than differences resolve") != std::string::npos);
  const std::string xml = read_file(folder / "results.xml");
  CHECK(xml.find("tests=\"1\" failures=\"1\"") != std::string::npos);
  CHECK(xml.find("<testcase classname=\"gradients\" name=\"relu\"") != std::string::npos);
  CHECK(xml.find("likely cause: the tolerance is finer") != std::string::npos);
}

TEST_CASE("options of the gradient check outside their domain") {
  const auto complaint = [](const std::vector<std::string>& options) {
    std::vector<std::string> arguments{"check", "gradients", "--filter", "tanh"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = seqgrad_program(arguments);
    CHECK(outcome.status == 2);
    return outcome.err;
  };
  CHECK(complaint({"--dtype", "f16"}) == "seqgrad: dtype is 'f16': it must be one of f64|f32\n");
  CHECK(complaint({"--eps", "0"}) == "seqgrad: eps is 0: it must be above 0 and below 1\n");
  CHECK(complaint({"--atol", "-1"}) == "seqgrad: atol is -1: it must be above 0 and finite\n");
  CHECK(complaint({"--rtol", "1e400"}) == "seqgrad: rtol is inf: it must be above 0 and below 1\n");
  CHECK(complaint({"--seed", "-1"}) == "seqgrad: seed is -1: it must be at least 0\n");
  CHECK(complaint({"--seed", "99999999999999999999"}) ==
        "seqgrad: --seed is '99999999999999999999': it must fit into 64 bits\n");
  CHECK(complaint({"--list", "--junit", "results.xml"}) ==
        "seqgrad: --junit takes results, and --list checks nothing: leave one of them out\n");
  CHECK(complaint({"--rtol", "small"}) == "seqgrad: --rtol is 'small': it must be a number\n");
}

TEST_CASE("a JUnit file that cannot be written is noticed before the work") {
  const Outcome outcome = seqgrad_program({"check", "gradients", "--junit", "/nonexistent/results.xml"});
  CHECK(outcome.status == 1);
  CHECK(outcome.out == "");
  CHECK(outcome.err == "seqgrad: cannot write /nonexistent/results.xml: No such file or directory\n");
}
