// Means of models, and the training options that lead to them.
#include <doctest/doctest.h>

#include "seq2seq/checkpoint.h"
#include "seq2seq/report.h"
#include "tests/tools/program.h"

using namespace seqgrad;

namespace {

Outcome average(const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"average"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return seqgrad_program(arguments);
}

}  // namespace

TEST_CASE("a training with all that averages, and the mean of what it kept") {
  const TemporaryFolder folder;
  const std::string run = folder / "run", mean = folder / "mean";
  const Outcome trained = seqgrad_program(small_corpus().train_arguments(run, {"--epochs",
                                                                               "3",
                                                                               "--validate-every",
                                                                               "20",
                                                                               "--keep-best",
                                                                               "3",
                                                                               "--keep-last",
                                                                               "1",
                                                                               "--average",
                                                                               "2",
                                                                               "--ema",
                                                                               "0.9",
                                                                               "--accumulate",
                                                                               "2",
                                                                               "--batch-tokens",
                                                                               "200",
                                                                               "--validate-by",
                                                                               "bleu",
                                                                               "--schedule",
                                                                               "inverse-sqrt",
                                                                               "--warmup",
                                                                               "10",
                                                                               "--word-dropout",
                                                                               "0.1",
                                                                               "--weight-decay",
                                                                               "0.01"}));
  INFO(trained.err);
  REQUIRE(trained.status == 0);
  CHECK(trained.err.find("  step 20  train perplexity ") != std::string::npos);
  CHECK(trained.err.find("  BLEU ") != std::string::npos);
  CHECK(trained.out.find("the mean of 2 validations' weights") != std::string::npos);
  const auto validations = seq2seq::read_metrics(run + "/metrics.jsonl");
  REQUIRE(validations.size() >= 3);
  CHECK(validations[0].step == 20);
  CHECK(validations[0].validation_bleu >= 0);
  CHECK(read_file(run + "/report.html").find("validation BLEU") != std::string::npos);
  CHECK(read_file(run + "/report.html").find("learning rate") != std::string::npos);

  const Outcome made = average({run, "--best", "2", "--out", mean});
  CHECK(made.err == "");
  REQUIRE(made.status == 0);
  CHECK(made.out.starts_with(mean + ": the mean of 2 sets of weights:\n  " + run + "/kept/step-"));
  CHECK(seqgrad_program({"translate", "--model", mean}, "der hund schläft .\n").status == 0);
  CHECK(average({run, "--last", "1", "--out", folder / "last"}).out ==
        fmt::format("{}: the mean of 1 sets of weights:\n  {}\n", folder / "last",
                    seq2seq::kept_path(run, validations.back().step)));
  CHECK(average({run, mean, "--out", folder / "both"}).status == 0);

  const auto complaint = [&](const std::vector<std::string>& arguments) {
    const Outcome outcome = average(arguments);
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    return outcome.err;
  };
  CHECK(complaint({run, "--out", mean}) == "seqgrad: " + mean + " holds a run already: choose another --out\n");
  CHECK(complaint({small_run(), "--best", "2", "--out", folder / "x"}) ==
        "seqgrad: " + small_run() + " has kept the weights of 0 validations, not of 2: train with --keep-best 2\n");
  CHECK(complaint({run, "--best", "-2", "--out", folder / "x"}) == "seqgrad: best is -2: it must be at least 1\n");
  CHECK_FALSE(std::filesystem::exists(folder / "x"));
}
