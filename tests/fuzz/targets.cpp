#include "tests/fuzz/target.h"

namespace seqgrad::fuzz {

std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

}  // namespace seqgrad::fuzz
