#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "seq2seq/search.h"
#include "tests/tools/program.h"

using namespace seqgrad;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    REQUIRE(end != text.npos);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string translated(const std::string& input, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"translate", "--model", small_run(), "--threads", "1"});
  const Outcome outcome = seqgrad_program(more, input);
  REQUIRE(outcome.status == 0);
  return outcome.out;
}

// Waits at most a minute for a whole line.
std::string read_line(int descriptor) {
  std::string line;
  for (;;) {
    pollfd ready{descriptor, POLLIN, 0};
    if (::poll(&ready, 1, 60000) != 1) return line + " (and then nothing more)";
    char c = 0;
    if (::read(descriptor, &c, 1) != 1) return line + " (and then the end)";
    if (c == '\n') return line;
    line += c;
  }
}

}  // namespace

TEST_CASE("a line out for each line in, the empty one included") {
  CHECK(translated("") == "");
  CHECK(translated("\n") == "\n");
  CHECK(translated("\n\n  \n\r\n") == "\n\n\n\n");
  const std::string sentence = "der hund schläft im park .";
  const std::string one = translated(sentence + "\n");
  CHECK(std::count(one.begin(), one.end(), '\n') == 1);
  CHECK(one.size() > 1);
  CHECK(translated(sentence) == one);  // without the last '\n'
  CHECK(translated("\n" + sentence + "\r\n\n" + sentence + "\n") == "\n" + one + "\n" + one);
  // Characters that separate lines elsewhere, and words that are spelt like the model's own.
  CHECK(lines_of(translated("a\xe2\x80\xa8z\n<s> </s> <pad> <unk>\nz\xc2\x85z\n")).size() == 3);
}

TEST_CASE("the text does not depend on the batch") {
  const std::string input = small_corpus().source_lines() + "\n" + small_corpus().source_lines();
  for (const char* precision : {"f32", "bf16"}) {
    const auto with = [&](const char* option, const char* value) {
      return translated(input, {option, value, "--precision", precision});
    };
    const std::string by_one = with("--batch", "1");
    CHECK(lines_of(by_one).size() == 81);
    CHECK(with("--batch", "7") == by_one);
    CHECK(with("--batch", "64") == by_one);
    CHECK(with("--threads", "2") == by_one);
  }
}

TEST_CASE("a line comes out before the next is in") {
  int in[2], out[2];
  REQUIRE(::pipe2(in, O_CLOEXEC) == 0);
  REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
  const pid_t child = start_seqgrad({"translate", "--model", small_run(), "--threads", "1"}, in[0], out[1], STDERR_FILENO);
  ::close(in[0]);
  ::close(out[1]);
  const auto send = [&](std::string_view text) { REQUIRE(::write(in[1], text.data(), text.size()) == ssize_t(text.size())); };
  const std::string dog = "der hund schläft .", cat = "die katze schläft .";
  const std::string expected_dog = translated(dog + "\n"), expected_cat = translated(cat + "\n");
  send(dog + "\n");
  CHECK(read_line(out[0]) + "\n" == expected_dog);
  send("\n" + dog + "\n" + cat.substr(0, 7));  // half a line keeps nothing back
  CHECK(read_line(out[0]) == "");
  CHECK(read_line(out[0]) + "\n" == expected_dog);
  send(cat.substr(7) + "\n");
  CHECK(read_line(out[0]) + "\n" == expected_cat);
  ::close(in[1]);
  CHECK(wait_for(child) == 0);
  ::close(out[0]);
}

TEST_CASE("a hundred thousand lines take no more memory than the first of them") {
  int in[2], out[2];
  REQUIRE(::pipe2(in, O_CLOEXEC) == 0);
  REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
  const pid_t child = start_seqgrad(
      {"translate", "--model", small_run(), "--threads", "1", "--beam", "2", "--max-length", "6", "--batch", "32"}, in[0],
      out[1], STDERR_FILENO, [] { ::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO); });
  ::close(in[0]);
  ::close(out[1]);
  const auto resident_kilobytes = [&] {
    const std::string status = read_file(fmt::format("/proc/{}/status", child));
    const std::size_t at = status.find("VmRSS:");
    REQUIRE(at != status.npos);
    return std::stol(status.substr(at + 6));
  };
  // A part of the lines at a time, which the pipes can hold; no line twice.
  const char* const nouns[] = {"hund", "mann", "park", "frau"};
  int line = 0;
  const auto translate_lines = [&](int end) {
    while (line < end) {
      std::string text;
      int count = 0;
      for (; count < 1000; ++count, ++line)
        text += line % 10 == 9 ? "\n" : fmt::format("der {} w{} .\n", nouns[line % 4], line);
      REQUIRE(::write(in[1], text.data(), text.size()) == ssize_t(text.size()));
      char buffer[1 << 16];
      while (count > 0) {
        const ssize_t size = ::read(out[0], buffer, sizeof buffer);
        REQUIRE(size > 0);
        count -= static_cast<int>(std::count(buffer, buffer + size, '\n'));
      }
      REQUIRE(count == 0);
    }
  };
  translate_lines(10000);
  const long early = resident_kilobytes();
  translate_lines(100000);
  const long late = resident_kilobytes();
  CAPTURE(early);
  CHECK(late <= early + 1024);
  ::close(in[1]);
  CHECK(wait_for(child) == 0);
  ::close(out[0]);
}

TEST_CASE("a reader that leaves ends the program quietly") {
  int out[2];
  REQUIRE(::pipe2(out, O_CLOEXEC) == 0);
  const TemporaryFolder folder;
  std::string input;
  for (int i = 0; i < 50; ++i) input += small_corpus().source_lines();
  const int in = ::open(folder.file("in", input).c_str(), O_RDONLY | O_CLOEXEC);
  const int err = ::open((folder / "err").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  const pid_t child = start_seqgrad({"translate", "--model", small_run(), "--threads", "1", "--batch", "1"}, in, out[1], err);
  ::close(out[1]);
  CHECK(read_line(out[0]) != "");
  ::close(out[0]);
  CHECK(wait_for(child) == 0);
  CHECK(read_file(folder / "err") == "");
  ::close(in);
  ::close(err);
}

TEST_CASE("alignments as JSON") {
  const std::string input = small_corpus().source_lines() + "\n";
  const std::vector<std::string> sources = lines_of(input), texts = lines_of(translated(input));
  const std::vector<std::string> lines = lines_of(translated(input, {"--alignments", "soft"}));
  REQUIRE(lines.size() == sources.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto json = nlohmann::json::parse(lines[i]);
    auto source = json["source"].get<std::vector<std::string>>(), target = json["target"].get<std::vector<std::string>>();
    const auto weights = json["weights"].get<std::vector<std::vector<double>>>();
    REQUIRE(weights.size() == target.size());
    for (const auto& row : weights) {
      REQUIRE(row.size() == source.size());
      double sum = 0;
      for (const double weight : row) sum += weight;
      CHECK(sum == doctest::Approx(1).epsilon(1e-4));
    }
    if (sources[i].empty()) {
      CHECK(source.empty());
      continue;
    }
    CHECK(source.back() == "</s>");
    source.pop_back();
    if (target.back() == "</s>") target.pop_back();
    CHECK(seq2seq::join(source) == sources[i]);
    CHECK(seq2seq::join(target) == texts[i]);
  }
}

TEST_CASE("heat maps go to the standard error and leave the lines alone") {
  const std::string input = "der hund schläft .\n\n";
  const Outcome outcome = seqgrad_program({"translate", "--model", small_run(), "--heatmap", "--ascii"}, input);
  CHECK(outcome.status == 0);
  CHECK(outcome.out == translated(input));
  CHECK(outcome.err.find("hund") != std::string::npos);
  CHECK(outcome.err.find("weight:  ... from 0.05") != std::string::npos);
  const std::string in_c_locale =
      seqgrad_program({"translate", "--model", small_run(), "--heatmap"}, input, [] { ::setenv("LC_ALL", "C", 1); }).err;
  CHECK(in_c_locale == outcome.err);
  const std::string in_utf8 =
      seqgrad_program({"translate", "--model", small_run(), "--heatmap"}, input, [] { ::setenv("LC_ALL", "C.UTF-8", 1); }).err;
  CHECK(in_utf8.find("░░░ from 0.05") != std::string::npos);
}

TEST_CASE("translations that do not end are cut off and counted") {
  // A decoder whose last layer can only say "the".
  const TemporaryFolder folder;
  std::filesystem::copy(small_run(), folder / "run");
  auto run = seq2seq::open_run(folder / "run");
  for (Parameter* parameter : run->block.parameters()) {
    if (parameter->name != "decoder.out.bias") continue;
    parameter->value.mutable_data<float>()[run->target.id("the")] = 1e6f;
  }
  seq2seq::save_weights(*run, folder / "run/model.safetensors");
  const Outcome outcome = seqgrad_program({"translate", "--model", folder / "run"}, "der hund .\n\n");
  CHECK(outcome.status == 0);
  CHECK(lines_of(outcome.out).size() == 2);
  CHECK(outcome.out.starts_with("the the the the"));
  CHECK(outcome.err == "1 of 2 translations were cut off: they had not ended after twice the source's words and ten\n");
}

TEST_CASE("evaluate agrees with translate and bleu") {
  const TemporaryFolder folder;
  const std::string source = small_corpus() / "test.de", reference = small_corpus() / "test.en";
  const Outcome outcome =
      seqgrad_program({"evaluate", "--model", small_run(), "--source", source, "--reference", reference, "--json"});
  REQUIRE(outcome.status == 0);
  const auto json = nlohmann::json::parse(outcome.out);
  CHECK(json["sentences"] == 40);
  CHECK(json["perplexity"] > 1);
  CHECK(json["perplexity"] < 200);
  const std::string hypothesis = folder.file("out", translated(small_corpus().source_lines()));
  const Outcome bleu = seqgrad_program({"bleu", reference, hypothesis, "--tokenize", "none", "--chrf", "--chrf++", "--json"});
  REQUIRE(bleu.status == 0);
  const auto scores = nlohmann::json::parse(bleu.out);
  CHECK(scores["bleu"] == json["bleu"]);
  CHECK(scores["signature"] == json["bleu_signature"]);
  for (const char* name : {"chrf", "chrf_signature", "chrf++", "chrf++_signature"}) CHECK(scores[name] == json[name]);
  CHECK(!json.contains("free_running_loss"));
  const std::vector<std::string> search{"--beam", "3", "--length-penalty", "0.5"};
  std::vector<std::string> arguments{"evaluate", "--model",     small_run(), "--source",
                                     source,     "--reference", reference,   "--json"};
  arguments.insert(arguments.end(), search.begin(), search.end());
  const auto wide = nlohmann::json::parse(seqgrad_program(arguments).out);
  const std::string found = folder.file("beam", translated(small_corpus().source_lines(), search));
  const Outcome beam = seqgrad_program({"bleu", reference, found, "--tokenize", "none", "--json"});
  CHECK(wide["bleu"] == nlohmann::json::parse(beam.out)["bleu"]);
  CHECK(wide["bleu"] != json["bleu"]);
  const Outcome text = seqgrad_program({"evaluate", "--model", small_run(), "--source", source, "--reference", reference});
  CHECK(text.err == "");
  CHECK(text.out.find("sentences   40 in ") == 0);
  CHECK(text.out.find("signature   nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:2.6.0\n") != std::string::npos);
  CHECK(text.out.find("\nchrF2++ = ") != std::string::npos);
  CHECK(text.out.find("\nsource length  sentences     BLEU    chrF2  chrF2++\n0-5 ") != std::string::npos);
}

TEST_CASE("evaluate divides the sentences by their source's length") {
  const TemporaryFolder folder;
  const std::string source = folder.file("de", "der hund schläft .\n\nder hund .\n"),
                    reference = folder.file("en", "the dog sleeps .\n\nthe dog .\n");
  const std::vector<std::string> arguments{"evaluate",    "--model", small_run(), "--source", source,
                                           "--reference", reference, "--lengths", "2,3"};
  std::vector<std::string> with_json = arguments;
  with_json.insert(with_json.end(), {"--json", "--free-running"});
  const auto json = nlohmann::json::parse(seqgrad_program(with_json).out);
  CHECK(json["free_running_loss"] > 0);
  const auto& buckets = json["by_source_length"];
  REQUIRE(buckets.size() == 3);
  CHECK(buckets[0]["from"] == 0);
  CHECK(buckets[0]["to"] == 2);
  CHECK(buckets[1]["sentences"] == 1);
  CHECK(buckets[2]["from"] == 4);
  CHECK(buckets[2]["to"] == nullptr);
  for (const char* name : {"bleu", "chrf", "chrf++"}) CHECK(buckets[2][name].is_number());
  const std::string text = seqgrad_program(arguments).out;
  CHECK(text.find("\n4+                     1  ") != std::string::npos);
  CHECK(text.find("free-running") == std::string::npos);
  std::vector<std::string> unsorted = arguments;
  unsorted.back() = "3,2";
  CHECK(seqgrad_program(unsorted).err == "seqgrad: [length_buckets] 2 stands after 3: the lengths must rise from 1 or more\n");
  std::vector<std::string> free = arguments;
  free.push_back("--free-running");
  CHECK(seqgrad_program(free).out.find("\nfree-running loss  ") != std::string::npos);
}

TEST_CASE("evaluate says what it leaves out and what it does not know") {
  const TemporaryFolder folder;
  const std::string source = folder.file("de", "der hund .\n\nder hund .\n"),
                    reference = folder.file("en", "the dog .\na\nzebra .\n");
  const Outcome outcome = seqgrad_program({"evaluate", "--model", small_run(), "--source", source, "--reference", reference});
  CHECK(outcome.status == 0);
  CHECK(outcome.out.find("(1 without perplexity: a side is empty or too long)") != std::string::npos);
  CHECK(outcome.out.find("over 7 target tokens; 1 of 6 reference words are not in the vocabulary and count as <unk>") !=
        std::string::npos);
}
