#include "autograd/cases.h"

namespace seqgrad {

GradcheckReport run(const Case& one, const GradcheckOptions& options) {
  return gradcheck_function(one.function, one.inputs, one.parameters, options);
}

Tensor Cases::away_from_zero(const Dims& shape, double distance) {
  const Tensor x = normal(shape);
  double* p = x.mutable_data<double>();
  for (i64 i = 0; i < x.numel(); ++i) p[i] += p[i] < 0 ? -distance : distance;
  return x;
}

}  // namespace seqgrad
