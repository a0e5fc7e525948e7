// y = a b;  da = dy bT, db = aT dy
// linear: y = x WT + bias (one for all rows, or one for each);  dx = dy W, dW = dyT x, dbias = sum of dy's rows
#include "tensor/matmul.h"

#include "autograd/cases.h"
#include "autograd/ops.h"
#include "tensor/launch.h"

namespace seqgrad {
namespace {

Var product(const Var& a, const Var& b) {
  const Tensor x = a.value(), z = b.value();
  return record("matmul", {a, b}, matmul(x, z), [a, b, x = Saved(x), z = Saved(z)](const Tensor& dy) {
    a.accumulate_with([&](const Tensor& da, double beta) { matmul_into(dy, z.get().transpose(-1, -2), beta, da); });
    b.accumulate_with([&](const Tensor& db, double beta) { matmul_into(x.get().transpose(-1, -2), dy, beta, db); });
  });
}

}  // namespace

Var matmul(const Var& a, const Var& b) {
  if (a.dim() == 3 && b.dim() == 2) {  // one matrix for the whole batch: one product over all its rows
    const Var y = matmul(reshape(a, {a.size(0) * a.size(1), a.size(2)}), b);
    return reshape(y, {a.size(0), a.size(1), b.size(1)});
  }
  if (a.dim() == 3 && b.dim() == 3 && a.size(0) != b.size(0))
    throw_error("[matmul] batch sizes differ: {} x {}", a.shape(), b.shape());
  return product(a, b);
}

Var linear(const Var& input, const Var& weight, const Var& bias) {
  if (weight.dim() != 2 || input.dim() < 1 || input.size(-1) != weight.size(1))
    throw_error("[linear] input {} does not fit weight {}", input.shape(), weight.shape());
  const i64 out = weight.size(0), in = weight.size(1);
  i64 rows = 1;
  for (int d = 0; d + 1 < input.dim(); ++d) rows *= input.size(d);
  if (bias.defined() && !(bias.shape() == Dims{out}) && !(bias.shape() == Dims{rows, out}))
    throw_error("[linear] bias {} does not fit weight {}", bias.shape(), weight.shape());

  // Rows in two dimensions; a row-strided matrix, such as one time step of a batch, is used as it lies.
  const Tensor& value = input.value();
  const Tensor x = value.dim() == 2 ? value : value.reshape({rows, in});
  Dims shape = input.shape();
  shape.back() = out;
  const Tensor y(shape, x.dtype(), x.device());
  const Tensor y_rows = y.reshape({rows, out});
  if (bias.defined()) y_rows.copy_from(bias.value().expand({rows, out}));
  matmul_into(x, weight.value().transpose(0, 1), bias.defined() ? 1 : 0, y_rows);

  return record("linear", {input, weight, bias}, y, [=, x = Saved(x), w = Saved(weight.value())](const Tensor& dy) {
    const Tensor dy_rows = dy.reshape({rows, out});
    input.accumulate_with([&](const Tensor& dx, double beta) {
      if (dx.dim() == 2 || dx.can_view({rows, in})) return matmul_into(dy_rows, w.get(), beta, dx.reshape({rows, in}));
      const Tensor product = matmul(dy_rows, w.get()).reshape(dx.shape());
      if (beta == 0) return dx.copy_from(product);
      launch(kernels::add_strided, 1.0, product, product.strides(), dx, dx.strides(), dx.shape(), dx.dim());
    });
    weight.accumulate_outer(dy_rows, x.get());
    if (bias.defined()) bias.accumulate(sum_to(dy_rows, bias.shape()));
  });
}

SEQGRAD_CASES(matmul) {
  const auto product = [](Var a, Var b) { return matmul(a, b); };
  cases.add("matmul", product, {cases.normal({3, 4}), cases.normal({4, 2})});
  cases.add("matmul/batched", product, {cases.normal({2, 3, 4}), cases.normal({2, 4, 5})});
  cases.add("matmul/one matrix for a batch", product, {cases.normal({2, 3, 4}), cases.normal({4, 5})});
  cases.add("matmul/vector times matrices", product, {cases.normal({3, 1, 4}), cases.normal({3, 4, 5})});
  cases.add("matmul/transposed", [](Var a, Var b) { return matmul(transpose(a), transpose(b)); },
            {cases.normal({4, 3}), cases.normal({2, 4})});
  cases.add("matmul/batched transposed", [](Var a, Var b) { return matmul(a, transpose(b, 1, 2)); },
            {cases.normal({2, 1, 4}), cases.normal({2, 5, 4})});
  cases.add("matmul/same tensor twice", [](Var x) { return matmul(x, transpose(x)); }, {cases.normal({3, 4})});
  cases.add("linear", [](Var x, Var w, Var b) { return linear(x, w, b); },
            {cases.normal({2, 3, 4}), cases.normal({5, 4}), cases.normal({5})}, {"x", "weight", "bias"});
  cases.add(
      "linear/weight in two parts",
      [](Var x, Var w) { return linear(slice(x, 1, 0, 2), slice(w, 1, 0, 2)) * linear(slice(x, 1, 2, 5), slice(w, 1, 2, 5)); },
      {cases.normal({3, 5}), cases.normal({4, 5})}, {"x", "weight"});
  cases.add("linear/at each of four steps",
            [](Var x, Var w) {
              Var h = x;
              for (int t = 0; t < 4; ++t) h = tanh(linear(h, w));
              return h;
            },
            {cases.normal({2, 3}), cases.normal({3, 3})}, {"x", "weight"});
}

}  // namespace seqgrad
