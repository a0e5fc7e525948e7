#include "seq2seq/breakdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace seqgrad::seq2seq {
namespace {

struct Rule {
  std::string_view prefix;
  const char* kind;
};
// The first that fits. A decoder's products in batches are those of attention, as is its softmax.
constexpr Rule rules[] = {{"gemm_batched", "attention"},
                          {"gemm", "matrix products"},
                          {"pack_linear", "matrix products"},
                          {"packed_linear", "matrix products"},
                          {"gru_", "gates"},
                          {"lstm_", "gates"},
                          {"rnn_", "gates"},
                          {"additive_", "attention"},
                          {"attention", "attention"},
                          {"masked_softmax", "attention"},
                          {"softmax", "attention"},
                          {"cross_entropy", "softmax, loss"},
                          {"log_softmax", "softmax, loss"},
                          {"adam_step", "clip, optimiser"},
                          {"sgd_step", "clip, optimiser"},
                          {"norm_and_clip", "clip, optimiser"},
                          {"dropout", "dropout"},
                          {"gather_rows", "embedding, rows"},
                          {"scatter_add_rows", "embedding, rows"}};
constexpr const char* other_kind = "copies, sums";
constexpr const char* order[] = {"matrix products", "gates",   "attention",       "softmax, loss",
                                 "clip, optimiser", "dropout", "embedding, rows", "copies, sums"};

std::vector<TimeShare> longest_first(std::vector<TimeShare> shares) {
  std::stable_sort(shares.begin(), shares.end(),
                   [](const TimeShare& a, const TimeShare& b) { return a.milliseconds > b.milliseconds; });
  return shares;
}

}  // namespace

const char* kind_of(const std::string& routine) {
  for (const Rule& rule : rules)
    if (routine.starts_with(rule.prefix)) return rule.kind;
  return other_kind;
}

void Breakdown::add_step(const std::vector<kernels::RoutineProfile>& routines, double seconds, double data_seconds) {
  ++steps_;
  seconds_ += seconds;
  data_seconds_ += data_seconds;
  for (const kernels::RoutineProfile& one : routines) {
    const double calls = static_cast<double>(one.calls);
    const auto add_to = [&](Sum& sum) {
      sum.calls += calls;
      sum.seconds += one.seconds;
      sum.flops += one.flops;
      sum.bytes += one.bytes;
      sum.m += calls * static_cast<double>(one.product.m);
      sum.n += calls * static_cast<double>(one.product.n);
      sum.k += calls * static_cast<double>(one.product.k);
    };
    add_to(kinds_[kind_of(one.name)]);
    if (one.product.batch == 0) {
      add_to(routines_[one.name]);
      continue;
    }
    kernels::ProductShape shape = one.product;
    for (i64* size : {&shape.m, &shape.n, &shape.k})
      if (!fixed_.contains(*size)) *size = 0;
    if (one.name != "gemm_batched") shape.batch = 0;  // a batch of one lies among the batches
    add_to(products_[shape]);
  }
}

double Breakdown::milliseconds() const { return steps_ ? 1e3 * seconds_ / static_cast<double>(steps_) : 0; }

TimeShare Breakdown::share_of(const std::string& name, const Sum& sum) const {
  TimeShare share{name, 0, 0, 0, 0, 0};
  if (steps_ == 0) return share;
  share.calls = sum.calls / static_cast<double>(steps_);
  share.milliseconds = 1e3 * sum.seconds / static_cast<double>(steps_);
  if (seconds_ > 0) share.share = sum.seconds / seconds_;
  if (sum.seconds > 0) {
    share.gflops = 1e-9 * sum.flops / sum.seconds;
    share.gigabytes_per_second = 1e-9 * sum.bytes / sum.seconds;
  }
  return share;
}

std::vector<TimeShare> Breakdown::kinds() const {
  std::vector<TimeShare> shares;
  double known = data_seconds_;
  for (const char* kind : order) {
    const auto found = kinds_.find(kind);
    const Sum sum = found == kinds_.end() ? Sum{} : found->second;
    known += sum.seconds;
    shares.push_back(share_of(kind, sum));
  }
  Sum data, rest;
  data.seconds = data_seconds_;
  rest.seconds = seconds_ - known;
  shares.push_back(share_of("data", data));
  shares.push_back(share_of("rest", rest));
  return shares;
}

std::vector<TimeShare> Breakdown::products() const {
  std::vector<TimeShare> shares;
  for (const auto& [shape, sum] : products_) {
    const auto size = [calls = sum.calls](i64 fixed, double total) {
      return fixed ? fmt::format("{}", fixed) : fmt::format("~{:.0f}", total / calls);
    };
    std::string name = fmt::format("{}x{}x{} {}{}", size(shape.m, sum.m), size(shape.n, sum.n), size(shape.k, sum.k),
                                   shape.transpose_a ? 't' : 'n', shape.transpose_b ? 't' : 'n');
    if (shape.batch) name += fmt::format(", {} of them", shape.batch);
    shares.push_back(share_of(name, sum));
  }
  return longest_first(std::move(shares));
}

std::vector<TimeShare> Breakdown::routines() const {
  std::vector<TimeShare> shares;
  for (const auto& [name, sum] : routines_) shares.push_back(share_of(name, sum));
  return longest_first(std::move(shares));
}

}  // namespace seqgrad::seq2seq
