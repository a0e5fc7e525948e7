// A translation's attention between words as readers count them, whatever tokens the model has: the words that whitespace
// separates in the line and in its translation. Thread-safe: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "seq2seq/heatmap.h"

namespace seqgrad::seq2seq {

// A source word has the sum of its tokens' weights, a target word the mean of its tokens' rows; a token that is part of several
// words is shared out among them equally. Rows sum to 1, </s> included. Of a line of which the model was given the beginning
// alone, the source is the words of that beginning. `tokens` is what the translation's text is joined of:
// run.target.decode(translation.ids), or words_with_copies().
Alignment word_alignment(const Run& run, std::string_view line, const Translation& translation,
                         const std::vector<std::string>& tokens);
Alignment word_alignment(const Run& run, std::string_view line, const Translation& translation);

// "0-0 1-2 2-1": for each target word the source word with the largest weight, as SOURCE-TARGET, both counted from 0, in the
// order of the target. A target word that looked at </s> more than at any word has no pair. "" for attention none.
std::string to_pharaoh(const Alignment& alignment);

}  // namespace seqgrad::seq2seq
