// SentencePiece trusts a model beyond what it checks: it reads outside the table of characters to replace where that is not as
// a training made it, and ends the program at a piece with a zero byte. Thread-safe.
#pragma once

#include <string_view>

namespace seqgrad::seq2seq {

// Whether SentencePiece can be given `model`, a serialised ModelProto. True of what is none at all, which it refuses by itself.
bool is_sound_model(std::string_view model);

}  // namespace seqgrad::seq2seq
