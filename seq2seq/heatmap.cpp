#include "seq2seq/heatmap.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "seq2seq/text.h"

namespace seqgrad::seq2seq {
namespace {

struct Shade {
  float from;
  const char *block, *ascii;
};
constexpr std::array<Shade, 5> shades{{{0, " ", " "}, {0.05f, "░", "."}, {0.2f, "▒", ":"}, {0.4f, "▓", "*"}, {0.7f, "█", "#"}}};

const char* shade(float weight, bool ascii) {
  const char* chosen = "?";  // NaN
  for (const Shade& one : shades)
    if (weight >= one.from) chosen = ascii ? one.ascii : one.block;
  return chosen;
}

std::string repeat(std::string_view text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

int width_of(char32_t c) {
  if ((c >= 0x300 && c <= 0x36f) || c == 0x200b || c == 0x200d || (c >= 0xfe00 && c <= 0xfe0f)) return 0;
  const bool wide = (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
                    (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
                    (c >= 0xffe0 && c <= 0xffe6) || (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd);
  return wide ? 2 : 1;
}

// At most `width` columns, control characters made visible.
std::string label(std::string_view word, int width) {
  std::string text;
  int used = 0;
  for (std::size_t i = 0; i < word.size();) {
    char32_t c = next_code_point(word, i);
    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029) c = '?';
    if (used + width_of(c) > width - (i < word.size() ? 1 : 0)) return text + (width > used ? "." : "");
    append_utf8(text, c);
    used += width_of(c);
  }
  return text;
}

std::string padded(const std::string& text, int width) { return text + repeat(" ", std::max(0, width - display_width(text))); }

std::string without_blanks_at_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

constexpr int widest_label = 24;

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t i = 0; i < text.size();) width += width_of(next_code_point(text, i));
  return width;
}

Alignment alignment_of(const Run& run, const std::vector<std::string>& source_words, const Translation& translation) {
  Alignment alignment;
  if (source_words.empty()) return alignment;
  const std::string& end = run.target.token(Vocabulary::end);
  alignment.source = source_words;
  alignment.source.push_back(end);
  for (const i64 id : translation.ids) alignment.target.push_back(run.target.token(id));
  if (!translation.cut_off) alignment.target.push_back(end);
  alignment.weights = translation.weights;
  alignment.cut_off = translation.cut_off;
  return alignment;
}

std::vector<std::string> words_with_copies(const Run& run, const std::vector<std::string>& source_words,
                                           const Translation& translation) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < translation.ids.size(); ++i) {
    const i64 id = translation.ids[i];
    if (id == Vocabulary::unknown) {
      const std::vector<float>& weights = translation.weights[i];
      // The last column is </s>, which is nothing to copy.
      const auto most = std::max_element(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(source_words.size()));
      words.push_back(source_words[static_cast<std::size_t>(most - weights.begin())]);
      continue;
    }
    for (std::string& word : run.target.decode({id})) words.push_back(std::move(word));
  }
  return words;
}

i64 crossings(const Alignment& alignment) {
  std::vector<i64> strongest;
  for (std::size_t t = 0; t + 1 < alignment.weights.size(); ++t) {
    const auto& row = alignment.weights[t];
    strongest.push_back(std::max_element(row.begin(), row.end() - 1) - row.begin());
  }
  i64 count = 0;
  for (std::size_t a = 0; a < strongest.size(); ++a)
    for (std::size_t b = a + 1; b < strongest.size(); ++b) count += strongest[a] > strongest[b];
  return count;
}

std::string draw_heatmap(const Alignment& alignment, const HeatmapOptions& options) {
  if (alignment.weights.empty()) return "";
  std::vector<std::string> source, target;
  int row_label = 0;
  for (const std::string& word : alignment.source) source.push_back(label(word, widest_label));
  for (const std::string& word : alignment.target) target.push_back(label(word, widest_label));
  for (const std::string& word : target) row_label = std::max(row_label, display_width(word));
  row_label += 2;

  // One column for each word as wide as the word, if they fit side by side; else narrow ones under a staircase of words.
  std::vector<int> widths;
  int total = row_label;
  for (const std::string& word : source) {
    widths.push_back(std::max(3, display_width(word)));
    total += widths.back() + 1;
  }
  std::string text;
  if (total <= options.width) {
    std::string line = repeat(" ", row_label);
    for (std::size_t s = 0; s < source.size(); ++s) line += padded(source[s], widths[s] + 1);
    text += without_blanks_at_end(line);
  } else {
    const int room = (options.width - row_label) / std::max(1, static_cast<int>(source.size()));
    std::fill(widths.begin(), widths.end(), std::clamp(room - 1, 1, 3));
    const char* line_down = options.ascii ? "|" : "│";
    for (std::size_t s = 0; s < source.size(); ++s) {
      std::string line = repeat(" ", row_label);
      for (std::size_t before = 0; before < s; ++before) line += padded(line_down, widths[before] + 1);
      text += without_blanks_at_end(line + source[s]);
    }
  }
  for (std::size_t t = 0; t < alignment.weights.size() && t < target.size(); ++t) {
    std::string line = padded(target[t], row_label);
    for (std::size_t s = 0; s < source.size(); ++s)
      line += repeat(shade(alignment.weights[t][s], options.ascii), widths[s]) + " ";
    text += without_blanks_at_end(line);
  }
  std::string legend = "weight:";
  for (std::size_t i = 1; i < shades.size(); ++i)
    legend += fmt::format("  {} from {:.2g}", repeat(options.ascii ? shades[i].ascii : shades[i].block, 3), shades[i].from);
  return text + legend + "\n";
}

std::string to_json(const Alignment& alignment) {
  std::string rows;
  for (const auto& row : alignment.weights) {
    std::string numbers;
    for (const float weight : row) numbers += fmt::format("{}{:.6g}", numbers.empty() ? "" : ", ", weight);
    rows += fmt::format("{}[{}]", rows.empty() ? "" : ", ", numbers);
  }
  return fmt::format(R"({{"source": {}, "target": {}, "weights": [{}]}})", nlohmann::json(alignment.source).dump(),
                     nlohmann::json(alignment.target).dump(), rows);
}

}  // namespace seqgrad::seq2seq
