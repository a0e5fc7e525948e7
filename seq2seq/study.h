// Studies of attention: what it can do and what it cannot, each a claim in plain words with its assumptions, computed on this
// library's tape and held against the closed form. Thread-safe: functions without state.
//
// Notation: m keys k_i of d dimensions with values v_i, a query q, scores s_i = q . k_i / sqrt(d), weights alpha = softmax(s),
// context = sum_i alpha_i v_i. Keys are lambda_i mu_i with orthonormal mu_i (so m <= d); c is the length of the query in
// units of a key. All in f64.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "seq2seq/report.h"
#include "tensor/tensor.h"

namespace seqgrad::seq2seq {

struct StudyOptions {
  i64 m = 8, d = 64;
  double c = 40;
  double beta = 0.1;  // variance of the noisy keys' lengths
  i64 samples = 20000;
  u64 seed = 1;
  std::vector<double> sweep = {0, 1, 5, 10, 20, 40, 80};  // of c
};

// One number from two sides.
struct StudyRow {
  std::string what;
  double theory = 0, measured = 0;
  double standard_error = 0;  // of a Monte-Carlo mean; 0: computed exactly

  double deviation() const;  // absolute
  double allowed() const;    // 3 standard errors, and 1e-12 in units of the larger of 1 and |theory|
  bool holds() const;        // false for NaN
};

struct StudyTable {
  std::string caption;
  std::vector<StudyRow> rows;
};

// Numbers that no closed form foretells.
struct Measurement {
  std::string caption;
  Table table;
};

// What many believe, and the numbers that speak against it.
struct Belief {
  std::string belief, finding;
  bool refuted = false;  // as measured
};

struct StudyPlot {
  std::string caption, x_label, y_label;
  std::vector<Curve> curves;
  Scale y_scale = Scale::by_range;
};

// A matrix to look at.
struct Exhibit {
  std::string name;
  Tensor value;
};

struct Study {
  std::string name, title, claim;
  std::vector<std::string> assumptions;
  std::vector<Exhibit> exhibits = {};
  std::vector<StudyTable> tables = {};
  std::vector<Measurement> measurements = {};
  std::vector<Belief> beliefs = {};
  std::vector<StudyPlot> plots = {};

  bool holds() const;  // every comparison does, and every belief is refuted
};

struct StudyEntry {
  const char *name, *summary;
  Study (*run)(const StudyOptions& options);
};
const std::vector<StudyEntry>& studies();

// Errors: "m is 1: it must be at least 3"; "m is 9 but d is 8: more than d keys cannot be orthogonal"; sizes, c, beta or
// samples out of range, and of noisy keys a c that is too large for the integrals.
Study selection_study(const StudyOptions& options);
Study averaging_study(const StudyOptions& options);
Study noisy_keys_study(const StudyOptions& options);
Study two_heads_study(const StudyOptions& options);
Study self_attention_study(const StudyOptions& options);
Study gradient_study(const StudyOptions& options);

// The bottleneck: translators trained on made-up text, of which a part must be copied and a part reversed.
struct BottleneckOptions {
  std::vector<std::string> attentions{"none", "mean", "sdp", "bahdanau"};
  std::vector<std::string> cells{"rnn", "lstm", "gru"};
  i64 longest = 12;  // symbols
  i64 symbols = 8;   // different ones
  i64 hidden = 48;
  i64 steps = 1000;    // of 32 sentences
  i64 sentences = 40;  // of each length, to test on
  u64 seed = 1;
  std::function<void(const std::string& line)> progress = {};  // after each training, from any thread, one at a time
};
// One training a thread at a time; the numbers are the same whatever the number of threads.
// Errors: sizes out of range, an unknown or doubled attention or cell.
Study bottleneck_study(const BottleneckOptions& options);

std::string to_text(const Study& study);
std::string to_json(const Study& study);  // one line
std::string to_html(const Study& study);  // a page of its own, without other files or scripts

}  // namespace seqgrad::seq2seq
