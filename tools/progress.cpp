#include "tools/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "tools/console.h"

namespace seqgrad::tools {

std::string clock_time(double seconds) {
  const auto s = static_cast<i64>(std::ceil(std::clamp(seconds, 0.0, 1e9)));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

Progress::Progress(const seq2seq::Settings& settings)
    : epochs_(settings.epochs), by_step_(settings.validate_every > 0), terminal_(is_terminal(STDERR_FILENO)) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (line_open_) tools::remark("\r\x1b[K");
  line_open_ = false;
}

void Progress::remark(const std::string& text) {
  clear();
  tools::remark("{}\n", text);
}

void Progress::step(const seq2seq::StepReport& report) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now - shown_ < std::chrono::milliseconds(100)) return;
  shown_ = now;
  std::string line =
      fmt::format("epoch {}/{}  step {}/{}  loss {:.3f}  {:.0f} tokens/s  {} left", report.epoch, epochs_, report.step_in_epoch,
                  report.steps_in_epoch, report.loss, report.tokens_per_second, clock_time(report.seconds_left));
  line.resize(std::min(line.size(), static_cast<std::size_t>(terminal_width(STDERR_FILENO) - 1)));
  tools::remark("\r\x1b[K{}", line);
  line_open_ = true;
}

void Progress::validation(const seq2seq::ValidationReport& report) {
  tools::remark("{}epoch {}/{}{}  train perplexity {:.2f}  validation perplexity {:.2f}{}{}  {:.1f} s  {:.0f} tokens/s\n",
                terminal_ ? "\r\x1b[K" : "", report.epoch, epochs_, by_step_ ? fmt::format("  step {}", report.step) : "",
                report.train_perplexity, report.validation_perplexity,
                std::isfinite(report.validation_bleu) ? fmt::format("  BLEU {:.2f}", report.validation_bleu) : "",
                report.best ? " (best)" : "", report.seconds, report.tokens_per_second);
  line_open_ = false;
}

}  // namespace seqgrad::tools
