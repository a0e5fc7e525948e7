#include "autograd/cases.h"

#include <algorithm>
#include <numeric>

namespace seqgrad {

double Case::reach() const {
  double reach = kink_distance;
  for (const Domain& domain : domains) {
    const auto input =
        std::find_if(inputs.begin(), inputs.end(), [&](const NamedTensor& i) { return i.name == domain.argument; });
    if (input == inputs.end()) throw_error("[gradcheck] {} has a domain for {}, but no such argument", name, domain.argument);
    for (const double x : input->value.to(DType::f64).to_vector<double>()) {
      if (!(x > domain.low && x < domain.high))
        throw_error("[gradcheck] {}: {} holds {}, outside its domain ({}, {})", name, domain.argument, x, domain.low,
                    domain.high);
      reach = std::min({reach, x - domain.low, domain.high - x});
    }
  }
  return reach;
}

std::string Case::description() const {
  std::string text;
  for (const NamedTensor& input : inputs)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", input.name, input.value.shape());
  i64 entries = 0;
  for (const Parameter* parameter : parameters) entries += parameter->value.numel();
  if (!parameters.empty())
    text += fmt::format("{}{} parameters of {} entries", text.empty() ? "" : ", ", parameters.size(), entries);
  for (const Domain& domain : domains) text += fmt::format("; {} in ({}, {})", domain.argument, domain.low, domain.high);
  if (kink_distance < infinity) text += fmt::format("; kinks {} away", kink_distance);
  if (nondet_tol > 0) text += fmt::format("; runs differ by {}", nondet_tol);
  return text + fmt::format("; tolerance {:.0e}, in f32 {:.0e}", rtol, rtol_f32);
}

GradcheckReport run(const Case& one, const GradcheckOptions& options) {
  GradcheckOptions within = options;
  within.reach = std::min(options.reach, one.reach());
  return gradcheck_function(one.function, one.inputs, one.parameters, within);
}

Tensor Cases::away_from_zero(const Dims& shape, double distance) {
  const Tensor x = normal(shape);
  double* p = x.mutable_data<double>();
  for (i64 i = 0; i < x.numel(); ++i) p[i] += p[i] < 0 ? -distance : distance;
  return x;
}

Tensor Cases::distinct(const Dims& shape, double distance) {
  std::vector<double> values(static_cast<std::size_t>(shape.product()));
  std::iota(values.begin(), values.end(), -0.5 * static_cast<double>(values.size()));
  for (double& value : values) value *= distance;
  for (std::size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[static_cast<std::size_t>(generator_.uniform() * static_cast<double>(i))]);
  return Tensor::from(values, shape);
}

namespace {

std::vector<AddCases>& registered() {
  static std::vector<AddCases> all;
  return all;
}

}  // namespace

int register_cases(AddCases add) {
  registered().push_back(add);
  return 0;
}

void add_registered_cases(Cases& cases) {
  for (const AddCases add : registered()) add(cases);
}

}  // namespace seqgrad
