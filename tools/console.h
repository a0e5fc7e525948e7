// What the program says: results on the standard output, where a write that fails is an error; progress and remarks on the
// standard error, where it is not. For one thread.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace seqgrad::tools {

// Thrown when the reader of our results has gone, as in `seqgrad translate | head -1`: the program ends quietly.
struct OutputClosed {};

// Buffered until flush_results(). Error (a failure): "cannot write to the standard output: No space left on device".
void write_result(std::string_view text);
void flush_results();

template <class... A>
void print(fmt::format_string<A...> format, A&&... arguments) {
  write_result(fmt::format(format, std::forward<A>(arguments)...));
}

void write_remark(std::string_view text);

template <class... A>
void remark(fmt::format_string<A...> format, A&&... arguments) {
  write_remark(fmt::format(format, std::forward<A>(arguments)...));
}

bool is_terminal(int descriptor);
int terminal_width(int descriptor);  // 100 where it is no terminal
bool speaks_utf8();                  // as LC_ALL, LC_CTYPE and LANG say

// Streams that the caller closed are opened on /dev/null, so that no other file gets their numbers; a reader that goes away
// is an error of the write, not a signal.
void prepare_streams();

}  // namespace seqgrad::tools
