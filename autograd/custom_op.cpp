#include "autograd/custom_op.h"

#include <mutex>
#include <set>

#include "autograd/gradcheck.h"

namespace seqgrad::detail {

const char* operation_name(const std::string& name) {
  static std::mutex mutex;
  static auto* names = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return names->insert(name).first->c_str();
}

ReadOnly::ReadOnly(const std::vector<Tensor>& tensors) : tensors_(tensors) {
  for (const Tensor& tensor : tensors_) versions_.push_back(tensor.version());
}

void ReadOnly::check(const char* name, const char* which) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i].version() != versions_[i])
      throw_error("[{}] {} wrote into its argument {}, a tensor of shape {} that others need: clone() it first", name, which, i,
                  tensors_[i].shape());
}

void check_value(const char* name, const Tensor& y) {
  if (!y.defined()) throw_error("[{}] forward gave a tensor without contents", name);
  if (!y.is_floating())
    throw_error("[{}] forward gave {}: a gradient needs a floating-point tensor", name, seqgrad::name_of(y.dtype()));
}

void check_count(const char* name, const char* which, const char* what, std::size_t takes, std::size_t given) {
  if (takes != given) throw_error("[{}] {} takes {} {}, not {}", name, which, takes, what, given);
}

void wrong_gradient_count(std::size_t gradients, std::size_t inputs) {
  throw_error("backward gave {} for {}", counted(static_cast<i64>(gradients), "gradient", "gradients"),
              counted(static_cast<i64>(inputs), "input", "inputs"));
}

void throw_from(const char* name, const char* which, const Error& error) {
  throw Error(error.kind(), fmt::format("[{}] {}: {}", name, which, error.what()));
}

}  // namespace seqgrad::detail
