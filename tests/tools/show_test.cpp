// seqgrad show model and show graph, as their users run them.
#include <doctest/doctest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/tools/program.h"

namespace {

const auto without_graphviz = [] { ::setenv("PATH", "/nonexistent", 1); };

bool has_graphviz() { return std::system("dot -V >/dev/null 2>&1") == 0; }

}  // namespace

TEST_CASE("show model lists every parameter of a run with its shape and count") {
  const Outcome outcome = seqgrad_program({"show", "model", "--model", small_run()});
  CHECK(outcome.status == 0);
  CHECK(outcome.err == "");
  CHECK(outcome.out.starts_with("parameter "));
  const std::size_t at = outcome.out.find("\nencoder.gru.weight_hh_l0_reverse  (48, 16) ");
  REQUIRE(at != std::string::npos);
  CHECK(outcome.out.substr(at + 1, outcome.out.find('\n', at + 1) - at - 1).ends_with(" 768"));
  CHECK(outcome.out.find("\ntotal ") != std::string::npos);
  CHECK(outcome.out.find("\nattention sdp, ") != std::string::npos);

  const nlohmann::json result = nlohmann::json::parse(seqgrad_program({"show", "model", "--json", "--model", small_run()}).out);
  long total = 0;
  for (const auto& parameter : result["parameters"]) {
    long product = 1;
    for (const auto& extent : parameter["shape"]) product *= extent.get<long>();
    CHECK(parameter["count"] == product);
    total += product;
  }
  CHECK(result["total"] == total);
  CHECK(result["bytes"] == 4 * total);
  CHECK(result["parameters"][0]["name"] == "encoder.embedding.weight");
}

TEST_CASE("show model of given sizes: the reference has the number of parameters that it should") {
  const nlohmann::json result =
      nlohmann::json::parse(seqgrad_program({"show", "model", "--json", "--embedding", "8", "--hidden", "6", "--attention-dim",
                                             "4", "--precision", "f64"})
                                .out);
  // E 8, H 6, C 12, D 6, K 4; vocabularies of 7853 and 5893 words; readout deep
  const long encoder = 7853 * 8 + 2 * (18 * 8 + 18 * 6 + 2 * 18) + (6 * 12 + 6);
  const long decoder = 5893 * 8 + (4 * 12 + 4 + 4 * 6 + 4) + (18 * 20 + 18 * 6 + 2 * 18) + 5893 * (6 + 12 + 8 + 1);
  CHECK(result["total"] == encoder + decoder);
  CHECK(result["bytes"] == 8 * (encoder + decoder));
}

TEST_CASE("show model refuses sizes beside a run") {
  const Outcome outcome = seqgrad_program({"show", "model", "--model", small_run(), "--hidden", "3"});
  CHECK(outcome.status == 2);
  CHECK(outcome.err == "seqgrad: --hidden has no effect beside --model, whose sizes are those of the run\n");
}

TEST_CASE("show graph writes DOT to the standard output or a file, with the words it was given") {
  const TemporaryFolder folder;
  const Outcome outcome = seqgrad_program({"show", "graph"});
  CHECK(outcome.status == 0);
  CHECK(outcome.err == "");
  CHECK(outcome.out.starts_with("digraph tape {\n"));
  CHECK(outcome.out.find("encoder: ein hund läuft </s>") != std::string::npos);
  CHECK(outcome.out.find("decoder, step 4: after runs, expects </s>") != std::string::npos);
  CHECK(outcome.out.find("encoder.embedding.weight\\n(7, 4), gradient ") != std::string::npos);
  CHECK(seqgrad_program({"show", "graph", "--out", folder / "g.dot"}).out == "");
  CHECK(seqgrad::read_file(folder / "g.dot") == outcome.out);

  CHECK(seqgrad_program({"show", "graph", "--bridge", "none"}).status == 0);
  const Outcome other = seqgrad_program(
      {"show", "graph", "--attention", "bahdanau", "--hidden", "2", "--sentence", "guten tag", "--translation", "hello"});
  CHECK(other.status == 0);
  CHECK(other.out.find("encoder: guten tag </s>") != std::string::npos);
  CHECK(other.out.find("additive_scores (1, 3)\\ngradient ") != std::string::npos);
}

TEST_CASE("show graph draws SVG where Graphviz is there, and else gives DOT and says so") {
  const TemporaryFolder folder;
  const std::string file = folder / "g.svg";
  const Outcome without = seqgrad_program({"show", "graph", "--out", file}, "", without_graphviz);
  CHECK(without.status == 1);
  CHECK(without.out == seqgrad_program({"show", "graph"}).out);
  CHECK(without.err == "seqgrad: Graphviz's 'dot' is not installed, so " + file +
                           " was not drawn: the graph is on the standard output, in DOT\n");
  CHECK_FALSE(std::filesystem::exists(file));
  if (!has_graphviz()) return;
  const Outcome with = seqgrad_program({"show", "graph", "--out", file});
  CHECK(with.status == 0);
  CHECK(with.out == "");
  const std::string svg = seqgrad::read_file(file);
  CHECK(svg.find("<svg") != std::string::npos);
  CHECK(svg.find("encoder.gru.weight_hh_l0") != std::string::npos);
}

TEST_CASE("show graph names what is wrong with its options") {
  const auto error = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"show", "graph"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = seqgrad_program(arguments);
    CHECK(outcome.status == 2);
    return outcome.err;
  };
  CHECK(error({"--out", "graph.png"}) ==
        "seqgrad: out is 'graph.png': its name must end in .dot or .svg, which says what to write\n");
  CHECK(error({"--sentence", " "}) == "seqgrad: sentence has no words\n");
  CHECK(error({"--translation", ""}) == "seqgrad: translation has no words\n");
  CHECK(error({"--hidden", "0"}) == "seqgrad: hidden is 0: it must be at least 1\n");
}
