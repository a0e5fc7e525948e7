// seqgrad study, as its users run it.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/tools/program.h"

TEST_CASE("study prints theory beside measurement, as text, JSON and a page") {
  const TemporaryFolder folder;
  const Outcome text =
      seqgrad_program({"study", "averaging", "--m", "5", "--d", "25", "--sweep", "0,10", "--html", folder / "a.html"});
  CHECK(text.status == 0);
  CHECK(text.err == "");
  CHECK(text.out.starts_with("Averaging: one query for two keys\n"));
  CHECK(text.out.find("\nalpha_a at c = 10 ") != std::string::npos);
  CHECK(text.out.find("\nholds: ") != std::string::npos);
  CHECK(seqgrad::read_file(folder / "a.html").starts_with("<!DOCTYPE html>"));

  const Outcome json = seqgrad_program({"study", "noisy-keys", "--samples", "1000", "--json"});
  CHECK(json.status == 0);
  const nlohmann::json result = nlohmann::json::parse(json.out);
  CHECK(result["study"] == "noisy-keys");
  CHECK(result["holds"] == true);
  CHECK(result["tables"][0]["rows"].size() == 7);
}

TEST_CASE("study refuses what makes no sense in one line") {
  const Outcome orthogonal = seqgrad_program({"study", "selection", "--m", "10", "--d", "4"});
  CHECK(orthogonal.status == 2);
  CHECK(orthogonal.err == "seqgrad: m is 10 but d is 4: more than d keys cannot be orthogonal\n");
  const Outcome folder = seqgrad_program({"study", "selection", "--html", "/nonexistent/a.html"});
  CHECK(folder.status != 0);
  CHECK(folder.err.starts_with("seqgrad: "));
  CHECK(folder.out == "");
}

TEST_CASE("the bottleneck is trained, and says so") {
  const TemporaryFolder folder;
  const std::vector<std::string> small{
      "study",   "bottleneck", "--cells",  "gru", "--attentions", "none,sdp", "--longest", "4",
      "--steps", "30",         "--hidden", "8",   "--sentences",  "4",        "--html",    folder / "b.html"};
  const Outcome text = seqgrad_program(small);
  CHECK(text.status <= 1);  // so little training may refute nothing
  CHECK(text.err.find("gru   sdp       loss ") != std::string::npos);
  CHECK(text.out.starts_with("The bottleneck: a whole sentence in one state\n"));
  CHECK(text.out.find(
            "\ngru: sentences without a fault in per cent, and BLEU, by length\nsymbols  none  sdp  BLEU none  BLEU sdp\n") !=
        std::string::npos);
  CHECK(seqgrad::read_file(folder / "b.html").starts_with("<!DOCTYPE html>"));
  const Outcome refused = seqgrad_program({"study", "bottleneck", "--longest", "1"});
  CHECK(refused.status == 2);
  CHECK(refused.err == "seqgrad: longest is 1: it must be between 3 and 100\n");
}
