#include "autograd/anomaly.h"

#include <cmath>

namespace seqgrad {
namespace {

template <class T>
i64 find_non_finite(const Tensor& x) {
  const T* const values = x.data<T>();
  for (i64 i = 0; i < x.numel(); ++i)
    if (!std::isfinite(values[i])) return i;
  return -1;
}

}  // namespace

std::string first_non_finite(const Tensor& x) {
  if (!x.defined() || !x.is_floating()) return "";
  const Tensor values = x.to(Device::cpu).contiguous();
  i64 place = values.dtype() == DType::f32 ? find_non_finite<float>(values) : find_non_finite<double>(values);
  if (place < 0) return "";
  const double found = values.reshape({values.numel()}).select(0, place).item();
  const std::string text = std::isnan(found) ? "nan" : found > 0 ? "inf" : "-inf";
  Dims index = x.shape();
  for (int i = index.size() - 1; i >= 0; --i) {
    index[i] = place % x.shape()[i];
    place /= x.shape()[i];
  }
  return index.empty() ? text : fmt::format("{} at {}", text, index);
}

// What an operation reads and has made itself was looked at before; leaves and parameters were not.
void AnomalyProbe::recorded(const Node& node) {
  if (node.input_count == 0) return;
  const std::string found = first_non_finite(node.value);
  if (found.empty()) return;
  for (u32 i = 0; i < node.input_count; ++i) {
    const Node& input = *node.inputs[i];
    const std::string before = first_non_finite(input.value);
    if (before.empty()) continue;
    const Parameter* const parameter = input.parameter();
    throw_failure("[{}] it reads {}, which is not finite: {}", node.op, parameter ? parameter->name : "an input", before);
  }
  throw_failure("[{}] its value is not finite: {}", node.op, found);
}

void AnomalyProbe::around(const char* op, std::size_t, std::span<const Tensor> dy, const Backward& backward) {
  for (const Tensor& one : dy)
    if (const std::string found = first_non_finite(one); !found.empty())
      throw_failure("[{}] the sum of the gradients that reach its value is not finite: {}", op, found);
  backward(dy);
}

void AnomalyProbe::deliver(Delivery& delivery) {
  const std::string found = first_non_finite(delivery.gradient);
  if (!found.empty())
    throw_failure("[{}] its gradient{} is not finite: {}", delivery.op,
                  delivery.parameter ? " for " + delivery.parameter->name : "", found);
}

}  // namespace seqgrad
