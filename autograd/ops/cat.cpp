// Parts side by side; each part's gradient is its slice of dy. stack makes the dimension it joins along.
#include "autograd/cases.h"
#include "autograd/ops.h"

namespace seqgrad {
namespace {

// place(whole, i) is part i's place in the result, and in its gradient.
template <class Place>
Var join(const char* op, std::span<const Var> parts, const Dims& shape, Place place) {
  const Tensor y(shape, parts[0].dtype(), parts[0].value().device());
  for (std::size_t i = 0; i < parts.size(); ++i) place(y, i).copy_from(parts[i].value());
  return record(op, parts, y, [parts = std::vector<Var>(parts.begin(), parts.end()), place](const Tensor& dy) {
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].accumulate(place(dy, i));
  });
}

}  // namespace

Var cat(std::span<const Var> parts, int dimension) {
  if (parts.empty()) throw_error("[cat] needs at least one tensor");
  const int d = parts[0].value().wrap(dimension);
  Dims shape = parts[0].shape();
  std::vector<i64> begin{0};
  for (const Var& part : parts) {
    Dims expected = parts[0].shape();
    if (part.dim() == expected.size()) expected[d] = part.size(d);
    if (!(part.shape() == expected))
      throw_error("[cat] {} and {} differ in more than dimension {}", parts[0].shape(), part.shape(), d);
    begin.push_back(begin.back() + part.size(d));
  }
  shape[d] = begin.back();
  return join("cat", parts, shape, [=](const Tensor& t, std::size_t i) { return t.slice(d, begin[i], begin[i + 1]); });
}

Var stack(std::span<const Var> parts, int dimension) {
  if (parts.empty()) throw_error("[stack] needs at least one tensor");
  Dims shape = parts[0].shape();
  const int d = dimension < 0 ? dimension + shape.size() + 1 : dimension;
  if (d < 0 || d > shape.size()) throw_error("[stack] dimension {} is outside shape {}", dimension, shape);
  for (const Var& part : parts)
    if (!(part.shape() == shape)) throw_error("[stack] shapes differ: {} and {}", shape, part.shape());
  shape.insert(d, static_cast<i64>(parts.size()));
  return join("stack", parts, shape, [=](const Tensor& t, std::size_t i) { return t.select(d, static_cast<i64>(i)); });
}

SEQGRAD_CASES(cat) {
  cases.add("cat", [](const std::vector<Var>& v) { return cat(v, 1); },
            {cases.normal({2, 3}), cases.normal({2, 1}), cases.normal({2, 2})});
  cases.add("cat/same tensor twice", [](Var x) { return cat(std::vector{x, x}, -1); }, {cases.normal({2, 3})});
  cases.add("stack", [](const std::vector<Var>& v) { return stack(v, 1); }, {cases.normal({2, 3}), cases.normal({2, 3})});
  cases.add("stack/transposed",
            [](Var a, Var b) {
              return stack(std::vector{transpose(a), transpose(b)}, 2);
            },
            {cases.normal({2, 3}), cases.normal({2, 3})});
}

}  // namespace seqgrad
