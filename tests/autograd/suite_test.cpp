#include "autograd/suite.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "autograd/custom_op.h"
#include "autograd/ops.h"
#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

Tensor twice_wrong(const Tensor& dy, const Tensor&) {
  return map([](auto d) { return 2 * d; }, dy);
}

// Cases that pass, that fail, and that cannot run; with names that trouble XML.
Cases troubled() {
  Cases cases;
  cases.add("good", [](Var x) { return tanh(x); }, {cases.normal({2, 3})});
  cases.add("good/log", [](Var x) { return log(x); }, {cases.uniform({3}, 0.5, 2)}).domain("a", 0, infinity);
  cases.add("bad <&> \"quoted\"\n\x01\xff\xc3\xa4",
            custom_op(
                "copy", [](const Tensor& x) { return x.clone(); }, twice_wrong),
            {cases.normal({3})});
  cases.add("bad/throws", [](Var x) { return matmul(x, x); }, {cases.normal({2, 3})});
  cases.add("bad/nan", [](Var x) { return log(x); }, {cases.normal({20})});
  return cases;
}

SuiteReport run_all(const Cases& cases, const SuiteOptions& options = {}) { return run_suite(chosen(cases, options), options); }

bool python_reads(const std::string& xml) {
  const TemporaryFolder folder;
  const std::string file = folder.file("junit.xml", xml);
  if (std::system("python3 -c 'import xml.etree' 2>/dev/null") != 0) return xml.find("</testsuites>") != xml.npos;
  const std::string program =
      "import sys, xml.etree.ElementTree as e\n"
      "root = e.parse(sys.argv[1]).getroot()\n"
      "suite, = root\n"
      "cases = list(suite)\n"
      "assert root.tag == 'testsuites' and suite.tag == 'testsuite'\n"
      "assert int(suite.get('tests')) == len(cases) == 5\n"
      "assert int(suite.get('failures')) == sum(c.find('failure') is not None for c in cases) == 3\n"
      "assert cases[0].get('name') == 'good' and float(cases[0].get('time')) >= 0\n"
      "assert cases[2].get('name') == 'bad <&> \"quoted\"\\n\\ufffd\\ufffd\\u00e4', ascii(cases[2].get('name'))\n"
      "assert 'likely cause: the gradient of a is scaled: everywhere 2 times' in cases[2].find('failure').text\n"
      "assert cases[3].find('failure').get('message').startswith('FAILED: [matmul] inner dimensions differ')\n";
  return std::system(fmt::format("python3 {} {}", folder.file("read.py", program), file).c_str()) == 0;
}

}  // namespace

TEST_CASE("a suite tells what passes, what fails and why") {
  const Cases cases = troubled();
  std::vector<std::string> heard;
  const SuiteReport report = run_suite(chosen(cases, {}), {}, [&](const CaseResult& result) { heard.push_back(result.name); });
  REQUIRE(report.results.size() == 5);
  CHECK(heard.size() == 5);
  CHECK(report.failed() == 3);
  CHECK(report.results[0].report.ok());
  CHECK(report.results[1].report.ok());
  CHECK(report.results[2].report.cause == "the gradient of a is scaled: everywhere 2 times the right one");
  CHECK(report.results[3].report.problem == "[matmul] inner dimensions differ: (2, 3) x (2, 3)");
  CHECK(report.results[4].report.cause == "the function itself is not a number at this point");
  CHECK(report.worst().name == "bad/nan");
  const std::string end = table_end(report);
  CHECK(end.starts_with("\n5 cases, 32 entries in "));
  CHECK(end.find("; worst relative error nan of 1e-07 allowed, in bad/nan: a (") != end.npos);
  CHECK(end.find("\nbad/throws: FAILED: [matmul] inner dimensions differ: (2, 3) x (2, 3)\n") != end.npos);
  CHECK(table_row(report.results[0], 6).starts_with("good             6  "));
  CHECK(table_row(report.results[4], 6).ends_with("  FAILED\n"));
}

TEST_CASE("JSON and JUnit hold the same results, whatever the names") {
  const SuiteReport report = run_all(troubled());
  const auto json = nlohmann::json::parse(to_json(report));
  CHECK(json["ok"] == false);
  CHECK(json["dtype"] == "f64");
  CHECK(json["mode"] == "exact");
  CHECK(json["failed"] == 3);
  CHECK(json["compared"] == 32);
  CHECK(json["worst_error"].is_null());
  CHECK(json["results"][2]["likely_cause"] == "the gradient of a is scaled: everywhere 2 times the right one");
  CHECK(json["results"][2]["wrong_entries"] == 3);
  CHECK(json["results"][2]["index"].size() == 1);
  CHECK(python_reads(to_junit(report)));
}

TEST_CASE("filters choose cases by glob") {
  const Cases cases = troubled();
  CHECK(chosen(cases, {.filter = "good*"}).size() == 2);
  CHECK(chosen(cases, {.filter = "bad/*"}).size() == 2);
  CHECK(message_of([&] { chosen(cases, {.filter = "x*"}); }) == "--filter 'x*' matches none of the 5 cases: --list shows them");
  CHECK(message_of([] { chosen(Cases(), {}); }) == "there are no cases: declare some with SEQGRAD_GRADCHECK_CASES");
}

TEST_CASE("options reach the check; a wrong one is an error") {
  const Cases cases = troubled();
  const auto fails = [&](const SuiteOptions& options) { return run_all(cases, options).failed(); };
  CHECK(fails({.filter = "good", .rtol = 1e-30}) == 1);
  CHECK(fails({.filter = "good", .eps = 0.5}) == 1);
  CHECK(fails({.filter = "good", .rtol = 1e-14, .atol = 1.0}) == 0);
  CHECK(fails({.filter = "good*", .dtype = DType::f32}) == 0);
  CHECK(fails({.filter = "good*", .dtype = DType::f32, .rtol = 1e-9}) == 2);
  CHECK(run_all(cases, {.filter = "good", .directions = 3}).compared() == 3);
  const SuiteReport bad = run_all(cases, {.filter = "bad <*", .directions = 3});
  CHECK(bad.failed() == 1);
  CHECK(bad.results[0].report.cause == "the gradient of a is scaled: everywhere 2 times the right one");
  CHECK(message_of([&] { fails({.eps = 0.0}); }) == "eps is 0: it must be above 0 and below 1");
  CHECK(message_of([&] { fails({.rtol = -1.0}); }) == "rtol is -1: it must be above 0 and below 1");
  CHECK(message_of([&] { fails({.rtol = infinity}); }) == "rtol is inf: it must be above 0 and below 1");
  CHECK(message_of([&] { fails({.atol = 0.0}); }) == "atol is 0: it must be above 0 and finite");
  CHECK(message_of([&] { fails({.atol = infinity}); }) == "atol is inf: it must be above 0 and finite");
}

TEST_CASE("a case is held to what it declares") {
  Cases cases;
  const Tensor x = Tensor::from<double>({0.05, -2}, {2});
  // With a step of 0.3 the differences would reach over the kink, were it not declared.
  cases.add("undeclared", [](Var v) { return relu(v); }, {x});
  cases.add("declared", [](Var v) { return relu(v); }, {x}).kinks(0.05);
  cases.add("edge", [](Var v) { return log(v) * 1.0; }, {Tensor::from<double>({0.5, 2}, {2})}).domain("a", 0, infinity);
  cases.add("outside", [](Var v) { return log(v); }, {Tensor::from<double>({0.5, 0}, {2})}).domain("a", 0, infinity);
  int runs = 0;
  cases.add("shaky", [&](Var v) { return v * (2 + 1e-9 * ++runs); }, {x}).nondeterministic(1e-3);
  cases.add("misnamed", [](Var v) { return log(v); }, {x}).domain("b", 0, infinity);
  const SuiteReport report = run_all(cases, {.eps = 0.3, .rtol = 0.1});
  CHECK(!report.results[0].report.ok());
  CHECK(report.results[0].report.cause.starts_with("a kink within two steps of 0.3 from 0.05"));
  CHECK(report.results[1].report.ok());
  CHECK(report.results[2].report.ok());
  CHECK(report.results[3].report.problem == "[gradcheck] outside: a holds 0, outside its domain (0, inf)");
  CHECK(report.results[4].report.ok());
  CHECK(report.results[5].report.problem == "[gradcheck] misnamed has a domain for b, but no such argument");
  CHECK(list_as_text(chosen(cases, {.filter = "*e*"})) ==
        "undeclared  a (2); tolerance 1e-07, in f32 1e-04\n"
        "declared    a (2); kinks 0.05 away; tolerance 1e-07, in f32 1e-04\n"
        "edge        a (2); a in (0, inf); tolerance 1e-07, in f32 1e-04\n"
        "outside     a (2); a in (0, inf); tolerance 1e-07, in f32 1e-04\n"
        "misnamed    a (2); b in (0, inf); tolerance 1e-07, in f32 1e-04\n");
  CHECK(list_as_text(chosen(cases, {.filter = "shaky"})) ==
        "shaky  a (2); runs differ by 0.001; tolerance 1e-07, in f32 1e-04\n");
  const auto json = nlohmann::json::parse(list_as_json(chosen(cases, {})));
  CHECK(json[1]["kink_distance"] == 0.05);
  CHECK(json[2]["domains"][0]["low"] == 0);
  CHECK(json[2]["domains"][0]["high"].is_null());
  CHECK(json[0]["arguments"][0]["shape"] == std::vector<int>{2});
}

TEST_CASE("every operation passes in f32, and along random directions") {
  Cases cases;
  add_autograd_cases(cases);
  for (const SuiteOptions& options :
       {SuiteOptions{.dtype = DType::f32}, SuiteOptions{.directions = 3}, SuiteOptions{.dtype = DType::f32, .directions = 3}}) {
    const SuiteReport report = run_all(cases, options);
    CAPTURE(table_end(report));
    CHECK(report.failed() == 0);
  }
}

SEQGRAD_GRADCHECK_CASES {
  cases.add("registered", [](Var x) { return exp(x); }, {cases.normal({2})});
}

TEST_CASE("a program's own cases register themselves") {
  Cases cases;
  add_registered_cases(cases);
  REQUIRE(cases.all().size() == 1);
  CHECK(run(cases.all()[0]).ok());
}
