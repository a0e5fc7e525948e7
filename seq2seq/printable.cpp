#include "seq2seq/printable.h"

namespace seqgrad::seq2seq {

std::string printable(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F)
      line += fmt::format("\\x{:02x}", byte);
    else
      line += c;
  }
  return line;
}

}  // namespace seqgrad::seq2seq
