#include "seq2seq/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {
namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24; --faint: #5b6470; --rule: #d5dae0; --a: #1d4ed8; --b: #b45309;
  --c: #0f766e; --d: #9d174d; --e: #6d28d9; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171b; --ink: #e6e9ed; --faint: #a0a9b4; --rule: #3a414a; --a: #8ab4ff; --b: #f5b05a;
    --c: #5eead4; --d: #f9a8d4; --e: #c4b5fd; }
}
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table.facts th { text-align: left; font-weight: normal; color: var(--faint); padding-right: 1.5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; margin: 1rem 0 .4rem; }
dt, dd.empty { color: var(--faint); } dd { margin: 0; }
.scroll, pre { overflow-x: auto; }
h1, table.facts td, dd { overflow-wrap: anywhere; }
table.map { border-collapse: collapse; margin: .4rem 0 1.4rem; font-size: .9rem; }
table.map thead th { writing-mode: vertical-rl; transform: rotate(180deg); text-align: left; padding: .3rem .2rem;
  font-weight: normal; }
table.map tbody th { text-align: right; padding-right: .6rem; font-weight: normal; white-space: nowrap; }
table.map td { width: 2rem; height: 1.7rem; min-width: 2rem; text-align: center; border: 1px solid var(--rule);
  font-size: .75rem; font-variant-numeric: tabular-nums; }
table.map td.strong { color: #ffffff; }
table.numbers { border-collapse: collapse; font-variant-numeric: tabular-nums; }
table.numbers th { text-align: left; font-weight: normal; padding-right: 1.5rem; }
table.numbers tbody th, table.numbers td { white-space: nowrap; }
table.numbers td, table.numbers thead th { text-align: right; padding: 0 0 0 1.5rem; }
table.numbers thead th:first-child { text-align: left; padding-left: 0; } table.numbers tr { border-bottom: 1px solid var(--rule); }
svg text { font: 13px system-ui, sans-serif; fill: var(--ink); }
svg .faint { fill: var(--faint); } svg .grid { stroke: var(--rule); } svg .axis { stroke: var(--faint); }
svg .line { fill: none; stroke-width: 2; }
svg .c0 { stroke: var(--a); } svg .c1 { stroke: var(--b); stroke-dasharray: 7 4; } svg .c2 { stroke: var(--ink); stroke-dasharray: 2 3; }
svg .c3 { stroke: var(--c); stroke-dasharray: 12 3 2 3; } svg .c4 { stroke: var(--d); stroke-dasharray: 12 5; } svg .c5 { stroke: var(--e); stroke-dasharray: 4 2; }
svg .sign { fill: var(--paper); stroke-width: 1.5; stroke-dasharray: none; }
)";

// 1, 2 or 5 times a power of ten: the smallest such step with at most `most` steps over the range.
double tick_step(double range, int most) {
  const double power = std::pow(10, std::floor(std::log10(range / most)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (range / (factor * power) <= most) return factor * power;
  return 10 * power;
}

struct Axis {
  double low, high;
  bool logarithmic;
  double from, to;  // in the picture

  double place(double value) const {
    const auto scale = [&](double x) { return logarithmic ? std::log(x) : x; };
    return from + (to - from) * (scale(value) - scale(low)) / (scale(high) - scale(low));
  }
  std::vector<double> ticks(int most, double least_step = 0) const {
    std::vector<double> all;
    if (logarithmic) {
      const bool few = std::log10(high / low) < 4;
      for (double power = std::pow(10, std::floor(std::log10(low))); power <= high; power *= 10)
        for (const double factor : {1.0, 2.0, 5.0})
          if ((few || factor == 1) && factor * power >= low * 0.999 && factor * power <= high * 1.001)
            all.push_back(factor * power);
    } else {
      const double step = std::max(tick_step(high - low, most), least_step);
      for (double tick = std::ceil(low / step - 1e-9) * step; tick <= high + 1e-9 * step; tick += step)
        all.push_back(std::fabs(tick) < 1e-9 * step ? 0 : tick);
    }
    return all;
  }
};

constexpr std::size_t curve_styles = 6;

// A curve's sign at a point: circle, square, triangle, diamond, triangle upside down, hourglass.
std::string sign(std::size_t curve, double x, double y) {
  constexpr const char* shapes[curve_styles] = {
      "m-3.5 0 a3.5 3.5 0 1 0 7 0 a3.5 3.5 0 1 0 -7 0z", "m-3 -3 h6 v6 h-6z", "m0 -4 l4 7 h-8z",
      "m0 -4.5 l4.5 4.5 l-4.5 4.5 l-4.5 -4.5z",          "m0 4 l4 -7 h-8z",   "m-3.5 -3.5 h7 l-7 7 h7z"};
  return fmt::format("<path class=\"sign c{0}\" d=\"M{1:.1f} {2:.1f} {3}\"/>", curve % curve_styles, x, y,
                     shapes[curve % curve_styles]);
}

// Where the curves' names stand: at the curves' ends, but a line apart.
void spread_labels(std::vector<std::pair<double, std::size_t>>& labels, double low, double high) {
  constexpr double line = 16;
  std::sort(labels.begin(), labels.end());
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i].first = std::max(labels[i].first, i ? labels[i - 1].first + line : low);
  double room = high;
  for (std::size_t i = labels.size(); i-- > 0; room -= line) labels[i].first = std::min(labels[i].first, room);
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::vector<ValidationReport> read_metrics(const std::string& path) {
  std::vector<ValidationReport> validations;
  LineReader reader(path);
  for (std::string line; reader.next(line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    const auto number = [&](const char* key, double otherwise = NAN) {
      const auto value = json.is_object() ? json.find(key) : json.end();
      return json.is_object() && value != json.end() && value->is_number() ? value->get<double>() : otherwise;
    };
    const auto whole = [&](const char* key, double least, double otherwise) {
      const double value = number(key, otherwise);
      if (!(value >= least && value < 1e15)) throw_error("{}:{}: no line of a training run", path, reader.line_number());
      return static_cast<i64>(value);
    };
    ValidationReport report;
    report.epoch = whole("epoch", 1, NAN);
    report.step = whole("step", 0, 0);
    report.epochs = number("epochs", static_cast<double>(report.epoch));
    report.train_loss = number("train_loss");
    report.train_perplexity = number("train_perplexity");
    report.validation_perplexity = number("validation_perplexity");
    report.validation_bleu = number("validation_bleu");
    report.learning_rate = number("learning_rate");
    report.gradient_norm = number("gradient_norm");
    report.tokens_per_second = number("tokens_per_second");
    report.seconds = number("seconds");
    report.validation_seconds = number("validation_seconds");
    report.best = json.contains("best") && json["best"].is_boolean() && json["best"].get<bool>();
    validations.push_back(report);
  }
  return validations;
}

std::string draw_curves(const std::vector<Curve>& curves, const std::string& x_label, const std::string& y_label,
                        Scale y_scale) {
  constexpr double width = 720, height = 320, left = 80, top = 16, bottom = 48;
  double right = 100;
  for (const Curve& curve : curves) right = std::max(right, 44 + 7.5 * display_width(curve.name));
  double x_low = INFINITY, x_high = -INFINITY, y_low = INFINITY, y_high = -INFINITY;
  bool whole = true;  // every x is
  for (const Curve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      whole = whole && x == std::floor(x);
      x_low = std::min(x_low, x);
      x_high = std::max(x_high, x);
      y_low = std::min(y_low, y);
      y_high = std::max(y_high, y);
    }
  }
  if (!(x_low <= x_high)) return "<p>Nothing to draw.</p>\n";
  const bool logarithmic = y_scale == Scale::by_range && y_low > 0 && y_high / y_low > 10;
  if (logarithmic) {
    // Down to 1, 2 or 5 times a power of ten, so that the lowest line has its number.
    const double power = std::pow(10, std::floor(std::log10(y_low)));
    y_low = power * (y_low >= 5 * power ? 5 : y_low >= 2 * power ? 2 : 1);
  }
  if (x_low == x_high) {
    x_low -= 0.5;
    x_high += 0.5;
  }
  if (!logarithmic) {
    const double margin = y_high > y_low ? 0.05 * (y_high - y_low) : std::max(1.0, std::fabs(y_low)) * 0.5;
    y_low -= margin;
    y_high += margin;
  }
  const Axis x{x_low, x_high, false, left, width - right}, y{y_low, y_high, logarithmic, height - bottom, top};

  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" style=\"max-width: 100%; height: auto\" "
      "role=\"img\" aria-label=\"{2} by {3}\">\n",
      width, height, escape_html(y_label), escape_html(x_label));
  for (const double tick : y.ticks(6))
    svg += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5:.4g}</text>\n",
        left, width - right, y.place(tick), left - 8, y.place(tick) + 4, tick);
  for (const double tick : x.ticks(10, whole ? 1 : 0))
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.4g}</text>\n", x.place(tick),
                       height - bottom + 20, tick);
  svg +=
      fmt::format("<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\"/>\n", left, width - right, height - bottom);
  svg += fmt::format("<text class=\"faint\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (left + width - right) / 2, height - 8, escape_html(x_label));
  svg +=
      fmt::format("<text class=\"faint\" transform=\"translate(14 {:.1f}) rotate(-90)\" text-anchor=\"middle\">{}{}</text>\n",
                  (top + height - bottom) / 2, escape_html(y_label), logarithmic ? " (logarithmic)" : "");
  std::vector<std::pair<double, std::size_t>> labels;
  for (std::size_t i = 0; i < curves.size(); ++i) {
    std::string path, signs;
    double last_y = top;
    std::size_t count = 0;
    for (const auto& [px, py] : curves[i].points) {
      if (!std::isfinite(px) || !std::isfinite(py)) continue;
      last_y = y.place(py);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : " L", x.place(px), last_y);
      signs += sign(i, x.place(px), last_y);
      ++count;
    }
    if (path.empty()) continue;
    labels.emplace_back(last_y, i);
    svg += fmt::format("<path class=\"line c{}\" d=\"{}\"/>{}\n", i % curve_styles, path, count <= 40 ? signs : "");
  }
  spread_labels(labels, top + 4, height - bottom);
  for (const auto& [place, i] : labels)
    svg += fmt::format(
        "<line class=\"line c{0}\" x1=\"{1:.1f}\" x2=\"{2:.1f}\" y1=\"{3:.1f}\" y2=\"{3:.1f}\"/>{4}"
        "<text x=\"{5:.1f}\" y=\"{6:.1f}\">{7}</text>\n",
        i % curve_styles, width - right + 10, width - right + 32, place, sign(i, width - right + 21, place), width - right + 38,
        place + 4, escape_html(curves[i].name));
  return svg + "</svg>\n";
}

std::string table_text(const Table& table) {
  std::vector<int> widths;
  for (const std::string& column : table.columns) widths.push_back(display_width(column));
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  std::string text;
  const auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i) {
      const std::string blanks(static_cast<std::size_t>(widths[i] - display_width(row[i])), ' ');
      line += i == 0 ? row[i] + blanks : "  " + blanks + row[i];
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  };
  add(table.columns);
  for (const auto& row : table.rows) add(row);
  return text;
}

std::string table_html(const Table& table) {
  std::string html = "<div class=\"scroll\"><table class=\"numbers\"><thead><tr>";
  for (const std::string& column : table.columns) html += fmt::format("<th scope=\"col\">{}</th>", escape_html(column));
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    html += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      html += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", escape_html(row[i]))
                     : fmt::format("<td>{}</td>", escape_html(row[i]));
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string heatmap_html(const Alignment& alignment) {
  if (alignment.weights.empty()) return "";
  std::string html = "<div class=\"scroll\"><table class=\"map\"><thead><tr><td style=\"border: 0\"></td>";
  for (const std::string& word : alignment.source)
    html += fmt::format("<th scope=\"col\" dir=\"auto\">{}</th>", escape_html(word));
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t t = 0; t < alignment.weights.size() && t < alignment.target.size(); ++t) {
    html += fmt::format("<tr><th scope=\"row\" dir=\"auto\">{}</th>", escape_html(alignment.target[t]));
    for (std::size_t s = 0; s < alignment.weights[t].size() && s < alignment.source.size(); ++s) {
      const double weight = static_cast<double>(alignment.weights[t][s]);
      html += fmt::format("<td{} style=\"background: rgba(29,78,216,{:.2f})\" title=\"{} looks at {}: {:.3f}\">{}</td>",
                          weight >= 0.7 ? " class=\"strong\"" : "", weight, escape_html(alignment.target[t]),
                          escape_html(alignment.source[s]), weight,
                          weight >= 0.05 ? fmt::format("{:.0f}", 100 * weight) : std::string());
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

namespace {

std::string curves(const std::vector<ValidationReport>& validations) {
  if (validations.empty()) return "";
  Curve train{"training", {}}, valid{"validation", {}}, bleu{"BLEU", {}}, rate{"learning rate", {}};
  for (const ValidationReport& one : validations) {
    train.points.emplace_back(one.epochs, one.train_perplexity);
    valid.points.emplace_back(one.epochs, one.validation_perplexity);
    bleu.points.emplace_back(one.epochs, one.validation_bleu);
    rate.points.emplace_back(one.epochs, one.learning_rate);
  }
  const auto known = [](const Curve& curve) {
    return std::any_of(curve.points.begin(), curve.points.end(), [](const auto& point) { return std::isfinite(point.second); });
  };
  const auto changes = [](const Curve& curve) {
    return std::any_of(curve.points.begin(), curve.points.end(),
                       [&](const auto& point) { return point.second != curve.points.front().second; });
  };
  std::string html = "<h2>Learning curve</h2>\n" + draw_curves({train, valid}, "epoch", "perplexity");
  if (known(bleu)) html += draw_curves({bleu}, "epoch", "validation BLEU", Scale::linear);
  if (known(rate) && changes(rate)) html += draw_curves({rate}, "epoch", "learning rate");
  return html;
}

}  // namespace

std::string html_head(const std::string& title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n<style>{1}</style>\n"
      "</head>\n<body>\n<h1>{0}</h1>\n",
      escape_html(title), style);
}

const char* const html_end = "</body>\n</html>\n";

std::string html_page(const std::string& title, const std::string& body) { return html_head(title) + body + html_end; }

std::string to_html(const Report& report) {
  std::string html = fmt::format("<p>{}</p>\n", escape_html(report.introduction));
  html += "<table class=\"facts\">\n";
  for (const auto& [name, value] : report.facts)
    html += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape_html(name), escape_html(value));
  html += "</table>\n";
  html += curves(report.validations);
  if (!report.sentences.empty())
    html +=
        "<h2>Unseen sentences</h2>\n<p>Rows are the words of the translation, columns those of the source; a cell is the share "
        "of attention, in per cent, that the row's word gave to the column's.</p>\n";
  for (const ReportedSentence& sentence : report.sentences) {
    html += fmt::format("<dl><dt>source</dt><dd>{}</dd><dt>reference</dt><dd>{}</dd><dt>translation</dt><dd>{}</dd></dl>\n",
                        escape_html(sentence.source), escape_html(sentence.reference), escape_html(sentence.translation));
    html += heatmap_html(sentence.alignment);
  }
  return html_page(report.title, html);
}

Report training_report(const Run& run, const std::string& folder) {
  const Settings& settings = run.settings;
  Report report;
  report.title = folder;
  report.introduction = "A translator in training: perplexity by epoch, of the training text and of the validation text.";
  report.validations = read_metrics(path_in(folder, "metrics.jsonl"));
  double seconds = 0;
  const ValidationReport* best = nullptr;
  for (const ValidationReport& one : report.validations) {
    if (std::isfinite(one.seconds)) seconds += one.seconds;
    if (std::isfinite(one.validation_seconds)) seconds += one.validation_seconds;
    if (one.best) best = &one;
  }
  i64 parameters = 0;
  for (const Parameter* parameter : run.block.parameters()) parameters += parameter->value.numel();
  report.facts = {
      {"model", fmt::format("attention {}, {}, {} parameters", settings.attention, settings.cell, parameters)},
      {"training text", fmt::format("{}, {}", settings.train_source, settings.train_target)},
      {"so far", report.validations.empty() ? std::string("no validation")
                                            : fmt::format("{} steps, {:.4g} epochs, {:.0f} s", report.validations.back().step,
                                                          report.validations.back().epochs, seconds)}};
  if (best) {
    std::string text = fmt::format("perplexity {:.4g}", best->validation_perplexity);
    if (std::isfinite(best->validation_bleu)) text += fmt::format(", BLEU {:.2f}", best->validation_bleu);
    report.facts.emplace_back("best validation", text + fmt::format(" after step {}, epoch {}", best->step, best->epoch));
  }
  return report;
}

}  // namespace seqgrad::seq2seq
