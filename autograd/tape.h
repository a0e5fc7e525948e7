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

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tensor/tensor.h"

namespace seqgrad {

class Tape;
class TapeProbe;
struct Node;
struct TapeSlot;

// A trained tensor with a place for its gradient. Value and gradient are usually views into a model's blocks.
struct Parameter {
  std::string name;
  Tensor value;
  Tensor grad;            // same shape; meaningful only when has_grad
  bool has_grad = false;  // false: nothing has arrived since the last zero_grad(), and grad may hold anything
};

// A value on a tape: a small handle, copied freely.
class Var {
 public:
  Var() = default;
  bool defined() const { return node_ != nullptr; }
  const Tensor& value() const;
  Tensor grad() const;  // zeros where no gradient arrived. Error: an intermediate's, unless backward() was told to keep them
  bool requires_grad() const;
  Tape& tape() const;
  const char* op() const;

  const Dims& shape() const { return value().shape(); }
  i64 size(int dimension) const { return value().size(dimension); }
  int dim() const { return value().dim(); }
  DType dtype() const { return value().dtype(); }

  // For the authors of operations. Each does nothing when no gradient is wanted here.
  void accumulate(const Tensor& gradient) const;  // grad += gradient
  void accumulate(Tensor&& gradient) const;       // the same; takes the memory over where it can
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
  Node& node() const;
  Tensor& gradient_buffer(double* beta) const;

  Node* node_ = nullptr;
  TapeSlot* slot_ = nullptr;
  u32 use_ = 0;         // which use of the node's memory this handle means
  u32 generation_ = 0;  // which tape of the slot
};

// A tensor kept for the backward pass. Reading it after somebody overwrote it is an error that names the operation.
class Saved {
 public:
  Saved() = default;
  Saved(const Tensor& tensor) : tensor_(tensor), version_(tensor.defined() ? tensor.version() : 0) {}
  operator const Tensor&() const { return get(); }
  const Tensor& get() const;

 private:
  Tensor tensor_;
  u32 version_ = 0;
};

struct BackwardOptions {
  bool keep_graph = false;      // allow a second backward() over the same nodes
  bool keep_gradients = false;  // keep intermediates' gradients, for study and drawing
  bool release_values = false;  // give intermediates' values back as soon as they are used: the training loop's choice
};

// For those who check gradients (the diagnosis of a failed check, the tests of the check itself): sees what the operations of
// a tape do in the backward pass, and may change it. A tape without a probe pays one comparison with null for each gradient.
class TapeProbe {
 public:
  using Backward = std::function<void(std::span<const Tensor> dy)>;
  struct Delivery {     // a gradient on its way from an operation to one of its inputs
    const char* op;     // the operation
    std::size_t node;   // its place on the tape
    std::size_t input;  // the input's place
    int number;         // 0 for the first gradient of this operation, 1 for the second ...
    Tensor gradient;    // may be replaced by another of its shape
    bool overwrite;     // set it, and what had arrived at the input before is lost
  };

  virtual ~TapeProbe() = default;
  // In the place of an operation's backward. dy: the gradients of its outputs, undefined where none arrived.
  virtual void around(const char* op, std::size_t node, std::span<const Tensor> dy, const Backward& backward);
  virtual void deliver(Delivery& delivery);
  // Views become copies: no operation meets memory with gaps, forward or backward.
  virtual bool copies_views() const { return false; }
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
  };
  std::vector<View> nodes() const;

  Var output(const Var& first, std::size_t index) const;  // of an operation with several

  void set_probe(TapeProbe* probe) { probe_ = probe; }  // before anything is recorded; the probe outlives the tape

  // For the authors of operations: see record() below.
  template <class F>
  Var record(const char* op, std::span<const Var> inputs, std::span<const Tensor> outputs, F&& backward);
  Var record_view(const char* op, const Var& input, Tensor value, std::function<Tensor(const Tensor&)> view);

 private:
  friend class Var;
  using Run = void (*)(void* closure, const Tensor* output_gradients);
  using Destroy = void (*)(void* closure);

  Var add_node(const char* op, std::span<const Var> inputs, const Tensor& value, bool requires_grad);
  void attach(const Var& first, std::size_t outputs, void* closure, Run run, Destroy destroy);
  void* allocate(std::size_t bytes);
  Node& at(std::size_t index) const;
  Var var(Node& node) const;
  void release(Node& node);
  void forget_intermediate_gradients();
  void do_deferred_products();
  void run_probed(Node& node, std::span<const Tensor> gradients);

  struct Deferred {
    Var weight;
    std::vector<std::pair<Tensor, Tensor>> products;  // (dy, x)
  };

  TapeSlot* slot_;
  std::size_t size_ = 0;
  std::vector<std::unique_ptr<Node[]>> node_chunks_;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::vector<std::unique_ptr<std::byte[]>> oversized_;
  std::size_t chunk_ = 0, used_ = 0;
  std::vector<Deferred> deferred_;
  std::vector<std::pair<Parameter*, Var>> parameters_;
  bool kept_gradients_ = false;
  struct Probed;
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
// of the inputs (x.accumulate(...)). The closure is kept only where some input wants a gradient.
template <class F>
Var record(const char* op, std::initializer_list<Var> inputs, const Tensor& value, F&& backward) {
  return inputs.begin()->tape().record(op, {inputs.begin(), inputs.size()}, {&value, 1},
                                       [f = std::forward<F>(backward)](const Tensor* dy) { f(dy[0]); });
}
template <class F>
Var record(const char* op, std::span<const Var> inputs, const Tensor& value, F&& backward) {
  return inputs[0].tape().record(op, inputs, {&value, 1}, [f = std::forward<F>(backward)](const Tensor* dy) { f(dy[0]); });
}
// Several outputs: the closure gets one gradient for each, undefined where none arrived. Returns the first; the others are
// first.tape().output(first, 1), ...
template <class F>
Var record_many(const char* op, std::span<const Var> inputs, std::span<const Tensor> values, F&& backward) {
  return inputs[0].tape().record(op, inputs, values, std::forward<F>(backward));
}

// An operation that only looks at its input's memory differently. Its gradient is the same view of the input's gradient, so it
// has no backward: what is added to it is added to the input's.
template <class View>
Var record_view(const char* op, const Var& x, View&& view) {
  return x.tape().record_view(op, x, view(x.value()), std::forward<View>(view));
}

// ---------------------------------------------------------------------------------------------------------------------

template <class F>
Var Tape::record(const char* op, std::span<const Var> inputs, std::span<const Tensor> outputs, F&& backward) {
  bool wanted = false;
  if (!NoGrad::active())
    for (const Var& input : inputs) wanted |= input.defined() && input.requires_grad();
  const Var first = add_node(op, inputs, outputs[0], wanted);
  for (std::size_t i = 1; i < outputs.size(); ++i) add_node(op, {&first, 1}, outputs[i], wanted);
  if (wanted) {
    using Closure = std::decay_t<F>;
    static_assert(alignof(Closure) <= alignof(std::max_align_t));
    void* memory = allocate(sizeof(Closure));
    new (memory) Closure(std::forward<F>(backward));
    attach(
        first, outputs.size(), memory, [](void* closure, const Tensor* dy) { (*static_cast<Closure*>(closure))(dy); },
        [](void* closure) { static_cast<Closure*>(closure)->~Closure(); });
  }
  return first;
}

}  // namespace seqgrad
