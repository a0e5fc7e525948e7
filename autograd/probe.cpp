#include "autograd/probe.h"

#include <deque>

namespace seqgrad {

void TapeProbe::recorded(const Node&) {}
void TapeProbe::around(const char*, std::size_t, std::span<const Tensor> dy, const Backward& backward) { backward(dy); }
void TapeProbe::deliver(Delivery&) {}

// What an operation delivers under a probe, each gradient by itself until the probe has seen it.
struct Tape::Probed {
  struct Arrival {
    Var input;
    Tensor gradient;
  };
  std::deque<Arrival> arrivals;  // its elements stay where they are
};

Tensor& Tape::probed_buffer(const Var& input, double* beta) {
  *beta = 0;
  return probed_->arrivals.emplace_back(Probed::Arrival{input, empty_like(input.value())}).gradient;
}

bool Tape::copies_views() const { return probe_ && probe_->copies_views(); }

Var Tape::record_copy(const char* op, const Var& input, std::function<Tensor(const Tensor&)> view) {
  Tensor copy = view(input.value()).clone();
  return record(op, {&input, 1}, std::move(copy), [input, view = std::move(view)](const Tensor& dy) {
    if (const Tensor whole = input.gradient_to_add_to(); whole.defined()) view(whole).add_from(dy);
  });
}

void Tape::run_probed(Node& n, std::span<const Tensor> gradients) {
  Probed probed;
  struct Scope {
    Probed*& place;
    ~Scope() { place = nullptr; }
  };
  {
    const Scope scope{probed_ = &probed};
    probe_->around(n.op, n.index, gradients, [&](std::span<const Tensor> dy) {
      std::vector<Tensor> contiguous;
      for (const Tensor& one : dy) contiguous.push_back(one.defined() ? one.contiguous() : one);
      run_closure(n, contiguous.data());
    });
  }
  int number = 0;
  for (const Probed::Arrival& arrival : probed.arrivals) {
    const Var& input = arrival.input;
    TapeProbe::Delivery delivery{
        n.op, n.index, input.node_->index, number++, arrival.gradient, false, input.node_->parameter()};
    probe_->deliver(delivery);
    if (delivery.overwrite) input.accumulate_with([](const Tensor& grad, double) { grad.fill(0); });
    input.accumulate(static_cast<const Tensor&>(delivery.gradient));
  }
}

}  // namespace seqgrad
