#include "seq2seq/study.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace seqgrad::seq2seq {

double StudyRow::deviation() const { return std::fabs(measured - theory); }
double StudyRow::allowed() const { return 3 * standard_error + 1e-12 * std::max(1.0, std::fabs(theory)); }
bool StudyRow::holds() const { return deviation() <= allowed(); }

bool Study::holds() const {
  for (const StudyTable& table : tables)
    if (!std::all_of(table.rows.begin(), table.rows.end(), [](const StudyRow& row) { return row.holds(); })) return false;
  return std::all_of(beliefs.begin(), beliefs.end(), [](const Belief& one) { return one.refuted; });
}

const std::vector<StudyEntry>& studies() {
  static const std::vector<StudyEntry> all = {
      {"selection", "when one key gets the weight: its score must beat all the others together", selection_study},
      {"averaging", "one query for two keys: how long it must be to average their values", averaging_study},
      {"noisy-keys", "the same with keys of noisy length: the average is lost", noisy_keys_study},
      {"two-heads", "two heads, one key each: the average comes back", two_heads_study},
      {"self-attention", "any two positions of a sequence are one step apart", self_attention_study},
      {"gradient", "backpropagation through one attention step, by hand and by the tape", gradient_study},
  };
  return all;
}

namespace {

std::string number(double x) {
  return x == 0 || (std::fabs(x) >= 1e-3 && std::fabs(x) < 1e6) ? fmt::format("{:.9f}", x) : fmt::format("{:.5e}", x);
}

std::string verdict(const StudyRow& row) {
  return row.standard_error > 1e-12 ? fmt::format("{:.1f} SE", row.deviation() / row.standard_error)
                                    : fmt::format("{:.1e}", row.deviation());
}

std::string matrix_text(const Tensor& x) {
  const Tensor rows = x.dim() == 2 ? x : x.reshape({1, -1});
  std::string text;
  for (i64 i = 0; i < rows.size(0); ++i) {
    text += "   ";
    for (i64 j = 0; j < rows.size(1); ++j) text += fmt::format(" {:10.6f}", rows.at({i, j}));
    text += '\n';
  }
  return text;
}

}  // namespace

std::string to_text(const Study& study) {
  std::string text = fmt::format("{}\n\n{}\n\nAssumptions\n", study.title, study.claim);
  for (const std::string& one : study.assumptions) text += fmt::format("  - {}\n", one);
  for (const Exhibit& exhibit : study.exhibits)
    text += fmt::format("\n{} {}\n{}", exhibit.name, exhibit.value.shape(), matrix_text(exhibit.value));
  for (const StudyTable& table : study.tables) {
    text += fmt::format("\n{}\n{:<46} {:>15} {:>15} {:>10}\n", table.caption, "", "theory", "measured", "deviation");
    for (const StudyRow& row : table.rows)
      text += fmt::format("{:<46} {:>15} {:>15} {:>10}{}\n", row.what, number(row.theory), number(row.measured), verdict(row),
                          row.holds() ? "" : "  TOO LARGE");
  }
  for (const Measurement& one : study.measurements) text += fmt::format("\n{}\n{}", one.caption, table_text(one.table));
  for (const Belief& one : study.beliefs)
    text += fmt::format("\nBelief: {}\n{}: {}\n", one.belief, one.refuted ? "False" : "NOT REFUTED", one.finding);
  std::size_t rows = 0;
  double worst = 0, worst_errors = 0;
  for (const StudyTable& table : study.tables)
    for (const StudyRow& row : table.rows) {
      ++rows;
      if (row.standard_error > 1e-12)
        worst_errors = std::max(worst_errors, row.deviation() / row.standard_error);
      else
        worst = std::max(worst, row.deviation());
    }
  text += fmt::format("\n{}: {} comparisons, largest deviation {:.1e}", study.holds() ? "holds" : "DOES NOT HOLD", rows, worst);
  if (worst_errors > 0) text += fmt::format(", of Monte-Carlo means {:.1f} standard errors", worst_errors);
  return text + "\n";
}

std::string to_json(const Study& study) {
  nlohmann::ordered_json tables = nlohmann::ordered_json::array(), measurements = tables, beliefs = tables;
  for (const StudyTable& table : study.tables) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const StudyRow& row : table.rows) {
      nlohmann::ordered_json one = {
          {"what", row.what}, {"theory", row.theory}, {"measured", row.measured}, {"deviation", row.deviation()}};
      if (row.standard_error > 0) one["standard_error"] = row.standard_error;
      one["holds"] = row.holds();
      rows.push_back(one);
    }
    tables.push_back({{"caption", table.caption}, {"rows", rows}});
  }
  for (const Measurement& one : study.measurements)
    measurements.push_back({{"caption", one.caption}, {"columns", one.table.columns}, {"rows", one.table.rows}});
  for (const Belief& one : study.beliefs)
    beliefs.push_back({{"belief", one.belief}, {"finding", one.finding}, {"refuted", one.refuted}});
  nlohmann::ordered_json all = {
      {"study", study.name}, {"claim", study.claim}, {"assumptions", study.assumptions}, {"tables", tables}};
  if (!study.measurements.empty()) all["measurements"] = measurements;
  all["beliefs"] = beliefs;
  all["holds"] = study.holds();
  return all.dump();
}

std::string to_html(const Study& study) {
  std::string body = fmt::format("<p>{}</p>\n<h2>Assumptions</h2>\n<ul>\n", escape_html(study.claim));
  for (const std::string& one : study.assumptions) body += fmt::format("<li>{}</li>\n", escape_html(one));
  body += "</ul>\n";
  if (!study.exhibits.empty()) body += "<h2>The matrices</h2>\n";
  for (const Exhibit& exhibit : study.exhibits)
    body += fmt::format("<p>{} {}</p>\n<pre>{}</pre>\n", escape_html(exhibit.name), exhibit.value.shape(),
                        matrix_text(exhibit.value));
  for (const StudyPlot& plot : study.plots)
    body += fmt::format("<h2>{}</h2>\n{}", escape_html(plot.caption),
                        draw_curves(plot.curves, plot.x_label, plot.y_label, plot.y_scale));
  for (const StudyTable& table : study.tables) {
    body += fmt::format(
        "<h2>{}</h2>\n<div class=\"scroll\"><table class=\"numbers\"><thead><tr><th></th><th>theory</th>"
        "<th>measured</th><th>deviation</th></tr></thead>\n<tbody>\n",
        escape_html(table.caption));
    for (const StudyRow& row : table.rows)
      body += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}{}</td></tr>\n", escape_html(row.what),
                          number(row.theory), number(row.measured), verdict(row), row.holds() ? "" : " (too large)");
    body += "</tbody></table></div>\n";
  }
  for (const Measurement& one : study.measurements)
    body += fmt::format("<h2>{}</h2>\n{}", escape_html(one.caption), table_html(one.table));
  if (!study.beliefs.empty()) body += "<h2>What many believe</h2>\n";
  for (const Belief& one : study.beliefs)
    body += fmt::format("<p><em>{}</em><br>{} {}</p>\n", escape_html(one.belief), one.refuted ? "False." : "Not refuted.",
                        escape_html(one.finding));
  return html_page(study.title, body);
}

}  // namespace seqgrad::seq2seq
