// A tensor and a tape: values forward, gradients backward, and the same gradient as a difference quotient.
#include <fmt/format.h>
#include <seqgrad/autograd/ops.h>

using namespace seqgrad;

// f(x, w) = sum tanh(x w); the comments are shapes
Var f(const Var& x, const Var& w) {
  const Var y = matmul(x, w);  // (2, 2)
  return sum(tanh(y));         // ()
}

int main() {
  const Tensor x = Tensor::from<double>({1, 2, 3, -1, 0.5, 0}, {2, 3});
  const Tensor w = Tensor::from<double>({0.1, 0.2, -0.3, 0.4, 0.5, -0.6}, {3, 2});
  fmt::print("x = {}\n\nits transpose, a view of the same memory = {}\n\n", x, x.transpose(0, 1));

  Tape tape;  // records what is done to its Vars, in order
  const Var tx = tape.leaf(x), tw = tape.leaf(w);
  const Var y = f(tx, tw);
  tape.backward(y);  // one loop back over the record
  fmt::print("f(x, w) = {}\n\nd f / d w = {}\n\n", y.value(), tw.grad());

  // The entry (2, 0) of it from two more values of f.
  const double h = 1e-5;
  const auto moved = [&](double by) {
    NoGrad values_only;
    const Tensor other = w.clone();
    other.mutable_data<double>()[2 * 2 + 0] += by;
    return f(tape.constant(x), tape.constant(other)).value().item();
  };
  fmt::print("d f / d w at (2, 0): {:.8f} by the tape, {:.8f} by differences\n", tw.grad().at({2, 0}),
             (moved(h) - moved(-h)) / (2 * h));
}
