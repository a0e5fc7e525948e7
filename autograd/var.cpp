#include <algorithm>

#include "autograd/ops.h"
#include "autograd/tape.h"
#include "tensor/launch.h"
#include "tensor/matmul.h"

namespace seqgrad {

void throw_overwritten(const Tensor& tensor) {
  throw_error("a tensor of shape {} that the backward needs was overwritten after the forward", tensor.shape());
}

void Var::throw_unusable() const {
  if (!node_) throw_error("a Var without a value was used");
  throw_error("a Var was used after its tape was cleared or destroyed: keep its value() if you need it longer");
}

void Var::throw_released(const Node& node) {
  throw_error("[{}] the value was released by the backward pass: read it before, or leave release_values off", node.op);
}

Tensor Var::grad() const {
  const Node& n = node();
  if (!n.requires_grad) throw_error("[{}] has no gradient: nothing it depends on asks for one", n.op);
  if (const Parameter* parameter = n.parameter()) return parameter->has_grad ? parameter->grad : zeros_like(n.value);
  if (n.is_view) return n.type->view(n.closure, slot_->tape->var(*n.inputs[0]).grad());
  if (n.grad) return *n.grad;
  if (n.grad_dropped) throw_error("[{}] the gradient of an intermediate was not kept: pass keep_gradients to backward()", n.op);
  return zeros_like(n.value);
}

Tensor& Var::gradient_buffer(double* beta) const {
  Node& n = node();
  Tape& tape = *slot_->tape;
  return tape.probed_ ? tape.probed_buffer(*this, beta) : tape.gradient_buffer(n, beta);
}

void Var::accumulate(const Tensor& gradient) const {
  if (!requires_grad()) return;
  const Tensor& x = value();
  if (!(gradient.shape() == x.shape()) || gradient.dtype() != x.dtype())
    throw_error("a gradient of {} {} arrived for a value of {} {}", name_of(gradient.dtype()), gradient.shape(),
                name_of(x.dtype()), x.shape());
  accumulate_with([&](const Tensor& grad, double beta) { beta == 0 ? grad.copy_from(gradient) : grad.add_from(gradient); });
}

void Var::accumulate(Tensor&& gradient) const {
  Node& n = node();
  if (!n.requires_grad) return;
  if (gradient.shape() == n.value.shape() && gradient.dtype() == n.value.dtype() && gradient.owns_all_of_its_memory() &&
      slot_->tape->take_over(n, gradient))
    return;
  accumulate(static_cast<const Tensor&>(gradient));
}

void Var::accumulate_sum(Tensor&& gradient) const {
  const Dims& own = shape();
  if (gradient.shape() == own)
    accumulate(std::move(gradient));
  else
    accumulate(sum_to(std::move(gradient), own));
}

Tensor Var::gradient_to_add_to() const {
  if (!requires_grad()) return {};
  double beta = 1;
  Tensor& grad = gradient_buffer(&beta);
  if (beta == 0) grad.fill(0);
  return grad;
}

void Var::accumulate_outer(const Tensor& dy, const Tensor& x) const {
  if (!requires_grad()) return;
  constexpr i64 few_rows = 512;
  if (!node().source().is_leaf || x.size(0) >= few_rows || slot_->tape->probed_) {
    accumulate_with([&](const Tensor& grad, double beta) { matmul_into(dy.transpose(0, 1), x, beta, grad); });
    return;
  }
  auto& waiting = slot_->tape->deferred_;
  auto entry = std::find_if(waiting.begin(), waiting.end(), [&](const Tape::Deferred& d) { return d.weight.node_ == node_; });
  if (entry == waiting.end()) entry = waiting.insert(entry, Tape::Deferred{*this, {}});
  entry->products.emplace_back(dy, x);
}

}  // namespace seqgrad
