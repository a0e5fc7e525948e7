// No operation without a gradient-check case: what the sources record, and what the cases run, must agree.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "autograd/cases.h"
#include "autograd/differences.h"
#include "kernels/elementwise.h"
#include "kernels/profile.h"
#include "tensor/file.h"

using namespace seqgrad;

namespace {

using Names = std::set<std::string>;

// The operations whose backward runs in some case of this room. With copies in the place of views a view has a backward, too.
Names exercised() {
  struct Listing : TapeProbe {
    Names ops;
    bool copies = false;
    void around(const char* op, std::size_t, std::span<const Tensor> dy, const Backward& backward) override {
      ops.insert(op);
      backward(dy);
    }
    bool copies_views() const override { return copies; }
  } listing;
  Cases cases;
  add_autograd_cases(cases);
  for (const bool copies : {false, true}) {
    listing.copies = copies;
    for (const Case& one : cases.all())
      CheckedPoint(one.function, one.inputs, one.parameters, {}).gradients(DType::f64, 1, &listing);
  }
  return listing.ops;
}

Names all_matches(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  Names found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) found.insert((*match)[1]);
  return found;
}

std::map<std::string, std::string> operation_sources() {
  std::map<std::string, std::string> sources;
  for (const auto& entry : std::filesystem::directory_iterator(SEQGRAD_SOURCE "/autograd/ops"))
    if (entry.path().extension() == ".cpp") sources[entry.path().filename().string()] = read_file(entry.path().string());
  return sources;
}

// A name is the first of several arguments: record("exp", ...), unary<kernels::Exp>("exp", x), join("cat", ...); the cases'
// names are given to a member function.
Names recorded(const std::string& source) {
  return all_matches(source, R"re([^.\w]\w+(?:<[\w:]*>)?\(\s*"([a-z0-9_]+)"\s*,)re");
}

}  // namespace

TEST_CASE("every operation that a source records has a case") {
  const Names covered = exercised();
  CHECK(covered.size() > 30);
  std::size_t count = 0;
  for (const auto& entry : operation_sources()) {  // not [file, source]: clang 14 captures no structured bindings
    const std::string &file = entry.first, &source = entry.second;
    CAPTURE(file);
    CHECK(source.find("\nSEQGRAD_CASES(") != source.npos);
    for (const std::string& op : recorded(source)) {
      CAPTURE(op);
      CHECK(covered.contains(op));
      ++count;
    }
  }
  CHECK(count >= covered.size());  // else the pattern misses some
}

TEST_CASE("every routine is launched by a case, or is named here with the reason why not") {
  const std::map<std::string, std::string> excused{
      {"norm_and_clip", "the norm of a gradient, which is not differentiated itself"},
      {"sgd_step", "takes a gradient, and has none"},
      {"adam_step", "takes a gradient, and has none"},
      {"gemm_bf16", "rounds its operands: a function of steps, whose differences say nothing; its gradient is that of gemm"},
      {"attend", "of the search, which records nothing"},
      {"mix_rows", "of the search, which records nothing"},
      {"pack_linear", "of the search, which records nothing"},
      {"packed_linear", "of the search, which records nothing"},
      {"pack_linear_bf16", "lays out a weight for packed_linear_bf16"},
      {"packed_linear_bf16", "gemm_bf16 with a weight that was laid out before"},
      {"top_of_rows", "of the search, which records nothing"},
  };
  Names routines = all_matches(read_file(SEQGRAD_SOURCE "/kernels/ops.def"), R"(\nSEQGRAD_KERNEL\((\w+),)");
  CHECK(routines.size() > 20);
#define SEQGRAD_NAMES(functor, name) routines.insert({#name, #name "_backward"});
  SEQGRAD_UNARY_OPS(SEQGRAD_NAMES)
  SEQGRAD_BINARY_OPS(SEQGRAD_NAMES)
#undef SEQGRAD_NAMES

  Cases cases;
  add_autograd_cases(cases);
  kernels::start_profile();
  for (const Case& one : cases.all()) CheckedPoint(one.function, one.inputs, one.parameters, {}).gradients(DType::f64);
  kernels::stop_profile();
  Names launched;
  for (const kernels::RoutineProfile& one : kernels::profile()) launched.insert(one.name);

  for (const std::string& routine : routines) {
    CAPTURE(routine);
    CHECK(launched.contains(routine) != excused.contains(routine));
    if (const std::size_t suffix = routine.rfind("_backward"); suffix != routine.npos)
      CHECK(routines.contains(routine.substr(0, suffix)));
  }
  for (const std::string& routine : launched) {
    CAPTURE(routine);
    CHECK(routines.contains(routine));
  }
}
