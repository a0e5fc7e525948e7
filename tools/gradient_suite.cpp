#include "tools/gradient_suite.h"

#include <filesystem>

#include "autograd/suite.h"
#include "kernels/error.h"
#include "tensor/file.h"
#include "tools/console.h"
#include "tools/program.h"

namespace seqgrad::tools {
namespace {

constexpr int fast_directions = 3;

struct GradientSuite {
  SuiteOptions options;
  std::string dtype = "f64", junit;
  i64 seed = static_cast<i64>(SuiteOptions().seed);
  bool list = false, json = false, fast = false;
  Machine machine;

  void run(const Cases& cases);
};

void GradientSuite::run(const Cases& cases) {
  machine.start();
  if (dtype != "f64" && dtype != "f32") throw_error("dtype is '{}': it must be one of f64|f32", dtype);
  if (seed < 0) throw_error("seed is {}: it must be at least 0", seed);
  options.dtype = dtype == "f32" ? DType::f32 : DType::f64;
  options.seed = static_cast<u64>(seed);
  options.directions = fast ? fast_directions : 0;
  options.check();
  if (list && !junit.empty()) throw_error("--junit takes results, and --list checks nothing: leave one of them out");
  const std::vector<const Case*> cases_to_run = chosen(cases, options);
  if (list) return write_result(json ? list_as_json(cases_to_run) : list_as_text(cases_to_run));

  if (!junit.empty() && !std::filesystem::is_fifo(junit)) AtomicFile can_be_written(junit);  // before the work, not after it
  std::size_t width = 4;
  for (const Case* one : cases_to_run) width = std::max(width, one->name.size());
  if (!json) write_result(table_head(width, options));
  const SuiteReport report = run_suite(cases_to_run, options, [&](const CaseResult& result) {
    if (json) return;
    write_result(table_row(result, width));
    flush_results();
  });
  write_result(json ? to_json(report) : table_end(report));
  if (!junit.empty()) write_file(junit, to_junit(report));
  if (report.failed() > 0) throw_failure("{} of {} gradient checks failed", report.failed(), report.results.size());
}

}  // namespace

void make_gradient_suite(CLI::App& command, const std::function<void(Cases&)>& collect) {
  const auto suite = std::make_shared<GradientSuite>();
  const GradcheckOptions f64, f32 = GradcheckOptions::for_dtype(DType::f32);
  command.add_option("--filter", suite->options.filter, "only cases whose name matches")
      ->type_name("GLOB")
      ->capture_default_str();
  command.add_option("--dtype", suite->dtype, "arithmetic of the gradients; the differences are f64's")
      ->type_name("f64|f32")
      ->capture_default_str();
  command.add_flag("--fast", suite->fast,
                   fmt::format("along {} random directions for each argument, not entry by entry", fast_directions));
  const auto add_number = [&](const char* name, std::optional<double>& value, const std::string& help, double otherwise) {
    command.add_option(name, value, help)->type_name("X")->default_str(fmt::format("{:.0e}", otherwise));
  };
  add_number("--eps", suite->options.eps, "step of the differences, relative to entries above 1", f64.eps);
  add_number("--rtol", suite->options.rtol,
             fmt::format("largest relative error that passes; with f32 {:.0e}, or what the case allows", f32.rtol), f64.rtol);
  add_number("--atol", suite->options.atol, fmt::format("absolute error that passes; with f32 {:.0e}", f32.rtol * f32.floor),
             f64.rtol * f64.floor);
  command.add_option("--seed", suite->seed, "of the cotangents and directions")->type_name("N")->capture_default_str();
  command.add_flag("--list", suite->list, "list the cases and what they declare, check nothing");
  command.add_flag("--json", suite->json, "write the results, or the list, as JSON");
  command.add_option("--junit", suite->junit, "write the results as JUnit XML, too")->type_name("FILE");
  suite->machine.add_options(command);
  command.callback([suite, collect] {
    Cases cases;
    collect(cases);
    suite->run(cases);
  });
}

}  // namespace seqgrad::tools
