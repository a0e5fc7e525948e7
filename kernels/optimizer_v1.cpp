// Optimiser steps, as their equations (ops.def).
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::v1 {

template <class T>
void sgd_step(T* w, const T* g, T* velocity, i64 n, T lr, T momentum, const double* scale) {
  if (scale && *scale != *scale) return;
  for (i64 i = 0; i < n; ++i) {
    T step = (scale ? T(*scale) : 1) * g[i];
    if (velocity) step = velocity[i] = momentum * velocity[i] + step;
    w[i] -= lr * step;
  }
}
SEQGRAD_INSTANTIATE(sgd_step)

template <class T>
void adam_step(T* w, const T* g, T* m, T* v, i64 n, double lr, double beta1, double beta2, double eps, double correction1,
               double correction2, const double* scale) {
  if (scale && *scale != *scale) return;
  for (i64 i = 0; i < n; ++i) {
    const T gradient = (scale ? T(*scale) : 1) * g[i];
    m[i] = T(beta1) * m[i] + T(1 - beta1) * gradient;
    v[i] = T(beta2) * v[i] + T(1 - beta2) * gradient * gradient;
    w[i] -= T(lr / correction1) * m[i] / (sqrt(v[i] / T(correction2)) + T(eps));
  }
}
SEQGRAD_INSTANTIATE(adam_step)

}  // namespace seqgrad::kernels::v1
