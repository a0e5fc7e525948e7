#include "autograd/suite.h"

#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "autograd/diagnosis.h"

namespace seqgrad {

void SuiteOptions::check() const {
  if (eps) require_between("eps", *eps, 0, 1);
  if (rtol) require_between("rtol", *rtol, 0, 1);
  if (atol) require_between("atol", *atol, 0, infinity);
}

GradcheckOptions SuiteOptions::for_case(const Case& one) const {
  GradcheckOptions options = GradcheckOptions::for_dtype(dtype);
  options.rtol = rtol.value_or(dtype == DType::f32 ? one.rtol_f32 : one.rtol);
  if (eps) options.eps = *eps;
  if (atol) options.floor = *atol / options.rtol;
  options.seed = seed;
  options.nondet_tol = one.nondet_tol;
  options.directions = directions;
  return options;
}

i64 SuiteReport::compared() const {
  i64 sum = 0;
  for (const CaseResult& result : results) sum += result.report.compared;
  return sum;
}

std::size_t SuiteReport::failed() const {
  return static_cast<std::size_t>(
      std::count_if(results.begin(), results.end(), [](const CaseResult& result) { return !result.report.ok(); }));
}

const CaseResult& SuiteReport::worst() const {
  const CaseResult* worst = nullptr;
  for (const CaseResult& result : results)
    if (!worst || !(std::isnan(worst->report.error) || result.report.error <= worst->report.error)) worst = &result;
  if (!worst) throw_error("a suite without results has no worst one");
  return *worst;
}

std::vector<const Case*> chosen(const Cases& cases, const SuiteOptions& options) {
  std::vector<const Case*> chosen;
  for (const Case& one : cases.all())
    if (::fnmatch(options.filter.c_str(), one.name.c_str(), 0) == 0) chosen.push_back(&one);
  if (cases.all().empty()) throw_error("there are no cases: declare some with SEQGRAD_GRADCHECK_CASES");
  if (chosen.empty())
    throw_error("--filter '{}' matches none of the {} cases: --list shows them", options.filter, cases.all().size());
  return chosen;
}

SuiteReport run_suite(const std::vector<const Case*>& cases, const SuiteOptions& options,
                      const std::function<void(const CaseResult&)>& each) {
  options.check();
  SuiteReport all{options, {}, 0};
  for (const Case* one : cases) {
    CaseResult result{one->name, {}, 0};
    const auto start = std::chrono::steady_clock::now();
    const auto failed = [&](const char* why) {
      result.report = {};
      result.report.rtol = options.for_case(*one).rtol;
      result.report.problem = why;
      result.report.cause = likely_cause(result.report.problem);
    };
    try {
      result.report = run(*one, options.for_case(*one));
    } catch (const std::exception& error) {
      failed(error.what());
    }
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    all.seconds += result.seconds;
    all.results.push_back(std::move(result));
    if (each) each(all.results.back());
  }
  return all;
}

}  // namespace seqgrad
