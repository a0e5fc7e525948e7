// A run as a page: facts, the learning curve, translations and their alignments. One file that needs no other and no
// script, readable in light and in dark. Thread-safe: functions without state.
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

// Lines as an SVG element; y is logarithmic if all of it is positive and it spans more than a factor of 10.
std::string draw_curves(const std::vector<Curve>& curves, const std::string& x_label, const std::string& y_label);

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
