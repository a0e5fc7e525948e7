// A suite of gradient-check cases: running it, and its reports as a table, JSON and JUnit XML. `seqgrad check gradients` and
// the programs that link seqgrad::gradcheck_main are this and a command line. Belongs to one thread at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "autograd/cases.h"

namespace seqgrad {

struct SuiteOptions {
  std::string filter = "*";         // a glob, of the cases' names
  DType dtype = DType::f64;         // in which the gradients are computed
  std::optional<double> eps = {};   // default: GradcheckOptions'
  std::optional<double> rtol = {};  // default: each case's
  std::optional<double> atol = {};  // rtol * floor (autograd/gradcheck.h)
  u64 seed = GradcheckOptions().seed;
  int directions = 0;  // 0: every entry; n: n random directions for each argument

  // Error: "rtol is 0: it must be above 0 and below 1".
  void check() const;
  GradcheckOptions for_case(const Case& one) const;
};

struct CaseResult {
  std::string name;
  GradcheckReport report;
  double seconds = 0;
};

struct SuiteReport {
  SuiteOptions options;
  std::vector<CaseResult> results;
  double seconds = 0;

  i64 compared() const;
  std::size_t failed() const;
  const CaseResult& worst() const;  // the one with the largest error, NaN being larger than all; there must be one
};

// Error: "--filter 'x*' matches none of the 90 cases: --list shows them".
std::vector<const Case*> chosen(const Cases& cases, const SuiteOptions& options);

// A case that throws has failed, with the message as its problem. `each` hears of every result as it comes.
SuiteReport run_suite(const std::vector<const Case*>& cases, const SuiteOptions& options,
                      const std::function<void(const CaseResult&)>& each = {});

// The table: its head, a row, and what stands below. Each ends with a line break; width is that of the longest name.
std::string table_head(std::size_t width, const SuiteOptions& options);
std::string table_row(const CaseResult& result, std::size_t width);
std::string table_end(const SuiteReport& report);

std::string to_json(const SuiteReport& report);
std::string to_junit(const SuiteReport& report);
std::string list_as_text(const std::vector<const Case*>& cases);
std::string list_as_json(const std::vector<const Case*>& cases);

}  // namespace seqgrad
