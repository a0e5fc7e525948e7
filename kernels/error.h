// The one error type of the library. Every failure that a caller can cause or meet is an Error;
// its kind decides the program's exit status. Thread-safe (values only).
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace seqgrad {

class Error : public std::runtime_error {
 public:
  enum class Kind {
    bad_input,  // wrong arguments, shapes or files: exit status 2
    failure     // the work itself failed (a full disk, a diverged run): exit status 1
  };

  Error(Kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  explicit Error(const std::string& message) : Error(Kind::bad_input, message) {}

  Kind kind() const { return kind_; }
  int exit_status() const { return kind_ == Kind::bad_input ? 2 : 1; }

 private:
  Kind kind_;
};

// throw_error("[matmul] inner dimensions differ: {} x {}", a, b)
template <class... A>
[[noreturn]] void throw_error(fmt::format_string<A...> format, A&&... arguments) {
  throw Error(fmt::format(format, std::forward<A>(arguments)...));
}

template <class... A>
[[noreturn]] void throw_failure(fmt::format_string<A...> format, A&&... arguments) {
  throw Error(Error::Kind::failure, fmt::format(format, std::forward<A>(arguments)...));
}

}  // namespace seqgrad
