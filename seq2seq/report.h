// A run as a page: facts, the learning curve, translations and their alignments; and what all our pages are made of. One file
// that needs no other and no script, readable in light and in dark, and without colours. Thread-safe: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "seq2seq/heatmap.h"
#include "seq2seq/train.h"

namespace seqgrad::seq2seq {

// The lines of a run's metrics.jsonl. Error: "runs/a/metrics.jsonl:3: no line of a training run".
std::vector<ValidationReport> read_metrics(const std::string& path);

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x, y; a point that is not finite is left out
};

// By range: logarithmic if all of it is positive and it spans more than a factor of 10.
enum class Scale { by_range, linear };

// Lines as an SVG element, which differ by their dashes and by the signs at their points, not by colour alone.
std::string draw_curves(const std::vector<Curve>& curves, const std::string& x_label, const std::string& y_label,
                        Scale y_scale = Scale::by_range);

// Words and numbers: the first column's to the left, all others to the right.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};
std::string table_text(const Table& table);
std::string table_html(const Table& table);

// One alignment as an HTML table.
std::string heatmap_html(const Alignment& alignment);

struct ReportedSentence {
  std::string source, reference, translation;
  Alignment alignment;
};

struct Report {
  std::string title, introduction;
  std::vector<std::pair<std::string, std::string>> facts;
  std::vector<ValidationReport> validations;
  std::vector<ReportedSentence> sentences;
};

std::string to_html(const Report& report);

// Of a training, from its folder: what it was and how it went.
Report training_report(const Run& run, const std::string& folder);

std::string escape_html(std::string_view text);
// A whole page with the style of all our reports; the body is HTML.
std::string html_page(const std::string& title, const std::string& body);
// The same in parts: what stands before the body, and what after it.
std::string html_head(const std::string& title);
extern const char* const html_end;

}  // namespace seqgrad::seq2seq
