#include <fnmatch.h>

#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "autograd/cases.h"
#include "kernels/error.h"
#include "tools/commands.h"
#include "tools/console.h"

namespace seqgrad::tools {
namespace {

struct CheckGradients {
  std::string filter = "*", dtype = "f64";
  GradcheckOptions options;
  i64 seed = static_cast<i64>(GradcheckOptions().seed);
  bool list = false, json = false;
  Machine machine;

  void run();
};

// "encoder.gru.weight_hh_l0 (3, 1)"
std::string entry(const GradcheckReport& report) {
  return report.argument.empty() ? "-" : fmt::format("{} {}", report.argument, report.index);
}

nlohmann::ordered_json to_json(const std::string& name, const GradcheckReport& report, double seconds) {
  std::vector<i64> index;
  for (int d = 0; d < report.index.size(); ++d) index.push_back(report.index[d]);
  return {{"name", name},
          {"ok", report.ok()},
          {"compared", report.compared},
          {"error", report.error},
          {"argument", report.argument},
          {"index", index},
          {"analytic", report.analytic},
          {"numeric", report.numeric},
          {"problem", report.problem},
          {"seconds", seconds}};
}

void CheckGradients::run() {
  machine.start();
  if (dtype != "f64") throw_error("dtype is '{}': it must be one of f64", dtype);
  if (!(options.eps > 0 && options.eps < 1)) throw_error("eps is {}: it must be above 0 and below 1", options.eps);
  if (!(options.rtol > 0)) throw_error("rtol is {}: it must be above 0", options.rtol);
  if (seed < 0) throw_error("seed is {}: it must be at least 0", seed);
  options.seed = static_cast<u64>(seed);

  Cases cases;
  add_autograd_cases(cases);
  add_seq2seq_cases(cases);
  std::vector<const Case*> chosen;
  std::size_t width = 4;
  for (const Case& one : cases.all()) {
    if (::fnmatch(filter.c_str(), one.name.c_str(), 0) != 0) continue;
    chosen.push_back(&one);
    width = std::max(width, one.name.size());
  }
  if (chosen.empty()) throw_error("--filter '{}' matches none of the {} cases: --list shows them", filter, cases.all().size());
  if (list) {
    for (const Case* one : chosen) print("{}\n", one->name);
    return;
  }

  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  i64 compared = 0;
  std::vector<std::string> failures;
  GradcheckReport worst;
  std::string worst_name;
  double all_seconds = 0;
  if (!json) print("{:{}}  {:>8}  {:>9}  {:>7}  worst entry\n", "case", width, "entries", "error", "time");
  for (const Case* one : chosen) {
    const auto start = std::chrono::steady_clock::now();
    GradcheckReport report;
    report.rtol = options.rtol;
    try {
      report = seqgrad::run(*one, options);
    } catch (const Error& error) {
      report.problem = error.what();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    all_seconds += seconds;
    compared += report.compared;
    if (worst_name.empty() || !(report.error <= worst.error)) {
      if (!std::isnan(worst.error)) {
        worst = report;
        worst_name = one->name;
      }
    }
    if (!report.ok()) {
      std::string why = fmt::format("{}", report);
      while (!why.empty() && why.back() == '\n') why.pop_back();
      failures.push_back(fmt::format("{}: {}", one->name, why));
    }
    if (json) {
      rows.push_back(to_json(one->name, report, seconds));
      continue;
    }
    print("{:{}}  {:>8}  {:>9.1e}  {:>5.2f} s  {}{}\n", one->name, width, report.compared, report.error, seconds, entry(report),
          report.ok() ? "" : "  FAILED");
    flush_results();
  }
  if (json) {
    const nlohmann::ordered_json result = {{"ok", failures.empty()},   {"cases", chosen.size()}, {"failed", failures.size()},
                                           {"compared", compared},     {"rtol", options.rtol},   {"worst_error", worst.error},
                                           {"worst_case", worst_name}, {"seconds", all_seconds}, {"results", rows}};
    print("{}\n", result.dump());
  } else {
    print("\n{} cases, {} entries in {:.1f} s; worst relative error {:.1e}, in {}: {}\n", chosen.size(), compared, all_seconds,
          worst.error, worst_name, entry(worst));
    for (const std::string& failure : failures) print("{}\n", failure);
  }
  if (!failures.empty()) throw_failure("{} of {} gradient checks failed", failures.size(), chosen.size());
}

}  // namespace

void add_check_gradients(CLI::App& check) {
  CLI::App* command = add_command(check, "gradients", "compare every gradient with finite differences",
                                  "seqgrad check gradients --filter 'softmax*'");
  auto options = std::make_shared<CheckGradients>();
  command->add_option("--filter", options->filter, "only cases whose name matches")->type_name("GLOB")->capture_default_str();
  command->add_option("--eps", options->options.eps, "step of the differences, relative to entries above 1")
      ->type_name("X")
      ->capture_default_str();
  command->add_option("--rtol", options->options.rtol, "largest relative error that passes")
      ->type_name("X")
      ->capture_default_str();
  command->add_option("--dtype", options->dtype, "arithmetic")->type_name("f64")->capture_default_str();
  command->add_option("--seed", options->seed, "of the cotangents")->type_name("N")->capture_default_str();
  command->add_flag("--list", options->list, "list the cases, check nothing");
  command->add_flag("--json", options->json, "write the results as JSON");
  options->machine.add_options(*command);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
