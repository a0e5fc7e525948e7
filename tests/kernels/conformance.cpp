#include "tests/kernels/conformance.h"

#include <set>

namespace seqgrad::kernels::test {

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

TEST_CASE("every routine of ops.def has a conformance case") {
  std::set<std::string> covered;
  for (const Case& one : cases()) covered.insert(one.name);
#define SEQGRAD_KERNEL(name, parameters, arguments) CHECK_MESSAGE(covered.count(#name) == 1, #name);
#include "kernels/ops.def"
#undef SEQGRAD_KERNEL
}

TEST_CASE("every routine agrees with v1") {
  for (const Level& level : levels()) {
    for (const Case& one : cases()) {
      INFO(one.name, " at ", level.name);
      {
        INFO("float");
        generator().seed(7);
        one.floats(level.floats);
      }
      {
        INFO("double");
        generator().seed(7);
        one.doubles(level.doubles);
      }
    }
  }
}

}  // namespace seqgrad::kernels::test
