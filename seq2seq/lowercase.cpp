// Case needs all of Unicode's tables, which ICU keeps.
#include <unicode/bytestream.h>
#include <unicode/casemap.h>

#include "kernels/error.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {

std::string lowercase(std::string_view text) {
  std::string lower;
  icu::StringByteSink<std::string> sink(&lower);
  UErrorCode error = U_ZERO_ERROR;
  icu::CaseMap::utf8ToLower("", 0, text, sink, nullptr, error);  // "": no language's special rules
  if (U_FAILURE(error)) throw_failure("[lowercase] {}", u_errorName(error));
  return lower;
}

}  // namespace seqgrad::seq2seq
