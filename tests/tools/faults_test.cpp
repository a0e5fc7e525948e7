// What may happen to a training while it runs and to its folder between runs: nothing is lost, and each fault has its line.
#include <doctest/doctest.h>
#include <grp.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "seq2seq/checkpoint.h"
#include "seq2seq/random.h"
#include "seq2seq/report.h"
#include "tests/tools/program.h"

using namespace seqgrad;

namespace {

// A training that goes on by itself, as the program of its own that it is.
class Training {
 public:
  explicit Training(const std::vector<std::string>& arguments, const std::function<void()>& in_child = {}) {
    out_ = ::open((streams_ / "out").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    err_ = ::open((streams_ / "err").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    child_ = start_seqgrad(arguments, in, out_, err_, in_child);
    ::close(in);
  }
  ~Training() {
    if (child_ > 0) end(SIGKILL);
    ::close(out_);
    ::close(err_);
  }

  pid_t pid() const { return child_; }
  std::string err() const { return read_file(streams_ / "err"); }

  // Until `condition` holds; false where the program ended before.
  bool wait_until(const std::function<bool()>& condition) {
    while (!condition()) {
      int status = 0;
      if (::waitpid(child_, &status, WNOHANG) == child_) {
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        child_ = -1;
        return condition();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  Outcome end(int signal = 0) {
    if (child_ > 0) {
      if (signal) ::kill(child_, signal);
      status_ = wait_for(child_);
      child_ = -1;
    }
    return {status_, read_file(streams_ / "out"), err()};
  }

 private:
  TemporaryFolder streams_;
  int out_ = -1, err_ = -1, status_ = -1;
  pid_t child_ = -1;
};

// All that is random in training, and a checkpoint often.
std::vector<std::string> arguments(const std::string& run, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"--epochs",
                               "4",
                               "--teacher-forcing",
                               "0.7",
                               "--word-dropout",
                               "0.1",
                               "--checkpoint-every",
                               "5",
                               "--schedule",
                               "inverse-sqrt",
                               "--warmup",
                               "10",
                               "--ema",
                               "0.9"};
  all.insert(all.end(), more.begin(), more.end());
  return small_corpus().train_arguments(run, all);
}

bool has_checkpoint(const std::string& run) { return std::filesystem::exists(run + "/checkpoint.safetensors"); }

i64 saved_step(const std::string& run) {
  return std::stoll(read_safetensors(run + "/checkpoint.safetensors").metadata.at("step"));
}

std::vector<std::string> weights_of(const std::string& run) {
  return {read_file(run + "/model.safetensors"), read_file(run + "/checkpoint.safetensors")};
}

std::string checkpoint_of(const std::string& run) { return run + "/checkpoint.safetensors"; }

// A copy of the small run with a file of other content.
std::string with_file(const TemporaryFolder& folder, const std::string& file, const std::string& content) {
  static int number = 0;
  const std::string copy = folder / fmt::format("copy{}", ++number);
  std::filesystem::copy(small_run(), copy);
  write_file(copy + "/" + file, content);
  return copy;
}

// What the program complains of: its last line.
std::string last_line(const std::string& text) {
  const std::size_t before = text.rfind('\n', text.size() - 2);
  return text.substr(before == text.npos ? 0 : before + 1);
}

Outcome resume(const std::string& run, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"train", "--resume", run};
  all.insert(all.end(), more.begin(), more.end());
  return seqgrad_program(all);
}

}  // namespace

TEST_CASE("killed ten times and resumed, a training of a hundred steps ends with the same bytes") {
  for (const char* cell : {"gru", "lstm"})
    for (const char* threads : {"1", "2"}) {
      CAPTURE(cell);
      CAPTURE(threads);
      const TemporaryFolder folder;
      const std::vector<std::string> more{"--cell", cell, "--threads", threads};
      REQUIRE(seqgrad_program(arguments(folder / "whole", more)).status == 0);
      for (const i64 kills : {1, 10}) {
        const std::string run = folder / fmt::format("killed{}", kills);
        i64 killed = 0;  // the others had ended by themselves before
        for (i64 k = 1; k <= kills; ++k) {
          Training training(k == 1 ? arguments(run, more) : std::vector<std::string>{"train", "--resume", run});
          const i64 step = 100 * k / (kills + 1);
          training.wait_until([&] { return has_checkpoint(run) && saved_step(run) >= step; });
          killed += training.end(SIGKILL).status == 128 + SIGKILL;
          CHECK(saved_step(run) >= step);
        }
        CHECK(killed >= (kills + 1) / 2);
        REQUIRE(resume(run).status == 0);
        CHECK(weights_of(run) == weights_of(folder / "whole"));
        CHECK(saved_step(run) == 100);
        CHECK(seq2seq::read_metrics(run + "/metrics.jsonl").size() == 4);
      }
    }
}

TEST_CASE("a signal ends training with a checkpoint, says how to go on, and costs nothing") {
  const TemporaryFolder folder;
  REQUIRE(seqgrad_program(arguments(folder / "whole")).status == 0);
  const std::string run = folder / "run";
  std::vector<std::string> command = arguments(run);
  i64 step = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    Training training(command);
    REQUIRE(training.wait_until([&] { return has_checkpoint(run) && saved_step(run) > step; }));
    const Outcome outcome = training.end(signal);
    CHECK(outcome.status == 128 + signal);
    CHECK(outcome.out == "");
    step = saved_step(run);
    CHECK(outcome.err.ends_with(
        fmt::format("seqgrad: stopped after step {}, which {} holds; to go on: seqgrad train --resume {}\n", step,
                    checkpoint_of(run), run)));
    command = {"train", "--resume", run};
  }
  REQUIRE(resume(run).status == 0);
  CHECK(weights_of(run) == weights_of(folder / "whole"));
  CHECK(read_file(run + "/lock").empty());
}

TEST_CASE("a signal that the caller ignores is ignored, and a second one ends at once") {
  const TemporaryFolder folder;
  Training ignoring(arguments(folder / "run"), [] { ::signal(SIGHUP, SIG_IGN); });
  REQUIRE(ignoring.wait_until([&] { return has_checkpoint(folder / "run"); }));
  CHECK(ignoring.end(SIGHUP).status == 0);
}

TEST_CASE("two trainings do not share a folder") {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  Training first(arguments(run, {"--epochs", "1000"}));
  REQUIRE(first.wait_until([&] { return has_checkpoint(run); }));
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  const std::string complaint = fmt::format(
      "seqgrad: {} is in use by process {} on {}: wait for its end, or choose another --out\n", run, first.pid(), host);
  const Outcome second = resume(run);
  CHECK(second.err == complaint);
  CHECK(second.status == 2);
  CHECK(seqgrad_program(arguments(run)).err ==
        fmt::format("seqgrad: {0} holds a run already: continue it with --resume {0}, or choose another --out\n", run));
  first.end(SIGKILL);
  CHECK(resume(run, {"--max-steps", fmt::format("{}", saved_step(run) + 3)}).status == 0);  // a dead one holds nothing
}

TEST_CASE("damaged, foreign and newer files are refused by name, and nothing is written") {
  const TemporaryFolder folder;
  const std::string checkpoint = read_file(checkpoint_of(small_run()));
  const std::string size = std::to_string(checkpoint.size());
  const auto refused = [&](const std::string& run, const std::string& complaint) {
    const auto before = contents(run);
    const Outcome outcome = resume(run, {"--epochs", "7"});
    CHECK(last_line(outcome.err) == "seqgrad: " + complaint + "\n");
    CHECK(outcome.status == 2);
    CHECK(outcome.out == "");
    auto after = contents(run);
    CHECK(after[run + "/lock"] == "");
    after.erase(run + "/lock");
    auto expected = before;
    expected.erase(run + "/lock");
    // The settings of the command line are the run's before the checkpoint is read.
    after.erase(run + "/config.toml");
    expected.erase(run + "/config.toml");
    CHECK(after == expected);
  };
  const auto with_checkpoint = [&](const std::string& content) { return with_file(folder, "checkpoint.safetensors", content); };

  std::string run = with_checkpoint("");
  refused(run, checkpoint_of(run) + ": not a safetensors file: 0 bytes, where the header's length alone takes 8");
  run = with_checkpoint(std::string(100, 'x'));
  refused(run,
          checkpoint_of(run) + ": not a safetensors file: a header of 8680820740569200760 bytes, where 100000000 are allowed");
  std::string flipped = checkpoint;
  flipped[checkpoint.size() - 1000] ^= 0x10;
  run = with_checkpoint(flipped);
  refused(run, checkpoint_of(run) + ": its checksum is off: the file is damaged");
  run = with_checkpoint(read_file(small_run() + "/model.safetensors"));
  refused(run, checkpoint_of(run) + ": these are a model's weights, not a checkpoint");

  SafetensorsFile file = read_safetensors(checkpoint_of(small_run()));
  file.metadata["format"] = "99";
  write_safetensors(folder / "newer", file.tensors, file.metadata, true);
  run = with_checkpoint(read_file(folder / "newer"));
  refused(run, checkpoint_of(run) + ": format 99 is not 3: it was written by another version of seqgrad");

  run = with_file(folder, "vocab.source", "");
  refused(run,
          run +
              "/vocab.source: ends after 0 lines, but must begin with <pad>, <unk>, <s>, </s>: take the vocabulary file that "
              "training wrote");
}

TEST_CASE("no flipped bit and no cut of a checkpoint goes unnoticed") {
  const TemporaryFolder folder;
  const std::string good = read_file(checkpoint_of(small_run()));
  const std::string run = with_file(folder, "checkpoint.safetensors", good);
  seq2seq::SplitMix64 generator(11);
  for (int i = 0; i < 20; ++i) {  // a thousand are flipped in tests/seq2seq/checkpoint_test.cpp
    std::string bad = good;
    const std::size_t place = generator.below(good.size());
    if (i % 2 == 0)
      bad[place] = static_cast<char>(bad[place] ^ (1 << generator.below(8)));
    else
      bad.resize(place);
    write_file(checkpoint_of(run), bad);
    const Outcome outcome = resume(run, {"--epochs", "7"});
    CAPTURE(place);
    CHECK(outcome.status == 2);
    CHECK(last_line(outcome.err).starts_with("seqgrad: " + checkpoint_of(run) + ": "));
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 2);  // the first says what the run is
  }
}

TEST_CASE("a folder that goes away in training ends it with a failure, and one that comes back loses nothing") {
  const TemporaryFolder folder;
  const std::string run = folder / "run", away = folder / "away";
  REQUIRE(seqgrad_program(arguments(folder / "whole", {"--epochs", "8"})).status == 0);
  {
    Training training(arguments(run, {"--epochs", "8"}));
    REQUIRE(training.wait_until([&] { return has_checkpoint(run); }));
    std::filesystem::rename(run, away);
    REQUIRE(training.wait_until([&] { return training.err().find("training goes on") != std::string::npos; }));
    std::filesystem::rename(away, run);
    const Outcome outcome = training.end();
    CHECK(outcome.status == 0);
    CHECK(outcome.err.find(": No such file or directory; the checkpoint of step ") != std::string::npos);
    CHECK(outcome.err.find(" stays, training goes on and tries again with the next\n") != std::string::npos);
    CHECK(weights_of(run) == weights_of(folder / "whole"));
  }
  Training training(arguments(folder / "gone"));
  REQUIRE(training.wait_until([&] { return has_checkpoint(folder / "gone"); }));
  std::filesystem::rename(folder / "gone", away);  // removing takes time, in which training would write
  std::filesystem::remove_all(away);
  const Outcome outcome = training.end();
  CHECK(outcome.status == 1);
  CHECK(outcome.err.find("seqgrad: cannot write " + folder / "gone/") != std::string::npos);
}

TEST_CASE("a folder that becomes read-only keeps its checkpoint") {
  const TemporaryFolder folder;
  const SmallCorpus& corpus = small_corpus();
  for (const auto& path : {folder.path, corpus.folder.path})
    std::filesystem::permissions(path, std::filesystem::perms::others_all, std::filesystem::perm_options::add);
  const std::string run = folder / "run";
  const auto as_nobody = [] {
    if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(127);
  };
  Training training(arguments(run, {"--epochs", "20"}), as_nobody);
  if (!training.wait_until([&] { return has_checkpoint(run); })) {
    MESSAGE("skipped: the program cannot be started as nobody: " << training.err());
    return;
  }
  std::filesystem::permissions(run, std::filesystem::perms::owner_write, std::filesystem::perm_options::remove);
  REQUIRE(training.wait_until([&] { return training.err().find("Permission denied") != std::string::npos; }));
  const i64 step = saved_step(run);
  const Outcome outcome = training.end(SIGTERM);
  CHECK(outcome.status == 1);
  CHECK(outcome.err.ends_with(fmt::format(": Permission denied; the checkpoint of step {} stays\n", step)));
  CHECK(saved_step(run) == step);
}

TEST_CASE("a learning rate that is far too high fails at its step, and the last good files stay") {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  const Outcome outcome =
      seqgrad_program(arguments(run, {"--learning-rate", "1e4", "--schedule", "constant", "--warmup", "0"}));
  CHECK(outcome.status == 1);
  CHECK(outcome.err.find("seqgrad: the ") != std::string::npos);
  CHECK(outcome.err.find(" at step ") != std::string::npos);
  CHECK(outcome.err.ends_with(": lower --learning-rate or --clip\n"));
  CHECK(outcome.out == "");
  CHECK(saved_step(run) % 5 == 0);
}

TEST_CASE("more memory than there is ends in one line that says what it was for and what to do") {
  const TemporaryFolder folder;
  const auto last = [](const Outcome& outcome) {
    CHECK(outcome.status == 2);
    return last_line(outcome.err);
  };
  // More than any machine has.
  const std::string line = last(seqgrad_program(arguments(folder / "large", {"--hidden", "1000000"})));
  CHECK(line.starts_with("seqgrad: out of memory: "));
  CHECK(line.find(" more bytes for the weights and gradients of the model, with ") != std::string::npos);
  CHECK(line.ends_with(" in use: lower --embedding, --hidden, --layers or --vocabulary-size\n"));
  // More than this process may have. AddressSanitizer needs its own share.
  const auto limited = [] {
    const rlimit small{std::size_t{400} << 20, std::size_t{400} << 20};
    ::setrlimit(RLIMIT_AS, &small);
  };
  const std::string step =
      last(seqgrad_program(arguments(folder / "batch", {"--batch", "400", "--hidden", "1500"}), "", limited));
  CHECK(step.find("seqgrad: out of memory: ") == 0);
  CHECK(step.find(": lower --") != std::string::npos);
}
