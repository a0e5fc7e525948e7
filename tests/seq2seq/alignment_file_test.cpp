// Alignments of many lines in a file: pairs, objects, a page.
#include "seq2seq/alignment_file.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

const Alignment dog{{"ein", "<b>", "</s>"}, {"a", "dog", "</s>"}, {{.9f, .1f, 0}, {.1f, .7f, .2f}, {0, 0, 1}}};
const Alignment cut_off{{"ein", "</s>"}, {"</s>"}, {{.9f, .1f}}, true};  // a word that is spelt so

std::string written(const std::string& name) {
  const TemporaryFolder folder;
  AlignmentFile file(folder / name, "Alignments of runs/<a>");
  file.add("ein <b>", "a dog", dog);
  file.add("", "", {});
  file.add("ein", "</s>", cut_off);
  CHECK_FALSE(std::filesystem::exists(folder / name));
  file.commit();
  return read_file(folder / name);
}

}  // namespace

TEST_CASE("pairs, a line for each line") {
  CHECK(written("alignments") == "0-0 1-1\n\n0-0\n");
  CHECK(written("html") == written("alignments"));
}

TEST_CASE("objects, a line for each line") {
  CHECK(written("a.json") == to_json(dog) + "\n" + to_json({}) + "\n" + to_json(cut_off) + "\n");
  CHECK(written("a.jsonl") == written("a.json"));
}

TEST_CASE("a page that needs no other file") {
  const std::string page = written("a.html");
  CHECK(page.starts_with("<!DOCTYPE html>\n"));
  CHECK(page.ends_with("</table></div>\n</body>\n</html>\n"));
  CHECK(page.find("<h1>Alignments of runs/&lt;a&gt;</h1>") != page.npos);
  CHECK(page.find("<h2 id=\"line-1\">Line 1</h2>\n<dl><dt>source</dt><dd dir=\"auto\">ein &lt;b&gt;</dd><dt>translation</dt>"
                  "<dd dir=\"auto\">a dog</dd></dl>\n<div class=\"scroll\"><table class=\"map\">") != page.npos);
  CHECK(page.find("<h2 id=\"line-2\">Line 2</h2>\n<dl><dt>source</dt><dd class=\"empty\">empty</dd><dt>translation</dt>"
                  "<dd class=\"empty\">empty</dd></dl>\n<h2 id=\"line-3\">") != page.npos);
  CHECK(page.find("title=\"dog looks at &lt;b&gt;: 0.700\">70</td>") != page.npos);
  for (const char* outside : {"<script", "src=", "href=", "url(", "@import", "http"}) CHECK(page.find(outside) == page.npos);
}

TEST_CASE("a sentence that is too long to draw is said to be") {
  const TemporaryFolder folder;
  AlignmentFile file(folder / "a.html", "t");
  const std::vector<std::string> words(300, "w");
  file.add("long", "long", {words, words, std::vector<std::vector<float>>(300, std::vector<float>(300))});
  file.add("ein", "a", dog);
  file.commit();
  const std::string page = read_file(folder / "a.html");
  CHECK(page.find("</dl>\n<p>300 x 300 words: too many to draw.</p>\n<h2 id=\"line-2\">") != page.npos);
  CHECK(page.size() < 20000);
}

TEST_CASE("what is given up leaves no file") {
  const TemporaryFolder folder;
  {
    AlignmentFile file(folder / "a.html", "t");
    file.add("ein", "a", dog);
  }
  CHECK(std::filesystem::is_empty(folder.path));
  CHECK(message_of([&] { AlignmentFile(folder / "none/a", "t"); }) ==
        "cannot write " + folder / "none/a" + ": No such file or directory");
}
