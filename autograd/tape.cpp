#include "autograd/tape.h"

#include <algorithm>
#include <mutex>

#include "autograd/probe.h"
#include "tensor/matmul.h"

namespace seqgrad {
namespace {

constexpr std::size_t nodes_per_chunk = 256;
thread_local int no_grad_depth = 0;

struct SlotPool {
  std::mutex mutex;
  std::vector<TapeSlot*> free;
};
SlotPool& slot_pool() {
  static SlotPool* pool = new SlotPool;
  return *pool;
}

TapeSlot* take_slot(Tape* tape) {
  SlotPool& pool = slot_pool();
  std::lock_guard lock(pool.mutex);
  TapeSlot* slot = pool.free.empty() ? new TapeSlot : pool.free.back();
  if (!pool.free.empty()) pool.free.pop_back();
  slot->tape = tape;
  return slot;
}

void give_slot(TapeSlot* slot) {
  SlotPool& pool = slot_pool();
  std::lock_guard lock(pool.mutex);
  slot->tape = nullptr;
  pool.free.push_back(slot);
}

}  // namespace

NoGrad::NoGrad() { ++no_grad_depth; }
NoGrad::~NoGrad() { --no_grad_depth; }
bool NoGrad::active() { return no_grad_depth > 0; }

// ---- recording ------------------------------------------------------------------------------------------------------

Tape::Tape() : slot_(take_slot(this)) {}
Tape::~Tape() {
  clear();
  ++slot_->generation;
  give_slot(slot_);
}

Node& Tape::at(std::size_t index) const { return node_chunks_[index / nodes_per_chunk][index % nodes_per_chunk]; }

void* Tape::allocate_chunk(std::size_t bytes) {
  if (bytes > units_per_chunk * unit) return oversized_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(bytes)).get();
  if (top_ % units_per_chunk) top_ += units_per_chunk - top_ % units_per_chunk;
  if (top_ / units_per_chunk == chunks_.size())
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(units_per_chunk * unit));
  return allocate(bytes);
}

Node& Tape::add_node(const char* op, std::span<const Var> inputs, Tensor&& value) {
  if (size_ == node_chunks_.size() * nodes_per_chunk) node_chunks_.push_back(std::make_unique<Node[]>(nodes_per_chunk));
  Node& n = at(size_);
  n.op = op;
  n.type = nullptr;
  n.closure = nullptr;
  n.index = static_cast<u32>(size_);
  n.top = top_;
  n.outputs = n.requires_grad = n.is_leaf = n.is_view = n.is_parameter = n.reached = n.released = n.grad_dropped = 0;
  n.input_count = 0;
  if (!inputs.empty()) n.inputs = static_cast<Node**>(allocate(inputs.size() * sizeof(Node*)));
  bool wanted = false;
  for (const Var& input : inputs) {
    if (!input.defined()) continue;
    Node& source = input.node();
    if (input.slot_ != slot_) throw_error("[{}] its arguments belong to different tapes", op);
    n.inputs[n.input_count++] = &source;
    wanted |= source.requires_grad;
  }
  n.requires_grad = wanted && no_grad_depth == 0;
  n.value = std::move(value);
  if (probe_ && copies_views()) n.value = n.value.contiguous();
  n.version = n.value.defined() ? n.value.version() : 0;
  ++size_;
  if (probe_) probe_->recorded(n);
  return n;
}

Var Tape::leaf(const Tensor& value) {
  if (!value.is_floating()) throw_error("[leaf] a gradient needs a floating-point tensor, not {}", name_of(value.dtype()));
  Node& n = add_node("leaf", {}, value.contiguous());
  n.requires_grad = n.is_leaf = 1;
  return var(n);
}

Var Tape::constant(const Tensor& value) { return var(add_node("constant", {}, Tensor(value))); }

Var Tape::parameter(Parameter& parameter) {
  for (auto& [known, var] : parameters_)
    if (known == &parameter) return var;
  if (!parameter.value.defined()) throw_error("parameter {} has no memory yet: initialise the module first", parameter.name);
  Node& n = add_node("parameter", {}, Tensor(parameter.value));
  n.requires_grad = n.is_leaf = n.is_parameter = 1;
  n.closure = &parameter;
  return parameters_.emplace_back(&parameter, var(n)).second;
}

Var Tape::output(const Var& first, std::size_t index) const { return var(at(first.node().index + index)); }

// ---- gradients ------------------------------------------------------------------------------------------------------

Tensor* Tape::new_gradient(Tensor&& first) {
  if (unused_gradients_.empty()) return &gradients_.emplace_back(std::move(first));
  Tensor* const gradient = unused_gradients_.back();
  unused_gradients_.pop_back();
  *gradient = std::move(first);
  return gradient;
}

void Tape::drop_gradient(Node& n) {
  if (!n.grad) return;
  n.grad->reset();
  unused_gradients_.push_back(std::exchange(n.grad, nullptr));
}

Tensor& Tape::gradient_buffer(Node& n, double* beta) {
  if (n.is_view && !n.grad) {
    const Tensor& whole = gradient_buffer(*n.inputs[0], beta);
    n.grad = new_gradient(n.type->view(n.closure, whole));
    n.reached = 1;
    if (*beta == 0 && n.grad->numel() != whole.numel()) {
      whole.fill(0);
      *beta = 1;
    }
    return *n.grad;
  }
  if (Parameter* parameter = n.parameter()) {
    *beta = std::exchange(parameter->has_grad, true);
    return parameter->grad;
  }
  *beta = n.grad ? 1 : 0;
  if (!n.grad) n.grad = new_gradient(empty_like(n.value));
  return *n.grad;
}

// Makes the first gradient to arrive the node's own, or that of the source where the view's elements are the source's in the
// same order. False: it has to be added to what is there.
bool Tape::take_over(Node& first, Tensor& gradient) {
  if (probed_) return false;
  Node* n = &first;
  while (n->is_view && !n->grad) {
    Node& source = *n->inputs[0];
    if (n->value.numel() != source.value.numel() || !n->value.is_contiguous() || !source.value.is_contiguous()) return false;
    n->reached = 1;
    n = &source;
  }
  if (n->grad || n->is_parameter) return false;
  if (n != &first) gradient = gradient.reshape(n->value.shape());
  n->grad = new_gradient(std::move(gradient));
  return true;
}

void Tape::backward(const Var& loss, const BackwardOptions& options) {
  if (loss.value().numel() != 1)
    throw_error("[backward] needs a loss of one element, not {}: pass a cotangent of that shape", loss.shape());
  const Tensor one = full(loss.shape(), 1, loss.dtype(), loss.value().device());
  backward({&loss, 1}, {&one, 1}, options);
}

void Tape::backward(std::span<const Var> outputs, std::span<const Tensor> cotangents, const BackwardOptions& options) {
  if (outputs.size() != cotangents.size())
    throw_error("[backward] {} outputs, but {} cotangents", outputs.size(), cotangents.size());
  if (options.keep_graph && options.release_values)
    throw_error("[backward] keep_graph needs the values that release_values gives back: choose one");
  deferred_.clear();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Node& n = outputs[i].node();
    if (outputs[i].slot_ != slot_) throw_error("[backward] output {} belongs to another tape", i);
    if (!n.requires_grad) throw_error("[backward] output {} does not depend on anything that wants a gradient", i);
    if (!(cotangents[i].shape() == outputs[i].shape()))
      throw_error("[backward] the cotangent has shape {}, its output {}", cotangents[i].shape(), outputs[i].shape());
  }
  if (kept_gradients_) forget_intermediate_gradients();
  kept_gradients_ = true;  // also when an exception ends this pass midway
  std::size_t last = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].accumulate(cotangents[i]);
    last = std::max(last, std::size_t{outputs[i].node_->index} + 1);
  }
  Node* running = nullptr;
  std::vector<Tensor> several;
  try {
    for (std::size_t i = last; i-- > 0;) run_backward(*(running = &at(i)), options, several);
  } catch (const Error& error) {
    const std::string text = error.what();
    throw Error(error.kind(), text.starts_with("[") ? text : fmt::format("[{}] {}", running->op, text));
  }
  do_deferred_products();
  kept_gradients_ = options.keep_gradients;
}

// A closure belongs to the first of its outputs, which is reached last: by then the gradients of all have arrived.
void Tape::run_backward(Node& n, const BackwardOptions& options, std::vector<Tensor>& several) {
  if (n.is_view && n.reached) {
    n.reached = 0;
    drop_gradient(n);
    if (options.release_values && !n.source().is_leaf) n.value.reset();
  }
  if (n.outputs == 0) return;
  bool any = n.grad;
  const Tensor* dy = n.grad;
  if (n.outputs > 1) {
    several.assign(n.outputs, Tensor());
    for (std::size_t k = 0; k < n.outputs; ++k)
      if (const Tensor* gradient = at(n.index + k).grad) {
        several[k] = *gradient;
        any = true;
      }
    dy = several.data();
  }
  if (!any) return;
  if (n.released)
    throw_error("[{}] backward ran through here before and let its graph go: pass keep_graph the first time", n.op);
  if (probe_)
    run_probed(n, {dy, n.outputs});
  else
    run_closure(n, dy);
  several.clear();
  for (std::size_t k = 0; k < n.outputs; ++k) {
    Node& output = at(n.index + k);
    if (!options.keep_gradients && output.grad) {
      drop_gradient(output);
      output.grad_dropped = 1;
    }
    output.released = !options.keep_graph;
    if (options.release_values) output.value.reset();
  }
  if (!options.keep_graph) destroy_closure(n);
}

void Tape::destroy_closure(Node& n) {
  if (n.type && n.type->destroy) n.type->destroy(n.closure);
  n.type = nullptr;
}

void Tape::forget_intermediate_gradients() {
  for (std::size_t i = 0; i < size_; ++i)
    if (Node& n = at(i); !n.is_leaf) drop_gradient(n);
}

// What accumulate_outer put off: the rows of all steps below each other, one product per weight.
void Tape::do_deferred_products() {
  const auto below_each_other = [](const auto& products, auto member) {
    const Tensor& first = products[0].*member;
    i64 rows = 0;
    for (const auto& product : products) rows += (product.*member).size(0);
    Tensor all({rows, first.size(1)}, first.dtype(), first.device());
    i64 at = 0;
    for (const auto& product : products) {
      const Tensor& part = product.*member;
      all.slice(0, at, at + part.size(0)).copy_from(part);
      at += part.size(0);
    }
    return all;
  };
  using Product = std::pair<Tensor, Tensor>;
  for (Deferred& entry : deferred_) {
    const bool single = entry.products.size() == 1;
    const Tensor dy = single ? entry.products[0].first : below_each_other(entry.products, &Product::first);
    const Tensor x = single ? entry.products[0].second : below_each_other(entry.products, &Product::second);
    entry.products.clear();
    entry.weight.accumulate_with([&](const Tensor& grad, double beta) { matmul_into(dy.transpose(0, 1), x, beta, grad); });
    for (Node* n = entry.weight.node_; n->is_view; n = n->inputs[0]) drop_gradient(*n);
  }
  deferred_.clear();
}

// ---- forgetting -----------------------------------------------------------------------------------------------------

void Tape::release(Node& n) {
  destroy_closure(n);
  drop_gradient(n);
  n.value.reset();
  ++n.use;
}

void Tape::clear() {
  rewind(0);
  deferred_.clear();
  oversized_.clear();
  kept_gradients_ = false;
}

void Tape::rewind(std::size_t size) {
  while (size_ > size) {
    Node& n = at(--size_);
    release(n);
    top_ = n.top;
  }
  while (!parameters_.empty() && parameters_.back().second.node_->index >= size) parameters_.pop_back();
}

std::vector<Tape::View> Tape::nodes() const {
  std::vector<View> views;
  std::size_t first = 0;  // of the operation with several outputs that was seen last
  for (std::size_t i = 0; i < size_; ++i) {
    const Node& n = at(i);
    const Parameter* const parameter = n.parameter();
    View view{i, n.op, parameter ? parameter->name : "", n.value.shape(), n.value.dtype(), {}, {}};
    if (n.outputs > 0) first = i;
    if (i < first + at(first).outputs) view.output = i - first;
    for (u32 k = 0; k < n.input_count; ++k) view.inputs.push_back(n.inputs[k]->index);
    const Tensor seen = n.input_count == 1 && view.output == 0 ? n.inputs[0]->value : Tensor();
    view.is_view = n.is_view || (seen.defined() && n.value.defined() && n.value.shares_memory_with(seen));
    if (parameter)
      view.grad = parameter->has_grad ? parameter->grad : Tensor();
    else if (n.is_view && !n.inputs[0]->grad_dropped && n.value.defined())
      view.grad = var(at(i)).grad();
    else if (!n.is_view && n.grad)
      view.grad = *n.grad;
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace seqgrad
