#include "autograd/tape.h"

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>

#include "tensor/launch.h"
#include "tensor/matmul.h"

namespace seqgrad {

struct Node {
  const char* op = nullptr;
  std::size_t index = 0;
  std::size_t chunk = 0, used = 0;  // where the arena stood when this node was made
  Tensor value;
  Tensor grad;
  bool requires_grad = false;
  bool has_grad = false;
  bool is_leaf = false;
  bool released = false;      // its closure ran and is gone
  bool grad_dropped = false;  // a gradient arrived, was used and was not kept
  u32 use = 0;                // counts the lives of this memory

  std::array<Node*, 4> few_inputs{};  // the usual case without an allocation
  std::vector<Node*> many_inputs;
  int input_count = 0;

  std::size_t outputs = 0;  // of the closure here: this node and those after it
  void* closure = nullptr;
  void (*run)(void*, const Tensor*) = nullptr;
  void (*destroy)(void*) = nullptr;

  Node* view_of = nullptr;
  std::function<Tensor(const Tensor&)> view;
  Parameter* parameter = nullptr;

  Node* input(int i) const {
    return input_count <= static_cast<int>(few_inputs.size()) ? few_inputs[static_cast<std::size_t>(i)]
                                                              : many_inputs[static_cast<std::size_t>(i)];
  }
};

// Where a Var asks whether its tape still holds it. Slots are never freed, so the question is always safe to ask.
struct TapeSlot {
  Tape* tape = nullptr;
  u32 generation = 0;
};

namespace {

constexpr std::size_t nodes_per_chunk = 256;
constexpr std::size_t chunk_bytes = 64 << 10;
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

// y = beta y + x
void add_to(const Tensor& y, double beta, const Tensor& x) {
  if (beta == 0)
    y.copy_from(x);
  else
    launch(kernels::add_strided, 1.0, x, x.strides(), y, y.strides(), x.shape(), x.dim());
}

}  // namespace

NoGrad::NoGrad() { ++no_grad_depth; }
NoGrad::~NoGrad() { --no_grad_depth; }
bool NoGrad::active() { return no_grad_depth > 0; }

const Tensor& Saved::get() const {
  if (tensor_.defined() && tensor_.version() != version_)
    throw_error("a tensor of shape {} that the backward needs was overwritten after the forward", tensor_.shape());
  return tensor_;
}

// What an operation delivers under a probe, each gradient by itself until the probe has seen it.
struct Tape::Probed {
  struct Arrival {
    Var input;
    Tensor gradient;
  };
  std::deque<Arrival> arrivals;  // its elements stay where they are

  Tensor& buffer(const Var& input, double* beta) {
    *beta = 0;
    arrivals.push_back({input, empty_like(input.value())});
    return arrivals.back().gradient;
  }
};

void TapeProbe::around(const char*, std::size_t, std::span<const Tensor> dy, const Backward& backward) { backward(dy); }
void TapeProbe::deliver(Delivery&) {}

// ---- Var ------------------------------------------------------------------------------------------------------------

Node& Var::node() const {
  if (!node_) throw_error("a Var without a value was used");
  if (slot_->generation != generation_ || node_->use != use_)
    throw_error("a Var was used after its tape was cleared or destroyed: keep its value() if you need it longer");
  return *node_;
}

const Tensor& Var::value() const {
  const Node& n = node();
  if (!n.value.defined())
    throw_error("[{}] the value was released by the backward pass: read it before, or leave release_values off", n.op);
  return n.value;
}
bool Var::requires_grad() const { return node().requires_grad; }
const char* Var::op() const { return node().op; }
Tape& Var::tape() const {
  node();
  return *slot_->tape;
}

Tensor Var::grad() const {
  const Node& n = node();
  if (!n.requires_grad) throw_error("[{}] has no gradient: nothing it depends on asks for one", n.op);
  if (n.parameter) return n.parameter->has_grad ? n.parameter->grad : zeros_like(n.value);
  if (n.view_of) return n.view(slot_->tape->var(*n.view_of).grad());
  if (n.has_grad) return n.grad;
  if (n.grad_dropped) throw_error("[{}] the gradient of an intermediate was not kept: pass keep_gradients to backward()", n.op);
  return zeros_like(n.value);
}

Tensor& Var::gradient_buffer(double* beta) const {
  Node& n = node();
  if (slot_->tape->probed_) return slot_->tape->probed_->buffer(*this, beta);
  if (n.view_of) {
    const Tensor whole = slot_->tape->var(*n.view_of).gradient_to_add_to();
    *beta = 1;
    n.grad = n.view(whole);
    return n.grad;
  }
  bool& has = n.parameter ? n.parameter->has_grad : n.has_grad;
  Tensor& grad = n.parameter ? n.parameter->grad : n.grad;
  *beta = has ? 1 : 0;
  if (!has && !n.parameter) grad = empty_like(n.value);
  has = true;
  return grad;
}

void Var::accumulate(const Tensor& gradient) const {
  if (!requires_grad()) return;
  const Tensor& x = value();
  if (!(gradient.shape() == x.shape()) || gradient.dtype() != x.dtype())
    throw_error("a gradient of {} {} arrived for a value of {} {}", name_of(gradient.dtype()), gradient.shape(),
                name_of(x.dtype()), x.shape());
  accumulate_with([&](const Tensor& grad, double beta) { add_to(grad, beta, gradient); });
}

void Var::accumulate(Tensor&& gradient) const {
  if (!requires_grad()) return;
  Node& n = node();
  if (!slot_->tape->probed_ && !n.view_of && !n.parameter && !n.has_grad && gradient.owns_all_of_its_memory() &&
      gradient.shape() == n.value.shape() && gradient.dtype() == n.value.dtype()) {
    n.grad = std::move(gradient);
    n.has_grad = true;
    return;
  }
  accumulate(static_cast<const Tensor&>(gradient));
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
  const Node* owner = &node();
  while (owner->view_of) owner = owner->view_of;
  if (!owner->is_leaf || x.size(0) >= few_rows || slot_->tape->probed_) {
    accumulate_with([&](const Tensor& grad, double beta) { matmul_into(dy.transpose(0, 1), x, beta, grad); });
    return;
  }
  auto& waiting = slot_->tape->deferred_;
  auto entry = std::find_if(waiting.begin(), waiting.end(), [&](const Tape::Deferred& d) { return d.weight.node_ == node_; });
  if (entry == waiting.end()) entry = waiting.insert(entry, Tape::Deferred{*this, {}});
  entry->products.emplace_back(dy, x);
}

// ---- Tape -----------------------------------------------------------------------------------------------------------

Tape::Tape() : slot_(take_slot(this)) {}
Tape::~Tape() {
  clear();
  ++slot_->generation;
  give_slot(slot_);
}

Node& Tape::at(std::size_t index) const { return node_chunks_[index / nodes_per_chunk][index % nodes_per_chunk]; }
Var Tape::var(Node& node) const { return Var(&node, slot_, node.use, slot_->generation); }

void* Tape::allocate(std::size_t bytes) {
  bytes = (bytes + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
  if (bytes > chunk_bytes) {
    oversized_.push_back(std::make_unique<std::byte[]>(bytes));
    return oversized_.back().get();
  }
  if (chunk_ < chunks_.size() && used_ + bytes > chunk_bytes) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) chunks_.push_back(std::make_unique<std::byte[]>(chunk_bytes));
  void* memory = chunks_[chunk_].get() + used_;
  used_ += bytes;
  return memory;
}

Var Tape::add_node(const char* op, std::span<const Var> inputs, const Tensor& value, bool requires_grad) {
  if (size_ / nodes_per_chunk == node_chunks_.size()) node_chunks_.push_back(std::make_unique<Node[]>(nodes_per_chunk));
  Node& n = at(size_);
  n.op = op;
  n.index = size_;
  n.chunk = chunk_;
  n.used = used_;
  n.value = probe_ && probe_->copies_views() ? value.contiguous() : value;
  n.requires_grad = requires_grad;
  const bool many = inputs.size() > n.few_inputs.size();
  for (const Var& input : inputs) {
    if (!input.defined()) continue;
    Node* source = &input.node();
    if (input.slot_ != slot_) throw_error("[{}] its arguments belong to different tapes", op);
    if (many)
      n.many_inputs.push_back(source);
    else
      n.few_inputs[static_cast<std::size_t>(n.input_count)] = source;
    ++n.input_count;
  }
  ++size_;
  return var(n);
}

void Tape::attach(const Var& first, std::size_t outputs, void* closure, Run run, Destroy destroy) {
  Node& n = *first.node_;
  n.outputs = outputs;
  n.closure = closure;
  n.run = run;
  n.destroy = destroy;
}

Var Tape::leaf(const Tensor& value) {
  if (!value.is_floating()) throw_error("[leaf] a gradient needs a floating-point tensor, not {}", name_of(value.dtype()));
  const Var v = add_node("leaf", {}, value.contiguous(), true);
  v.node_->is_leaf = true;
  return v;
}

Var Tape::constant(const Tensor& value) { return add_node("constant", {}, value, false); }

Var Tape::parameter(Parameter& parameter) {
  for (auto& [known, var] : parameters_)
    if (known == &parameter) return var;
  if (!parameter.value.defined()) throw_error("parameter {} has no memory yet: initialise the module first", parameter.name);
  const Var v = add_node("parameter", {}, parameter.value, true);
  v.node_->is_leaf = true;
  v.node_->parameter = &parameter;
  parameters_.emplace_back(&parameter, v);
  return v;
}

Var Tape::record_view(const char* op, const Var& input, Tensor value, std::function<Tensor(const Tensor&)> view) {
  if (probe_ && probe_->copies_views())
    return seqgrad::record(op, {input}, value.clone(), [input, view](const Tensor& dy) {
      if (const Tensor whole = input.gradient_to_add_to(); whole.defined()) add_to(view(whole), 1, dy);
    });
  const bool wanted = !NoGrad::active() && input.requires_grad();
  const Var v = add_node(op, {&input, 1}, value, wanted);
  if (wanted) {
    v.node_->view_of = input.node_;
    v.node_->view = std::move(view);
  }
  return v;
}

Var Tape::output(const Var& first, std::size_t index) const { return var(at(first.node().index + index)); }

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
    last = std::max(last, outputs[i].node_->index + 1);
  }
  std::vector<Tensor> gradients;
  for (std::size_t i = last; i-- > 0;) {
    Node& n = at(i);
    if (n.view_of) {
      n.grad = Tensor();
      if (options.release_values) n.value = Tensor();
    }
    if (n.outputs == 0) continue;
    // A closure belongs to the first of its outputs, which is reached last: by then the gradients of all have arrived.
    gradients.assign(n.outputs, Tensor());
    bool any = false;
    for (std::size_t k = 0; k < n.outputs; ++k)
      if (const Node& output = at(i + k); output.has_grad) {
        gradients[k] = output.grad;
        any = true;
      }
    if (!any) continue;
    if (n.released)
      throw_error("[{}] backward ran through here before and let its graph go: pass keep_graph the first time", n.op);
    try {
      if (probe_)
        run_probed(n, gradients);
      else
        n.run(n.closure, gradients.data());
    } catch (const Error& error) {
      const std::string text = error.what();
      throw Error(error.kind(), text.starts_with("[") ? text : fmt::format("[{}] {}", n.op, text));
    }
    gradients.clear();
    for (std::size_t k = 0; k < n.outputs; ++k) {
      Node& output = at(i + k);
      if (!options.keep_gradients && output.has_grad) {
        output.grad = Tensor();
        output.has_grad = false;
        output.grad_dropped = true;
      }
      output.released = !options.keep_graph;
      if (options.release_values) output.value = Tensor();
    }
    if (!options.keep_graph) {
      n.destroy(n.closure);
      n.closure = nullptr;
    }
  }
  do_deferred_products();
  kept_gradients_ = options.keep_gradients;
}

void Tape::run_probed(Node& n, std::span<const Tensor> gradients) {
  Probed probed;
  struct Scope {
    Probed*& place;
    ~Scope() { place = nullptr; }
  };
  {
    const Scope scope{probed_ = &probed};
    probe_->around(n.op, n.index, gradients, [&n](std::span<const Tensor> dy) { n.run(n.closure, dy.data()); });
  }
  int number = 0;
  for (const Probed::Arrival& arrival : probed.arrivals) {
    const Var& input = arrival.input;
    TapeProbe::Delivery delivery{n.op, n.index, input.node_->index, number++, arrival.gradient, false};
    probe_->deliver(delivery);
    if (delivery.overwrite) input.accumulate_with([](const Tensor& grad, double) { grad.fill(0); });
    input.accumulate(static_cast<const Tensor&>(delivery.gradient));
  }
}

void Tape::forget_intermediate_gradients() {
  for (std::size_t i = 0; i < size_; ++i)
    if (Node& n = at(i); !n.is_leaf && n.has_grad) {
      n.grad = Tensor();
      n.has_grad = false;
    }
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
  }
  deferred_.clear();
}

void Tape::release(Node& n) {
  if (n.closure) n.destroy(n.closure);
  n.value = Tensor();
  n.grad = Tensor();
  n.view = nullptr;
  n.many_inputs.clear();
  n.closure = nullptr;
  n.view_of = nullptr;
  n.parameter = nullptr;
  n.requires_grad = n.has_grad = n.is_leaf = n.released = n.grad_dropped = false;
  ++n.use;
  n.input_count = 0;
  n.outputs = 0;
}

void Tape::clear() {
  rewind(0);
  deferred_.clear();
  parameters_.clear();
  oversized_.clear();
  kept_gradients_ = false;
}

void Tape::rewind(std::size_t size) {
  while (size_ > size) {
    Node& n = at(--size_);
    release(n);
    chunk_ = n.chunk;
    used_ = n.used;
  }
  std::erase_if(parameters_, [&](const auto& entry) { return entry.second.node_->index >= size; });
}

std::vector<Tape::View> Tape::nodes() const {
  std::vector<View> views;
  std::size_t first = 0;  // of the operation with several outputs that was seen last
  for (std::size_t i = 0; i < size_; ++i) {
    const Node& n = at(i);
    View view{i, n.op, n.parameter ? n.parameter->name : "", n.value.shape(), n.value.dtype(), {}, {}};
    if (n.outputs > 0) first = i;
    if (i < first + at(first).outputs) view.output = i - first;
    for (int k = 0; k < n.input_count; ++k) view.inputs.push_back(n.input(k)->index);
    if (n.parameter)
      view.grad = n.parameter->has_grad ? n.parameter->grad : Tensor();
    else if (n.has_grad)
      view.grad = n.grad;
    else if (n.view_of && !n.view_of->grad_dropped && n.value.defined())
      view.grad = var(at(i)).grad();
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace seqgrad
