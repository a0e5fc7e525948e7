// What the program says of bad input: one line each, exit status 2 (1 where the work failed), nothing left half-written.
#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>

#include "kernels/cuda.h"
#include "kernels/kernels.h"
#include "seq2seq/bleu.h"
#include "tests/tools/program.h"

using namespace seqgrad;

namespace {

struct Bad {
  const char* what;
  std::vector<std::string> arguments;
  std::string complaint;
  int status = 2;
  std::string input = {};
};

void check(const Bad& bad, const std::string& folder) {
  CAPTURE(bad.what);
  const auto before = contents(folder);
  const Outcome outcome = seqgrad_program(bad.arguments, bad.input);
  CHECK(outcome.err == "seqgrad: " + bad.complaint + "\n");
  CHECK(outcome.status == bad.status);
  CHECK(outcome.out == "");
  CHECK(contents(folder) == before);
}

std::vector<std::string> with(std::vector<std::string> arguments, const std::string& option, const std::string& value) {
  const auto at = std::find(arguments.begin(), arguments.end(), option);
  if (at == arguments.end()) return arguments;
  *(at + 1) = value;
  return arguments;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

// A copy of the small run with one file changed.
std::string damaged(const TemporaryFolder& folder, const std::string& name, const std::string& file,
                    const std::function<std::string(std::string)>& change) {
  std::filesystem::copy(small_run(), folder / name);
  const std::string path = folder / (name + "/" + file);
  write_file(path, change(read_file(path)));
  return folder / name;
}

}  // namespace

TEST_CASE("bad command lines") {
  const TemporaryFolder folder;
  const std::string run = small_run();
  for (const Bad& bad : std::vector<Bad>{
           {"no command", {}, "a command is missing: 'seqgrad --help' lists what there is"},
           {"unknown command", {"trian"}, "unknown command 'trian': 'seqgrad --help' lists what there is"},
           {"half a command", {"check"}, "a command is missing: 'seqgrad check --help' lists what there is"},
           {"unknown option",
            {"train", "--hiden", "3"},
            "unknown option '--hiden': 'seqgrad train --help' lists what there is"},
           {"missing value", {"train", "--epochs"}, "--epochs needs a value"},
           {"no number", {"train", "--epochs", "ten"}, "--epochs is 'ten': it must be a whole number"},
           {"no whole number", {"train", "--epochs", "2.5"}, "--epochs is '2.5': it must be a whole number"},
           {"a folder without a name", {"train", "--out", ""}, "--out is '': it must be a name"},
           {"a file without a name",
            {"translate", "--model", run, "--alignments", ""},
            "--alignments is '': it must be a name"},
           {"a precision that no search has",
            {"translate", "--model", run, "--precision", "tf32"},
            "precision is 'tf32': it must be f32 or bf16"},
           {"missing option", {"translate"}, "--model is required"},
           {"one argument too many",
            {"translate", "--model", run, "c"},
            "unknown argument 'c': 'seqgrad translate --help' lists what there is"},
           {"options against each other", {"train", "--resume", "a", "--out", "b"}, "--out excludes --resume"},
           {"no text", {"train"}, "--train-source is missing: give the training and validation text, or --preset with --data"},
           {"preset without data",
            {"train", "--preset", "multi30k"},
            "preset multi30k needs --data FOLDER, the data that tools/fetch_multi30k.sh fetches"},
           {"unknown preset",
            {"train", "--preset", "wmt", "--data", "x"},
            "there is no preset 'wmt': the presets are multi30k|multi30k-raw|multi30k-best|multi30k-fast"},
           {"data without preset",
            {"train", "--data", "x"},
            "--data is the folder of a preset's text: add --preset multi30k, or name the text with --train-source and so on"},
           {"a name outside its list", small_corpus().train_arguments(folder / "out", {"--attention", "dot"}),
            "attention is 'dot': it must be one of none|mean|sdp|bahdanau|luong_dot|luong_general"},
           {"a number outside its domain", with(small_corpus().train_arguments(folder / "out"), "--dropout", "1"),
            "dropout is 1: it must be at least 0 and below 1"},
           {"no device of that name", {"train", "--device", "tpu"}, "device is 'tpu': it must be one of cpu|cuda"},
           {"no threads", {"translate", "--model", run, "--threads", "-1"}, "threads is -1: it must be from 0 to 4096"},
           {"no batch", {"translate", "--model", run, "--batch", "0"}, "batch is 0: it must be at least 1"},
           {"two kinds of alignments instead of the text",
            {"translate", "--model", run, "--alignments", "soft", "--alignments", "pharaoh"},
            "--alignments soft and pharaoh exclude each other: give one a FILE"},
           {"alignments in no folder",
            {"translate", "--model", run, "--alignments", "no/folder/a.html"},
            "cannot write no/folder/a.html: No such file or directory",
            1},
           {"a length of sources",
            {"translate", "--model", run, "--max-source-length", "-1"},
            "max-source-length is -1: it must be at least 0"},
           {"BLEU of another tokenizer",
            {"evaluate", "--model", run, "--source", "a", "--reference", "b", "--tokenize", "zh"},
            message_of([] { seq2seq::bleu_tokenizer("zh"); })},
           {"no case of that name",
            {"check", "gradients", "--filter", "no such*", "--list"},
            "--filter 'no such*' matches none of the"},
       }) {
    if (bad.complaint.ends_with("none of the")) {  // the number of cases grows
      const Outcome outcome = seqgrad_program(bad.arguments);
      CHECK(outcome.err.starts_with("seqgrad: " + bad.complaint));
      CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
      CHECK(outcome.status == 2);
    } else {
      check(bad, folder.path.string());
    }
  }
}

TEST_CASE("a device that is not there") {
  if (kernels::cuda_available()) return;
  const TemporaryFolder folder;
  const std::string why = "no CUDA device can be used: " + kernels::cuda::why_unavailable() + "; use --device cpu";
  const std::string run = small_run();
  for (const std::vector<std::string>& command : {std::vector<std::string>{"train"},
                                                  {"translate", "--model", run},
                                                  {"evaluate", "--model", run, "--source", "a", "--reference", "b"},
                                                  {"check", "gradients"},
                                                  {"check", "parity", "a"},
                                                  {"bench", "train"},
                                                  {"bench", "decode"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--device", "cuda"});
    check({command[0].c_str(), arguments, why}, folder.path.string());
  }
}

TEST_CASE("bad text to train on") {
  const TemporaryFolder folder;
  const SmallCorpus& corpus = small_corpus();
  const std::string out = folder / "out";
  const std::string short_text = folder.file("short.en", "a man sleeps .\n");
  const std::string bad_text = folder.file("bad.de", "ein mann .\nein \xff mann .\n");
  const std::string empty = folder.file("empty.de", ""), other_empty = folder.file("empty.en", "");
  const std::string blank = folder.file("blank.de", "\n \n"), text = folder.file("two.en", "a\nb\n");
  const std::string cut = folder.file("cut.de.gz", std::string_view("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\x4b", 11));
  const auto both = [&](const std::string& source, const std::string& target) {
    return with(with(corpus.train_arguments(out), "--train-source", source), "--train-target", target);
  };
  for (const Bad& bad : std::vector<Bad>{
           {"a missing file", both(folder / "none.de", text),
            "cannot read " + folder / "none.de" + ": No such file or directory"},
           {"a folder for a file", both(folder.path.string(), text),
            "cannot read " + folder.path.string() + ": Is a directory"},
           {"source and target of different length", both(corpus / "train.de", short_text),
            corpus / "train.de" + " has 400 lines but " + short_text +
                " has 1: a source and its target must match line by line"},
           {"invalid UTF-8", both(bad_text, text), bad_text + ":2: invalid UTF-8 at byte 5"},
           {"an empty corpus", both(empty, other_empty),
            empty + " and " + other_empty + " hold no usable sentence pair (0 empty, 0 longer than 200 tokens)"},
           {"blank lines alone", both(blank, text),
            blank + " and " + text + " hold no usable sentence pair (2 empty, 0 longer than 200 tokens)"},
           {"half a gzip file", both(cut, text), cut + ": the gzip data ends too early: the file is incomplete"},
           {"a missing validation file", with(corpus.train_arguments(out), "--valid-target", folder / "none.en"),
            "cannot read " + folder / "none.en" + ": No such file or directory"},
       })
    check(bad, folder.path.string());
}

TEST_CASE("bad config files") {
  const TemporaryFolder folder;
  const auto config = [&](const char* name, const std::string& text) { return folder.file(name, text); };
  const auto arguments = [](const std::string& file) { return std::vector<std::string>{"train", "--config", file}; };
  const std::string key = config("key.toml", "hidden = 8\nhiden = 8\n");
  const std::string type = config("type.toml", "# sizes\nhidden = \"8\"\n");
  const std::string value = config("value.toml", "hidden = 8\ndropout = 1.5\n");
  const std::string name = config("name.toml", "\n\nattention = \"dot\"\n");
  const std::string flag = config("flag.toml", "bidirectional = 1\n");
  const std::string fraction = config("fraction.toml", "hidden = 8.5\n");
  check({"no file", arguments(folder / "none.toml"), "cannot read " + folder / "none.toml" + ": No such file or directory"},
        folder.path.string());
  check({"a wrong key", arguments(key), key + ":2: unknown setting 'hiden'"}, folder.path.string());
  check({"a wrong type", arguments(type), type + ":2: hidden needs a whole number"}, folder.path.string());
  check({"a wrong value", arguments(value), value + ":2: dropout is 1.5: it must be at least 0 and below 1"},
        folder.path.string());
  check({"a wrong name", arguments(name),
         name + ":3: attention is 'dot': it must be one of none|mean|sdp|bahdanau|luong_dot|luong_general"},
        folder.path.string());
  check({"a number for a flag", arguments(flag), flag + ":1: bidirectional needs true or false"}, folder.path.string());
  check({"a fraction", arguments(fraction), fraction + ":1: hidden needs a whole number"}, folder.path.string());
  const Outcome syntax = seqgrad_program(arguments(config("syntax.toml", "hidden = 8\nembedding 8\n")));
  CHECK(syntax.err.starts_with("seqgrad: " + folder / "syntax.toml" + ":2: "));
  CHECK(std::count(syntax.err.begin(), syntax.err.end(), '\n') == 1);
  CHECK(syntax.status == 2);
}

TEST_CASE("bad runs to translate with") {
  const TemporaryFolder folder;
  const std::string cut =
      damaged(folder, "cut", "model.safetensors", [](std::string text) { return text.substr(0, text.size() / 2); });
  const std::string stump = damaged(folder, "stump", "model.safetensors", [](std::string text) { return text.substr(0, 5); });
  const std::string shape = damaged(folder, "shape", "config.toml",
                                    [](std::string text) { return replaced(text, "embedding = 16", "embedding = 17"); });
  const std::string none =
      damaged(folder, "none", "config.toml", [](std::string text) { return replaced(text, "\"sdp\"", "\"none\""); });
  const std::string key =
      damaged(folder, "key", "config.toml", [](std::string text) { return replaced(text, "embedding = ", "embeding = "); });
  const std::string special =
      damaged(folder, "special", "vocab.source", [](std::string text) { return replaced(text, "<pad>", "<bad>"); });
  const std::string twice = damaged(folder, "twice", "vocab.target", [](std::string text) { return text + "the\n"; });
  const std::string no_model = damaged(folder, "no_model", "config.toml", [](std::string text) { return text; });
  std::filesystem::remove(no_model + "/model.safetensors");
  const std::string vocabulary = std::to_string(seq2seq::read_lines(small_run() + "/vocab.source").size());

  const auto arguments = [](const std::string& run) { return std::vector<std::string>{"translate", "--model", run}; };
  const std::string size = std::to_string(std::filesystem::file_size(cut + "/model.safetensors"));
  check({"no folder", arguments(folder / "nothing"), folder / "nothing" + " is not a folder that 'seqgrad train' made"},
        folder.path.string());
  check({"another folder", arguments(folder.path.string()),
         "cannot read " + folder / "config.toml" + ": No such file or directory"},
        folder.path.string());
  check({"no weights", arguments(no_model), "cannot read " + no_model + "/model.safetensors: No such file or directory"},
        folder.path.string());
  check({"weights of another shape", arguments(shape),
         shape + "/model.safetensors: encoder.embedding.weight has shape (" + vocabulary + ", 16), the model needs (" +
             vocabulary + ", 17)"},
        folder.path.string());
  check({"a config with a wrong key", arguments(key), key + "/config.toml:8: unknown setting 'embeding'"},
        folder.path.string());
  for (const auto& [run, file, line] : {std::tuple{cut, "/model.safetensors", ""}, std::tuple{stump, "/model.safetensors", ""},
                                        std::tuple{none, "/model.safetensors", ""}, std::tuple{special, "/vocab.source", ":1"},
                                        std::tuple{twice, "/vocab.target", ""}}) {
    const Outcome outcome = seqgrad_program(arguments(run));
    CAPTURE(outcome.err);
    CHECK(outcome.err.starts_with("seqgrad: " + run + file + line + ":"));
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK(outcome.status == 2);
  }
}

TEST_CASE("bad text to translate and to evaluate") {
  const TemporaryFolder folder;
  const std::string run = small_run();
  const Outcome outcome = seqgrad_program({"translate", "--model", run}, "der hund\nder \xc3hund\nder hund\n");
  CHECK(outcome.status == 2);
  CHECK(outcome.err == "seqgrad: <stdin>:2: invalid UTF-8 at byte 5\n");
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 1);  // the line before it

  const std::string one = folder.file("one", "a\n"), two = folder.file("two", "a\nb\n"), nothing = folder.file("nothing", "");
  const auto arguments = [&](const std::string& source, const std::string& reference) {
    return std::vector<std::string>{"evaluate", "--model", run, "--source", source, "--reference", reference};
  };
  check({"lengths differ", arguments(two, one),
         two + " has 2 lines but " + one + " has 1: a source and its reference must match line by line"},
        folder.path.string());
  check({"empty files", arguments(nothing, nothing), nothing + " and " + nothing + " are empty"}, folder.path.string());
  check({"BLEU of different lengths",
         {"bleu", two, one},
         two + " has 2 lines but " + one + " has 1: references and translations must match line by line"},
        folder.path.string());
  check({"BLEU of nothing", {"bleu", nothing, nothing}, nothing + " and " + nothing + " are empty"}, folder.path.string());
}

TEST_CASE("folders that cannot take a run") {
  const TemporaryFolder folder;
  const SmallCorpus& corpus = small_corpus();
  const std::string file = folder.file("file", "text");
  check({"a file", corpus.train_arguments(file), "cannot write to the folder " + file + ": Not a directory"},
        folder.path.string());
  check({"below a file", corpus.train_arguments(file + "/run"), "cannot write to the folder " + file + "/run: Not a directory"},
        folder.path.string());
  check({"a folder that holds a run", corpus.train_arguments(small_run()),
         small_run() + " holds a run already: continue it with --resume " + small_run() + ", or choose another --out"},
        corpus.folder.path.string());
  check({"the demo over a run",
         {"demo", "--out", small_run()},
         small_run() + " holds a run that the demo did not make: choose another --out"},
        corpus.folder.path.string());
  check({"resume nothing",
         {"train", "--resume", folder / "none"},
         "--resume " + folder / "none" + ": there is no run, for " + folder / "none/config.toml" + " does not exist"},
        folder.path.string());
  check({"resume with another size",
         {"train", "--resume", small_run(), "--hidden", "17"},
         "--hidden is 17, but " + small_run() + "/config.toml says 16: a resumed run keeps its settings"},
        corpus.folder.path.string());

  // Root may write anywhere, so this runs as nobody.
  std::filesystem::create_directory(folder / "read-only");
  std::filesystem::permissions(folder / "read-only", std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec |
                                                         std::filesystem::perms::others_read |
                                                         std::filesystem::perms::others_exec);
  for (const auto& path : {folder.path, corpus.folder.path})
    std::filesystem::permissions(path, std::filesystem::perms::others_read | std::filesystem::perms::others_exec,
                                 std::filesystem::perm_options::add);
  const auto as_nobody = [] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(127);
  };
  const Outcome outcome = seqgrad_program(corpus.train_arguments(folder / "read-only/run"), "", as_nobody);
  if (outcome.status == 127) {
    MESSAGE("skipped: the program cannot be started as nobody");
  } else {
    CHECK(outcome.err == "seqgrad: cannot write to the folder " + folder / "read-only/run" + ": Permission denied\n");
    CHECK(outcome.status == 2);
  }
}

TEST_CASE("a full disk fails the work and leaves the old files") {
  const TemporaryFolder folder;
  if (::mount("tmpfs", folder.path.c_str(), "tmpfs", 0, "size=4m") != 0) {
    MESSAGE("skipped: mounting is not permitted");
    return;
  }
  const std::string run = folder / "run";
  REQUIRE(seqgrad_program(small_corpus().train_arguments(run, {"--epochs", "1"})).status == 0);
  write_file(run + "/config.toml", replaced(read_file(run + "/config.toml"), "epochs = 1", "epochs = 2"));
  {
    std::ofstream filler(folder / "filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (filler.write(block.data(), 4096).flush()) {
    }
  }
  const auto before = contents(run);
  const Outcome outcome = seqgrad_program({"train", "--resume", run});
  CHECK(outcome.status == 1);
  const std::string complaint =
      "cannot write " + run + "/model.safetensors: No space left on device; the checkpoint of step 25 stays";
  CHECK(outcome.err.find(complaint + ", training goes on and tries again with the next\n") != std::string::npos);
  CHECK(outcome.err.ends_with("\nseqgrad: " + complaint + "\n"));
  CHECK(contents(run) == before);
  ::umount(folder.path.c_str());
}

TEST_CASE("a limit on file sizes fails the work and leaves the old files") {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  REQUIRE(seqgrad_program(small_corpus().train_arguments(run, {"--epochs", "1"})).status == 0);
  auto before = contents(run);
  const auto limited = [] {
    const rlimit limit{20000, 20000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    std::signal(SIGXFSZ, SIG_IGN);
  };
  const Outcome outcome = seqgrad_program({"train", "--resume", run, "--epochs", "2"}, "", limited);
  CHECK(outcome.status == 1);
  CHECK(outcome.err.ends_with("seqgrad: cannot write " + run +
                              "/model.safetensors: File too large; the checkpoint of step 25 stays\n"));
  before.erase(run + "/config.toml");  // says two epochs now
  auto after = contents(run);
  after.erase(run + "/config.toml");
  CHECK(after == before);
}

TEST_CASE("results that cannot be written") {
  const auto into = [](const char* path, const std::vector<std::string>& arguments, const std::string& input = "") {
    return seqgrad_program(arguments, input, [path] {
      ::close(STDOUT_FILENO);
      if (*path) ::open(path, O_WRONLY);
    });
  };
  const std::vector<std::string> translate{"translate", "--model", small_run()};
  for (const auto& arguments : {std::vector<std::string>{"--version"}, {"train", "--help"}, {"check", "gradients", "--list"}}) {
    const Outcome full = into("/dev/full", arguments);
    CHECK(full.err == "seqgrad: cannot write to the standard output: No space left on device\n");
    CHECK(full.status == 1);
  }
  CHECK(into("/dev/full", translate, "der hund\n").status == 1);
  const Outcome closed = into("", translate, "der hund\n");
  CHECK(closed.err == "seqgrad: cannot write to the standard output: Bad file descriptor\n");
  CHECK(closed.status == 1);
}
