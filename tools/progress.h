// How training goes on, on the standard error: on a terminal one line that changes, elsewhere one line a validation.
#pragma once

#include <chrono>
#include <string>

#include "seq2seq/train.h"

namespace seqgrad::tools {

class Progress {
 public:
  explicit Progress(const seq2seq::Settings& settings);
  ~Progress();  // leaves the terminal at the start of an empty line

  void step(const seq2seq::StepReport& report);
  void remark(const std::string& text);
  void clear();  // the line that changes
  void validation(const seq2seq::ValidationReport& report);

 private:
  i64 epochs_;
  bool by_step_;  // validations are not at the ends of epochs
  bool terminal_, line_open_ = false;
  std::chrono::steady_clock::time_point shown_{};
};

// "1:02:03", "2:03" or "0:03"
std::string clock_time(double seconds);

}  // namespace seqgrad::tools
