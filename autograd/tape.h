// Reverse-mode differentiation.
//
//   Tape tape;
//   Var x = tape.leaf(randn({3, 4}));
//   tape.backward(sum(tanh(x)));
//   x.grad()                                  // the gradient, a Tensor of x's shape
//
// A Tape records operations in the order of their making, which is a topological order, so the backward pass is one loop from
// the end to the start: no recursion, no sorting, no global graph. Nodes and backward closures live in the tape's own memory,
// which grows by chunks and is reused after clear(); a Var that outlives its tape's clear() says so when it is used.
// A Tape and its Vars belong to one thread at a time; different tapes may be used by different threads.
#pragma once

#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "tensor/tensor.h"

namespace seqgrad {

class TapeProbe;  // autograd/probe.h

// A value on a tape: a small handle, copied freely.
class Var {
 public:
  Var() = default;
  bool defined() const { return node_ != nullptr; }
  const Tensor& value() const {
    const Node& n = node();
    if (!n.value.defined()) throw_released(n);
    return n.value;
  }
  Tensor grad() const;  // zeros where no gradient arrived. Error: an intermediate's, unless backward() was told to keep them
  bool requires_grad() const { return node().requires_grad; }
  Tape& tape() const {
    node();
    return *slot_->tape;
  }
  const char* op() const { return node().op; }

  const Dims& shape() const { return value().shape(); }
  i64 size(int dimension) const { return value().size(dimension); }
  int dim() const { return value().dim(); }
  DType dtype() const { return value().dtype(); }

  // For the authors of operations. Each does nothing when no gradient is wanted here.
  void accumulate(const Tensor& gradient) const;  // grad += gradient
  void accumulate(Tensor&& gradient) const;       // the same; takes the memory over where it can
  void accumulate_sum(Tensor&& gradient) const;   // the same for a gradient of the shape that the value was repeated to
  // For kernels that add in place: write(grad, beta) must do grad = beta grad + ..., with beta = 0 the first time.
  template <class F>
  void accumulate_with(F&& write) const {
    if (!requires_grad()) return;
    double beta = 1;
    Tensor& grad = gradient_buffer(&beta);
    write(static_cast<const Tensor&>(grad), beta);
  }
  // For kernels that only "+=": the gradient so far, zeros at first. Undefined when no gradient is wanted.
  Tensor gradient_to_add_to() const;
  // grad += dy^T x for a weight (out, in) used by rows x (n, in) with output gradients dy (n, out). Products with few rows, as
  // a recurrent step makes them, are put off and done as one when backward() ends.
  void accumulate_outer(const Tensor& dy, const Tensor& x) const;

 private:
  friend class Tape;
  Var(Node* node, TapeSlot* slot, u32 use, u32 generation) : node_(node), slot_(slot), use_(use), generation_(generation) {}
  Node& node() const {
    if (!node_ || slot_->generation != generation_ || node_->use != use_) throw_unusable();
    return *node_;
  }
  [[noreturn]] void throw_unusable() const;
  [[noreturn]] static void throw_released(const Node& node);
  Tensor& gradient_buffer(double* beta) const;

  Node* node_ = nullptr;
  TapeSlot* slot_ = nullptr;
  u32 use_ = 0;         // which use of the node's memory this handle means
  u32 generation_ = 0;  // which tape of the slot
};

[[noreturn]] void throw_overwritten(const Tensor& tensor);

// A tensor kept for the backward pass. Reading it after somebody overwrote it is an error that names the operation.
class Saved {
 public:
  Saved() = default;
  Saved(const Tensor& tensor) : tensor_(tensor), version_(tensor.defined() ? tensor.version() : 0) {}
  operator const Tensor&() const { return get(); }
  const Tensor& get() const {
    if (tensor_.defined() && tensor_.version() != version_) throw_overwritten(tensor_);
    return tensor_;
  }

 private:
  Tensor tensor_;
  u32 version_ = 0;
};

// The same for the value of a Var, which the tape keeps already.
class SavedVar : public Var {
 public:
  SavedVar(const Var& var) : SavedVar(var, var.value().version()) {}
  const Tensor& value() const {
    const Tensor& tensor = Var::value();
    if (tensor.version() != version_) throw_overwritten(tensor);
    return tensor;
  }

 private:
  friend class Tape;
  SavedVar(const Var& var, u32 version) : Var(var), version_(version) {}
  u32 version_;
};

struct BackwardOptions {
  bool keep_graph = false;      // allow a second backward() over the same nodes
  bool keep_gradients = false;  // keep intermediates' gradients, for study and drawing
  bool release_values = false;  // give intermediates' values back as soon as they are used: the training loop's choice
};

class Tape {
 public:
  Tape();
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Var leaf(const Tensor& value);        // a floating-point tensor whose gradient is wanted
  Var constant(const Tensor& value);    // one that has none
  Var parameter(Parameter& parameter);  // the gradient goes to parameter.grad; one node however often it is asked for

  // Gradients of a scalar, or of sum(output * cotangent), added to every leaf's. Error: loss of more than one element.
  void backward(const Var& loss, const BackwardOptions& options = {});
  void backward(std::span<const Var> outputs, std::span<const Tensor> cotangents, const BackwardOptions& options = {});

  // Forgets everything; all Vars of this tape become stale.
  void clear();
  // Forgets everything recorded since size() was `size`: decoding keeps its tape small this way.
  void rewind(std::size_t size);
  std::size_t size() const { return size_; }

  // For the drawing of graphs: every node in order of creation.
  struct View {
    std::size_t id;
    const char* op;
    std::string name;  // a parameter's
    Dims shape;
    DType dtype;
    std::vector<std::size_t> inputs;
    Tensor grad;             // undefined when none is kept
    std::size_t output = 0;  // 1, 2 ... for an operation's further outputs, whose input is its first
    bool is_view = false;    // looks at its input's memory
  };
  std::vector<View> nodes() const;

  Var output(const Var& first, std::size_t index) const;  // of an operation with several

  void set_probe(TapeProbe* probe) { probe_ = probe; }  // before anything is recorded; the probe outlives the tape

  // For the authors of operations: see record() below.
  template <class F>
  Var record(const char* op, std::span<const Var> inputs, Tensor&& value, F&& backward);
  template <class F>
  Var record_many(const char* op, std::span<const Var> inputs, std::span<const Tensor> values, F&& backward);
  template <class F>
  Var record_view(const char* op, const Var& input, F&& view);

 private:
  friend class Var;

  Node& add_node(const char* op, std::span<const Var> inputs, Tensor&& value);
  template <class F>
  void attach(Node& first, std::size_t outputs, const ClosureType& type, F&& closure);
  bool copies_views() const;
  Var record_copy(const char* op, const Var& input, std::function<Tensor(const Tensor&)> view);
  void* allocate(std::size_t bytes) {
    const u32 units = static_cast<u32>((bytes + unit - 1) / unit);
    if (top_ % units_per_chunk + units > units_per_chunk || top_ / units_per_chunk == chunks_.size())
      return allocate_chunk(bytes);
    return chunks_[top_ / units_per_chunk].get() + std::exchange(top_, top_ + units) % units_per_chunk * unit;
  }
  void* allocate_chunk(std::size_t bytes);
  Node& at(std::size_t index) const;
  Var var(Node& node) const { return Var(&node, slot_, node.use, slot_->generation); }
  void release(Node& node);

  Tensor& gradient_buffer(Node& node, double* beta);
  Tensor* new_gradient(Tensor&& first);
  bool take_over(Node& node, Tensor& gradient);
  void drop_gradient(Node& node);
  void forget_intermediate_gradients();
  void run_backward(Node& node, const BackwardOptions& options, std::vector<Tensor>& several);
  void run_closure(Node& node, const Tensor* dy) { node.type->run(node.closure, dy, SavedVar(var(node), node.version)); }
  void destroy_closure(Node& node);
  void do_deferred_products();

  struct Probed;
  Tensor& probed_buffer(const Var& input, double* beta);
  void run_probed(Node& node, std::span<const Tensor> gradients);

  struct Deferred {
    Var weight;
    std::vector<std::pair<Tensor, Tensor>> products;  // (dy, x)
  };

  static constexpr u32 unit = alignof(std::max_align_t);  // closures lie at multiples of it
  static constexpr u32 units_per_chunk = (64 << 10) / unit;

  TapeSlot* slot_;
  std::size_t size_ = 0;
  std::vector<std::unique_ptr<Node[]>> node_chunks_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::vector<std::unique_ptr<std::byte[]>> oversized_;
  u32 top_ = 0;                            // the place of the next closure, in units over all chunks
  std::deque<Tensor> gradients_;           // of nodes, which point to them,
  std::vector<Tensor*> unused_gradients_;  // or of none
  std::vector<Deferred> deferred_;
  std::vector<std::pair<Parameter*, Var>> parameters_;
  bool kept_gradients_ = false;
  TapeProbe* probe_ = nullptr;
  Probed* probed_ = nullptr;  // while an operation's backward runs under a probe
};

// In its scope nothing is recorded for backward: values only.
class NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;
  static bool active();
};

// How an operation joins the tape: its name, inputs, value, and the closure that turns the gradient of the value into gradients
// of the inputs (x.accumulate(...)). The gradient is contiguous. A closure that needs the value takes it as second argument:
// [x](const Tensor& dy, const SavedVar& y) { ... }. The closure is kept only where some input wants a gradient.
template <class F>
Var record(const char* op, std::span<const Var> inputs, Tensor value, F&& backward) {
  return inputs[0].tape().record(op, inputs, std::move(value), std::forward<F>(backward));
}
template <class F>
Var record(const char* op, std::initializer_list<Var> inputs, Tensor value, F&& backward) {
  return inputs.begin()->tape().record(op, {inputs.begin(), inputs.size()}, std::move(value), std::forward<F>(backward));
}
// Several outputs: the closure gets one gradient for each, undefined where none arrived. Returns the first; the others are
// first.tape().output(first, 1), ...
template <class F>
Var record_many(const char* op, std::span<const Var> inputs, std::span<const Tensor> values, F&& backward) {
  return inputs[0].tape().record_many(op, inputs, values, std::forward<F>(backward));
}

// An operation that only looks at its input's memory differently. Its gradient is the same view of the input's gradient, so it
// has no backward: what is added to it is added to the input's.
template <class View>
Var record_view(const char* op, const Var& x, View&& view) {
  return x.tape().record_view(op, x, std::forward<View>(view));
}

// ---------------------------------------------------------------------------------------------------------------------

namespace detail {

template <class F>
constexpr auto destroyer() -> void (*)(void*) {
  if constexpr (std::is_trivially_destructible_v<F>)
    return nullptr;
  else
    return [](void* closure) { static_cast<F*>(closure)->~F(); };
}

template <class F>
inline constexpr ClosureType backward_of_one{[](void* closure, const Tensor* dy, const SavedVar& y) {
                                               F& backward = *static_cast<F*>(closure);
                                               if constexpr (std::is_invocable_v<F&, const Tensor&, const SavedVar&>)
                                                 backward(dy[0], y);
                                               else
                                                 backward(dy[0]);
                                             },
                                             nullptr, destroyer<F>()};
template <class F>
inline constexpr ClosureType backward_of_many{
    [](void* closure, const Tensor* dy, const SavedVar&) { (*static_cast<F*>(closure))(dy); }, nullptr, destroyer<F>()};
template <class F>
inline constexpr ClosureType view_type{
    nullptr, [](void* closure, const Tensor& whole) -> Tensor { return (*static_cast<F*>(closure))(whole); }, destroyer<F>()};

}  // namespace detail

template <class F>
Var Tape::record(const char* op, std::span<const Var> inputs, Tensor&& value, F&& backward) {
  Node& n = add_node(op, inputs, std::move(value));
  if (n.requires_grad) attach(n, 1, detail::backward_of_one<std::decay_t<F>>, std::forward<F>(backward));
  return var(n);
}

template <class F>
Var Tape::record_many(const char* op, std::span<const Var> inputs, std::span<const Tensor> values, F&& backward) {
  Node& n = add_node(op, inputs, Tensor(values[0]));
  const Var first = var(n);
  for (std::size_t i = 1; i < values.size(); ++i) add_node(op, {&first, 1}, Tensor(values[i]));
  if (n.requires_grad) attach(n, values.size(), detail::backward_of_many<std::decay_t<F>>, std::forward<F>(backward));
  return first;
}

template <class F>
Var Tape::record_view(const char* op, const Var& input, F&& view) {
  if (probe_ && copies_views()) return record_copy(op, input, std::forward<F>(view));
  Node& n = add_node(op, {&input, 1}, view(input.value()));
  if (n.requires_grad) attach(n, 0, detail::view_type<std::decay_t<F>>, std::forward<F>(view));
  return var(n);
}

template <class F>
void Tape::attach(Node& first, std::size_t outputs, const ClosureType& type, F&& closure) {
  using Closure = std::decay_t<F>;
  static_assert(alignof(Closure) <= unit);
  first.closure = new (allocate(sizeof(Closure))) Closure(std::forward<F>(closure));
  first.type = &type;
  first.outputs = static_cast<u32>(outputs);
  first.is_view = type.view != nullptr;
}

}  // namespace seqgrad
