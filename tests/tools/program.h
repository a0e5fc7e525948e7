// Runs the program as its users do, and gives what it said.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "seq2seq/demo_corpus.h"
#include "seq2seq/text.h"
#include "tensor/file.h"
#include "tests/temporary_folder.h"

struct Outcome {
  int status = -1;  // exit status; 128 + the signal that ended it
  std::string out, err;
};

// Starts the program; `in_child` runs before it. Descriptors become its standard streams.
inline pid_t start_seqgrad(const std::vector<std::string>& arguments, int in, int out, int err,
                           const std::function<void()>& in_child = {}) {
  std::vector<char*> argv{const_cast<char*>("seqgrad")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(in, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    if (in_child) in_child();
    ::execv(SEQGRAD_PROGRAM, argv.data());
    ::_exit(127);
  }
  return child;
}

inline int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline Outcome seqgrad_program(const std::vector<std::string>& arguments, const std::string& input = "",
                               const std::function<void()>& in_child = {}) {
  const TemporaryFolder folder;
  const int in = ::open(folder.file("in", input).c_str(), O_RDONLY | O_CLOEXEC);
  const int out = ::open((folder / "out").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const int err = ::open((folder / "err").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  Outcome outcome;
  outcome.status = wait_for(start_seqgrad(arguments, in, out, err, in_child));
  for (const int descriptor : {in, out, err}) ::close(descriptor);
  outcome.out = seqgrad::read_file(folder / "out");
  outcome.err = seqgrad::read_file(folder / "err");
  return outcome;
}

// A small corpus in files, and the options that train a small model on it in a second.
struct SmallCorpus {
  TemporaryFolder folder;
  seqgrad::seq2seq::DemoCorpus corpus = seqgrad::seq2seq::make_demo_corpus(1, 400, 40, 40);

  SmallCorpus() {
    write("train", corpus.train);
    write("valid", corpus.valid);
    write("test", corpus.test);
  }

  std::string operator/(const std::string& name) const { return folder / name; }
  std::string source_lines() const { return seqgrad::read_file(folder / "test.de"); }

  std::vector<std::string> train_arguments(const std::string& out, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"train", "--out", out, "--threads", "1"};
    for (const char* option : {"train-source", "train-target", "valid-source", "valid-target"}) {
      const std::string name = option;
      all.push_back("--" + name);
      all.push_back(folder / (name.substr(0, 5) + (name.ends_with("source") ? ".de" : ".en")));
    }
    for (const char* option : {"--embedding", "--hidden", "--attention-dim"}) {
      all.push_back(option);
      all.push_back("16");
    }
    all.insert(all.end(), {"--dropout", "0.1", "--batch", "16", "--learning-rate", "0.01", "--tokenizer", "whitespace"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

 private:
  void write(const std::string& name, const std::vector<seqgrad::seq2seq::SentencePair>& pairs) const {
    std::string source, target;
    for (const auto& pair : pairs) {
      source += seqgrad::seq2seq::join(pair.source) + "\n";
      target += seqgrad::seq2seq::join(pair.target) + "\n";
    }
    folder.file(name + ".de", source);
    folder.file(name + ".en", target);
  }
};

inline const SmallCorpus& small_corpus() {
  static const SmallCorpus corpus;
  return corpus;
}

// A folder with a model of six epochs, trained once.
inline const std::string& small_run() {
  static const std::string run = [] {
    const std::string folder = small_corpus() / "run";
    const Outcome outcome = seqgrad_program(small_corpus().train_arguments(folder, {"--epochs", "6"}));
    if (outcome.status != 0) throw seqgrad::Error("training the tests' model failed: " + outcome.err);
    return folder;
  }();
  return run;
}

// Every file below the folder and its content.
inline std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    files[entry.path().string()] = entry.is_regular_file() ? seqgrad::read_file(entry.path().string()) : "(folder)";
  return files;
}
