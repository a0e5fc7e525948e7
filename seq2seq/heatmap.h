// Which source words a translation looked at: as text for a terminal, and as JSON. Thread-safe: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "seq2seq/search.h"

namespace seqgrad::seq2seq {

struct Alignment {
  std::vector<std::string> source, target;  // words, each with its </s> (a translation that was cut off has none)
  std::vector<std::vector<float>> weights;  // [target][source], rows sum to 1; empty for attention none
  bool cut_off = false;
};

Alignment alignment_of(const Run& run, const std::vector<std::string>& source_words, const Translation& translation);

// The translation's words with, in place of each <unk>, the source word that it looked at most.
std::vector<std::string> words_with_copies(const Run& run, const std::vector<std::string>& source_words,
                                           const Translation& translation);

// The number of pairs of target words whose strongest source words stand in the opposite order; </s> is left out.
i64 crossings(const Alignment& alignment);

struct HeatmapOptions {
  bool ascii = false;  // shades as . : * #, not as block characters
  int width = 100;     // columns of the terminal
};

// A row for each target word, a column for each source word, the weight as a shade; a legend below. Wide sentences get
// their source words as a staircase above the columns. Control characters in words are shown as '?'.
// Attention none gives "".
std::string draw_heatmap(const Alignment& alignment, const HeatmapOptions& options = {});

// {"source": ["der", "hund", "</s>"], "target": [...], "weights": [[0.93, 0.05, 0.02], ...]}, one line, without its end.
std::string to_json(const Alignment& alignment);

// Columns that a terminal needs for the text: 0 for combining marks, 2 for East Asian wide characters.
int display_width(std::string_view text);

}  // namespace seqgrad::seq2seq
