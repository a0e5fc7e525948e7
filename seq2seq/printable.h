// Messages that quote what a file holds: a line break in it must not make two lines of one, nor a control character speak to
// the terminal. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "kernels/error.h"

namespace seqgrad::seq2seq {

std::string printable(std::string_view text);  // control characters as \x0a

// What `read` gives; the message of an Error becomes printable.
template <class F>
auto with_printable_errors(F&& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.kind(), printable(error.what()));
  }
}

}  // namespace seqgrad::seq2seq
