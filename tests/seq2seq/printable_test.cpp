// Messages that quote what a file holds.
#include "seq2seq/printable.h"

#include <doctest/doctest.h>

#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

TEST_CASE("control characters are written out, and nothing else is changed") {
  CHECK(printable("") == "");
  CHECK(printable("läuft \\ 'a'") == "läuft \\ 'a'");
  CHECK(printable(std::string("a\nb\r\t\x1b[31m\x7f\0", 12)) == "a\\x0ab\\x0d\\x09\\x1b[31m\\x7f\\x00");
}

TEST_CASE("a message that quotes a line break is one line, of the same kind") {
  CHECK(with_printable_errors([] { return 7; }) == 7);
  CHECK(message_of([] { with_printable_errors([] { throw_error("no '{}'", "a\nb"); }); }) == "no 'a\\x0ab'");
  try {
    with_printable_errors([] { throw_failure("a\nb"); });
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.exit_status() == 1);
  }
}
