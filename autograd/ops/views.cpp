// Operations that look at the same memory in another way. The gradient of a view is the same view of the gradient.
#include "autograd/cases.h"
#include "autograd/ops.h"

namespace seqgrad {

Var transpose(const Var& x, int a, int b) {
  return record_view("transpose", x, [=](const Tensor& t) { return t.transpose(a, b); });
}

Var slice(const Var& x, int dimension, i64 begin, i64 end) {
  return record_view("slice", x, [=](const Tensor& t) { return t.slice(dimension, begin, end); });
}

Var select(const Var& x, int dimension, i64 index) {
  return record_view("select", x, [=](const Tensor& t) { return t.select(dimension, index); });
}

Var unsqueeze(const Var& x, int dimension) {
  return record_view("unsqueeze", x, [=](const Tensor& t) { return t.unsqueeze(dimension); });
}

Var reshape(const Var& input, const Dims& shape) {
  Var x = input;
  if (!x.value().is_contiguous())
    x = record("contiguous", {input}, input.value().clone(), [input](const Tensor& dy) { input.accumulate(dy); });
  return record_view("reshape", x, [=](const Tensor& t) {
    if (!t.can_view(shape)) throw_error("[reshape] the gradient of shape {} has no view of shape {}", t.shape(), shape);
    return t.reshape(shape);
  });
}

Var expand(const Var& x, const Dims& shape) {  // dx = dy summed over the repeated axes
  return record("expand", {x}, x.value().expand(shape), [x](const Tensor& dy) { x.accumulate(sum_to(dy, x.shape())); });
}

SEQGRAD_CASES(views) {
  cases.add("transpose", [](Var x) { return transpose(x, 0, 2); }, {cases.normal({2, 3, 4})});
  cases.add("slice", [](Var x) { return slice(x, 1, 1, 3); }, {cases.normal({2, 4, 3})});
  cases.add("slice/overlapping", [](Var x) { return slice(x, 0, 0, 3) * slice(x, 0, 1, 4); }, {cases.normal({4, 3})});
  cases.add("select", [](Var x) { return select(x, 1, 2) * select(x, 1, 0); }, {cases.normal({2, 4, 3})});
  cases.add("unsqueeze", [](Var x) { return unsqueeze(x, 1) * x; }, {cases.normal({3, 3})});
  cases.add("reshape", [](Var x) { return reshape(x, {2, -1}); }, {cases.normal({3, 4})});
  cases.add("reshape/transposed", [](Var x) { return reshape(transpose(x), {2, 6}); }, {cases.normal({3, 4})});
  cases.add("reshape/expanded", [](Var x) { return reshape(transpose(expand(x, {4, 3})), {12}); }, {cases.normal({1, 3})});
  cases.add("expand", [](Var x) { return expand(x, {2, 3, 4}); }, {cases.normal({3, 1})});
}

}  // namespace seqgrad
