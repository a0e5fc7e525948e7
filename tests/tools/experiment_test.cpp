// seqgrad experiment, as its users run it.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "seq2seq/report.h"
#include "tests/tools/program.h"

using namespace seqgrad;

namespace {

std::vector<std::string> arguments(const std::string& out, const std::vector<std::string>& more = {},
                                   const std::string& variants = "none,sdp") {
  std::vector<std::string> all = small_corpus().train_arguments(out, {"--epochs", "2", "--variants", variants, "--seeds", "2"});
  all[0] = "experiment";
  all.insert(all.end(),
             {"--test-source", small_corpus() / "test.de", "--test-reference", small_corpus() / "test.en", "--trials", "50"});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace

TEST_CASE("an experiment trains what is not there, and says what it found") {
  const TemporaryFolder folder;
  const std::string out = folder / "e";
  const Outcome first = seqgrad_program(arguments(out));
  INFO(first.err);
  REQUIRE(first.status == 0);
  CHECK(first.err.starts_with("run 1 of 4: attention none, seed 1, in " + out + "/none-seed1\n"));
  CHECK(first.err.find("\nrun 4 of 4: attention sdp, seed 2, in ") != std::string::npos);
  CHECK(first.out.starts_with("Experiment in " + out + ": trained on "));
  CHECK(first.out.find("\nResults\nattention  parameters  validation perplexity ") != std::string::npos);
  CHECK(first.out.find("\nsdp - none  ") != std::string::npos);
  CHECK(first.out.ends_with("\nReport: " + out + "/report.html\nWhere they looked: " + out + "/alignments.html\n"));
  CHECK(first.out.starts_with(read_file(out + "/results.txt")));
  CHECK(read_file(out + "/report.html").starts_with("<!DOCTYPE html>"));
  const std::string alignments = read_file(out + "/alignments.html");
  CHECK(alignments.find("A diagnostic, not a proof of grammar.") != std::string::npos);
  CHECK(alignments.find("No attention: the decoder knows the source by one state alone.") != std::string::npos);
  CHECK(alignments.find("<table class=\"map\">") != std::string::npos);
  CHECK(seqgrad_program({"translate", "--model", out + "/sdp-seed2"}, "der hund schläft .\n").status == 0);

  const Outcome again = seqgrad_program(arguments(out));
  CHECK(again.err == "");  // nothing is left to do
  CHECK(again.out == first.out);
  const Outcome json = seqgrad_program(arguments(out, {"--json"}));
  CHECK(json.out == read_file(out + "/results.json"));
  CHECK(nlohmann::json::parse(json.out)["seeds"] == std::vector<int>{1, 2});

  // Each run is one that `train` would have made.
  const Outcome train = seqgrad_program({"train", "--config", out + "/sdp-seed2/config.toml", "--out", folder / "t"});
  REQUIRE(train.status == 0);
  CHECK(read_file(folder / "t/model.safetensors") == read_file(out + "/sdp-seed2/model.safetensors"));

  SUBCASE("a third seed and a new variant leave what is done") {
    const Outcome more = seqgrad_program(arguments(out, {"--seeds", "3"}, "none,sdp,mean"));
    REQUIRE(more.status == 0);
    CHECK(more.err.starts_with("run 3 of 9: attention mean, seed 1, in "));
    CHECK(more.err.find("run 4 of 9") == std::string::npos);
    CHECK(more.out.find("\nmean - sdp  ") != std::string::npos);
  }
  SUBCASE("alignments of the sentences that are asked for") {
    REQUIRE(seqgrad_program(arguments(out, {"--sentences", "2,40"})).status == 0);
    const std::string page = read_file(out + "/alignments.html");
    CHECK(page.find("<h2>Sentence 2</h2>") < page.find("<h2>Sentence 40</h2>"));
    CHECK(page.find("<h2>Sentence 40</h2>") != std::string::npos);
    CHECK(page.find(seq2seq::escape_html(seq2seq::join(small_corpus().corpus.test[39].source))) != std::string::npos);
  }
  SUBCASE("other options are refused before anything is trained") {
    const auto before = contents(out);
    const Outcome other = seqgrad_program(arguments(out, {"--hidden", "20", "--seeds", "3"}));
    CHECK(other.status == 2);
    CHECK(other.err == "seqgrad: " + out +
                           "/none-seed1 was trained with 'hidden = 16', not 'hidden = 20': give the same "
                           "options, or choose another --out\n");
    CHECK(contents(out) == before);
  }
}

TEST_CASE("two processes share an experiment") {
  const TemporaryFolder folder;
  const std::string out = folder / "e";
  const std::vector<std::string> command = arguments(out, {"--epochs", "6"});
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int err[2] = {::open((folder / "a").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600),
                      ::open((folder / "b").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  const pid_t a = start_seqgrad(command, null, null, err[0]), b = start_seqgrad(command, null, null, err[1]);
  const int status_a = wait_for(a), status_b = wait_for(b);
  for (const int descriptor : {null, err[0], err[1]}) ::close(descriptor);
  CHECK(status_a == 0);
  CHECK(status_b == 0);
  const std::string both = read_file(folder / "a") + read_file(folder / "b");
  for (const char* number : {"run 1 of 4", "run 2 of 4", "run 3 of 4", "run 4 of 4"}) {
    CAPTURE(number);
    const std::size_t at = both.find(number);
    REQUIRE(at != std::string::npos);
    CHECK(both.find(number, at + 1) == std::string::npos);  // by one of the two
  }
  CHECK(nlohmann::json::parse(read_file(out + "/results.json"))["seeds"] == std::vector<int>{1, 2});
}

TEST_CASE("what an experiment needs, in one line") {
  const TemporaryFolder folder;
  const auto complaint = [](const std::vector<std::string>& command) {
    const Outcome outcome = seqgrad_program(command);
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    return outcome.err;
  };
  CHECK(complaint({"experiment"}) == "seqgrad: --test-source is missing: give the test text, or --preset with --data\n");
  CHECK(complaint({"experiment", "--preset", "multi30k"}) ==
        "seqgrad: preset multi30k needs --data FOLDER, the data that tools/fetch_multi30k.sh fetches\n");
  CHECK(complaint({"experiment", "--preset", "multi30k", "--data", folder / "x"}) ==
        "seqgrad: cannot read " + (folder / "x/test_2016_flickr.lc.norm.tok.de") + ": No such file or directory\n");
  CHECK(complaint({"experiment", "--attention", "sdp"}) ==
        "seqgrad: unknown option '--attention': 'seqgrad experiment --help' lists what there is\n");
  CHECK(complaint(arguments(folder / "e", {}, "none,dot")) ==
        "seqgrad: attention is 'dot': it must be one of none|mean|sdp|bahdanau|luong_dot|luong_general\n");
  CHECK(complaint(arguments(folder / "e", {"--sentences", "1,41"})) ==
        "seqgrad: sentences names line 41, but " + (small_corpus() / "test.de") + " has lines 1 to 40\n");
  CHECK(complaint(arguments(folder / "e", {"--seeds", "0"})) == "seqgrad: seeds is 0: it must be at least 1\n");
  CHECK(complaint(arguments(folder / "e", {"--test-reference", small_corpus() / "train.en"})) ==
        "seqgrad: " + (small_corpus() / "test.de") + " has 40 lines but " + (small_corpus() / "train.en") +
            " has 400: a source and its reference must match line by line\n");
  CHECK(complaint(arguments(folder / "e", {"--precision", "tf32"})) ==
        "seqgrad: precision is 'tf32', which only a CUDA device has: add --device cuda, or choose bf16 or f32\n");
  CHECK_FALSE(std::filesystem::exists(folder / "e"));
  CHECK(complaint(arguments(small_run())) == "seqgrad: " + small_run() + " holds a run: choose another --out\n");
}
