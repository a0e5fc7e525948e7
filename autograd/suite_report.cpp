// How a suite's results look: table, JSON, JUnit XML.
#include <nlohmann/json.hpp>

#include "autograd/suite.h"

namespace seqgrad {
namespace {

using Json = nlohmann::ordered_json;

const char* unit(const SuiteOptions& options) { return options.directions > 0 ? "directions" : "entries"; }

std::string without_line_breaks_at_the_end(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

// The length of the character that text starts with, 0 where it is not one that XML 1.0 can hold.
std::size_t xml_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return first >= 0x20 || first == '\t' || first == '\n' || first == '\r' ? 1 : 0;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  u32 code = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  return overlong || (code >= 0xd800 && code < 0xe000) || code == 0xfffe || code == 0xffff || code > 0x10ffff ? 0 : length;
}

// Text for an attribute: line breaks survive only as references.
std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = xml_character(text);
    const char c = text[0];
    if (length == 0)
      out += "\xef\xbf\xbd";  // the replacement character
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (length == 1 && static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("&#{};", static_cast<int>(c));
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

}  // namespace

std::string table_head(std::size_t width, const SuiteOptions& options) {
  return fmt::format("{:{}}  {:>10}  {:>9}  {:>7}  worst entry\n", "case", width, unit(options), "error", "time");
}

std::string table_row(const CaseResult& result, std::size_t width) {
  return fmt::format("{:{}}  {:>10}  {:>9.1e}  {:>5.2f} s  {}{}\n", result.name, width, result.report.compared,
                     result.report.error, result.seconds, worst_entry(result.report), result.report.ok() ? "" : "  FAILED");
}

std::string table_end(const SuiteReport& report) {
  const CaseResult& worst = report.worst();
  std::string text = fmt::format("\n{}, {} in {:.1f} s; worst relative error {:.1e} of {:.0e} allowed, in {}: {}\n",
                                 counted(static_cast<i64>(report.results.size()), "case", "cases"),
                                 report.options.directions > 0 ? counted(report.compared(), "direction", "directions")
                                                               : counted(report.compared(), "entry", "entries"),
                                 report.seconds, worst.report.error, worst.report.rtol, worst.name, worst_entry(worst.report));
  for (const CaseResult& result : report.results)
    if (!result.report.ok())
      text += fmt::format("{}: {}\n", result.name, without_line_breaks_at_the_end(to_string(result.report)));
  return text;
}

std::string to_json(const SuiteReport& report) {
  Json rows = Json::array();
  for (const CaseResult& result : report.results) {
    const GradcheckReport& r = result.report;
    rows.push_back({{"name", result.name},
                    {"ok", r.ok()},
                    {"compared", r.compared},
                    {"error", r.error},
                    {"rtol", r.rtol},
                    {"argument", r.argument},
                    {"index", std::vector<i64>(r.index.begin(), r.index.end())},
                    {"along_direction", r.along_direction},
                    {"analytic", r.analytic},
                    {"numeric", r.numeric},
                    {"wrong_entries", r.wrong},
                    {"problem", r.problem},
                    {"likely_cause", r.cause},
                    {"seconds", result.seconds}});
  }
  const CaseResult& worst = report.worst();
  return dump({{"ok", report.failed() == 0},
               {"dtype", name_of(report.options.dtype)},
               {"mode", report.options.directions > 0 ? "directions" : "exact"},
               {"cases", report.results.size()},
               {"failed", report.failed()},
               {"compared", report.compared()},
               {"worst_error", worst.report.error},
               {"worst_case", worst.name},
               {"seconds", report.seconds},
               {"results", rows}});
}

std::string to_junit(const SuiteReport& report) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  text += fmt::format(
      "  <testsuite name=\"gradients {}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"0\" time=\"{:.3f}\">\n",
      name_of(report.options.dtype), report.results.size(), report.failed(), report.seconds);
  for (const CaseResult& result : report.results) {
    text +=
        fmt::format("    <testcase classname=\"gradients\" name=\"{}\" time=\"{:.3f}\"", escaped(result.name), result.seconds);
    if (result.report.ok()) {
      text += "/>\n";
      continue;
    }
    const std::string why = without_line_breaks_at_the_end(to_string(result.report));
    text += fmt::format(">\n      <failure type=\"gradient\" message=\"{}\">{}</failure>\n    </testcase>\n",
                        escaped(why.substr(0, why.find('\n'))), escaped(why));
  }
  return text + "  </testsuite>\n</testsuites>\n";
}

std::string list_as_text(const std::vector<const Case*>& cases) {
  std::size_t width = 0;
  for (const Case* one : cases) width = std::max(width, one->name.size());
  std::string text;
  for (const Case* one : cases) text += fmt::format("{:{}}  {}\n", one->name, width, one->description());
  return text;
}

std::string list_as_json(const std::vector<const Case*>& cases) {
  Json list = Json::array();
  for (const Case* one : cases) {
    Json inputs = Json::array(), domains = Json::array();
    for (const NamedTensor& input : one->inputs)
      inputs.push_back(
          {{"name", input.name}, {"shape", std::vector<i64>(input.value.shape().begin(), input.value.shape().end())}});
    for (const Parameter* parameter : one->parameters)
      inputs.push_back({{"name", parameter->name},
                        {"shape", std::vector<i64>(parameter->value.shape().begin(), parameter->value.shape().end())}});
    for (const Case::Domain& domain : one->domains)
      domains.push_back({{"argument", domain.argument}, {"low", domain.low}, {"high", domain.high}});  // null: no bound
    list.push_back({{"name", one->name},
                    {"arguments", inputs},
                    {"domains", domains},
                    {"kink_distance", one->kink_distance},
                    {"rtol", one->rtol},
                    {"rtol_f32", one->rtol_f32}});
  }
  return dump(list);
}

}  // namespace seqgrad
