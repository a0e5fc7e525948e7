#include "seq2seq/report.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

const Alignment small{
    {"der", "hund", "</s>"}, {"the", "dog", "</s>"}, {{0.9f, 0.1f, 0}, {0.25f, 0.45f, 0.3f}, {0, 0.04f, 0.96f}}};

}  // namespace

TEST_CASE("a heat map stands under its words") {
  CHECK(draw_heatmap(small) ==
        "      der hund </s>\n"
        "the   ███ ░░░░\n"
        "dog   ▒▒▒ ▓▓▓▓ ▒▒▒▒\n"
        "</s>           ████\n"
        "weight:  ░░░ from 0.05  ▒▒▒ from 0.2  ▓▓▓ from 0.4  ███ from 0.7\n");
  CHECK(draw_heatmap(small, {.ascii = true}).find("dog   ::: **** ::::\n") != std::string::npos);
}

TEST_CASE("a heat map too wide for the terminal has its words as a staircase") {
  CHECK(draw_heatmap(small, {.ascii = true, .width = 19}) ==
        "      der\n"
        "      |   hund\n"
        "      |   |   </s>\n"
        "the   ### ...\n"
        "dog   ::: *** :::\n"
        "</s>          ###\n"
        "weight:  ... from 0.05  ::: from 0.2  *** from 0.4  ### from 0.7\n");
}

TEST_CASE("words in a heat map cannot command the terminal, and are shortened") {
  Alignment odd = small;
  odd.source[0] = "\x1b[31m";
  odd.target[0] = std::string(60, 'x');
  odd.source[1] = "犬";
  const std::string text = draw_heatmap(odd, {.ascii = true});
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("?[31m 犬  </s>\n") != std::string::npos);
  CHECK(text.find(std::string(23, 'x') + ".  #####") != std::string::npos);
  odd.weights[0][0] = NAN;
  CHECK(draw_heatmap(odd).find("?????") != std::string::npos);
  CHECK(draw_heatmap({{"a"}, {"b"}, {}}) == "");
}

TEST_CASE("columns of a terminal") {
  CHECK(display_width("mädchen") == 7);
  CHECK(display_width("ma\xcc\x88"
                      "dchen") == 7);
  CHECK(display_width("犬と猫") == 6);
  CHECK(display_width("") == 0);
}

TEST_CASE("crossings count words in another order") {
  CHECK(crossings(small) == 0);
  CHECK(crossings(
            {{"a", "b", "c", "</s>"}, {"x", "y", "z", "</s>"}, {{0, 0, 1, 0}, {1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 0, 1}}}) == 2);
}

TEST_CASE("an alignment as JSON") {
  CHECK(to_json({{"ein \"hund\"", "</s>"}, {"dog"}, {{0.25f, 0.75f}}}) ==
        R"({"source": ["ein \"hund\"","</s>"], "target": ["dog"], "weights": [[0.25, 0.75]]})");
}

TEST_CASE("metrics come back, and a damaged file is named") {
  const TemporaryFolder folder;
  const std::string good = folder.file(
      "metrics.jsonl",
      R"({"epoch":1,"train_loss":2,"train_perplexity":7.4,"validation_perplexity":5,"seconds":1,"tokens_per_second":9,"best":true})"
      "\n");
  REQUIRE(read_metrics(good).size() == 1);
  CHECK(read_metrics(good)[0].validation_perplexity == 5);
  CHECK(read_metrics(good)[0].best);
  for (const char* bad : {"{\"epoch\": 1}\nnonsense\n", "{\"epoch\": 1}\n[]\n", "{\"epoch\": 1}\n{\"epoch\": \"2\"}\n"}) {
    const std::string path = folder.file("bad.jsonl", bad);
    CHECK(message_of([&] { read_metrics(path); }) == path + ":2: no line of a training run");
  }
}

TEST_CASE("a report stands alone and shows text as text") {
  Report report;
  report.title = "<b>&\"";
  report.facts = {{"fact", "<i>"}};
  report.validations = {{.epochs = 1, .train_perplexity = 40, .validation_perplexity = 20},
                        {.epochs = 2, .train_perplexity = 3, .validation_perplexity = 2.5}};
  report.sentences = {{"der <hund>", "the dog", "the dog", small}};
  const std::string html = to_html(report);
  CHECK(html.find("<title>&lt;b&gt;&amp;&quot;</title>") != std::string::npos);
  CHECK(html.find("der &lt;hund&gt;") != std::string::npos);
  CHECK(html.find("<th scope=\"col\" dir=\"auto\">&lt;/s&gt;</th>") != std::string::npos);
  CHECK(html.find("the looks at der: 0.900") != std::string::npos);
  CHECK(html.find("prefers-color-scheme: dark") != std::string::npos);
  CHECK(html.find("(logarithmic)") != std::string::npos);
  for (const char* outside : {"<script", "http:", "https:", "src=", "@import", "url("})
    CHECK(html.find(outside) == std::string::npos);
}

TEST_CASE("curves of odd data") {
  CHECK(draw_curves({}, "x", "y") == "<p>Nothing to draw.</p>\n");
  CHECK(draw_curves({{"a", {{1, NAN}}}}, "x", "y") == "<p>Nothing to draw.</p>\n");
  for (const auto& points : std::vector<std::vector<std::pair<double, double>>>{
           {{1, 2}}, {{1, 0}, {2, 0}}, {{1, -5}, {2, 5}}, {{1, 1e-9}, {2, 1e9}}, {{1, 1}, {2, INFINITY}, {3, 2}}}) {
    const std::string svg = draw_curves({{"a", points}, {"b", points}}, "x", "y");
    CHECK(svg.starts_with("<svg "));
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(svg.find("inf") == std::string::npos);
    CHECK(svg.find("<path") != std::string::npos);
  }
}

TEST_CASE("curves differ by dashes and signs, and their names do not lie on each other") {
  std::vector<Curve> curves;
  for (int i = 0; i < 7; ++i) curves.push_back({fmt::format("curve {}", i), {{0, 1}, {1, 2}}});
  const std::string svg = draw_curves(curves, "x", "y");
  std::vector<double> places;
  for (std::size_t at = svg.find(">curve "); at != std::string::npos; at = svg.find(">curve ", at + 1)) {
    const std::size_t y = svg.rfind("y=\"", at) + 3;
    places.push_back(std::stod(svg.substr(y)));
  }
  REQUIRE(places.size() == 7);
  for (std::size_t i = 1; i < places.size(); ++i) CHECK(places[i] - places[i - 1] >= 15.9);
  CHECK(places.front() > 0);
  for (const char* style : {"line c0", "line c5", "sign c3"}) CHECK(svg.find(style) != std::string::npos);
  CHECK(svg.find("c6") == std::string::npos);
}

TEST_CASE("between whole epochs an axis has no numbers, between others it has") {
  CHECK(draw_curves({{"a", {{1, 1}, {2, 3}, {3, 2}}}}, "epoch", "y").find(">2.2<") == std::string::npos);
  CHECK(draw_curves({{"a", {{1, 1}, {2, 3}, {3, 2}}}}, "epoch", "y").find(">2<") != std::string::npos);
  CHECK(draw_curves({{"a", {{1, 1}, {1.5, 3}, {3, 2}}}}, "epoch", "y").find(">2.2<") != std::string::npos);
}

TEST_CASE("a table is aligned as text and escaped as HTML") {
  const Table table{{"name", "a ± b", "n"}, {{"mädchen", "1.0 ± 0.5", "12"}, {"x", "10.25", "3"}}};
  CHECK(table_text(table) ==
        "name         a ± b   n\n"
        "mädchen  1.0 ± 0.5  12\n"
        "x            10.25   3\n");
  const std::string html = table_html({{"", "<n>"}, {{"a&b", "1"}}});
  CHECK(html.find("<th scope=\"col\">&lt;n&gt;</th>") != std::string::npos);
  CHECK(html.find("<tr><th scope=\"row\">a&amp;b</th><td>1</td></tr>") != std::string::npos);
}
