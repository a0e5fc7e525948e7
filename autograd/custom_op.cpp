#include "autograd/custom_op.h"

#include <mutex>
#include <set>

namespace seqgrad::detail {

const char* operation_name(const std::string& name) {
  static std::mutex mutex;
  static auto* names = new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return names->insert(name).first->c_str();
}

void wrong_gradient_count(std::size_t gradients, std::size_t inputs) {
  throw_error("backward gave {} gradients for {} inputs", gradients, inputs);
}

}  // namespace seqgrad::detail
