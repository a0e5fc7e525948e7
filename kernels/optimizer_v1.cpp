// Optimiser steps, as their equations (ops.def).
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::v1 {

template <class T>
void sgd_step(T* w, const T* g, T* velocity, i64 n, T lr, T momentum, T scale) {
  for (i64 i = 0; i < n; ++i) {
    T step = scale * g[i];
    if (velocity) step = velocity[i] = momentum * velocity[i] + step;
    w[i] -= lr * step;
  }
}
SEQGRAD_INSTANTIATE(sgd_step)

template <class T>
void adam_step(T* w, const T* g, T* m, T* v, i64 n, T lr, T beta1, T beta2, T eps, T correction1, T correction2, T scale) {
  for (i64 i = 0; i < n; ++i) {
    const T gradient = scale * g[i];
    m[i] = beta1 * m[i] + (1 - beta1) * gradient;
    v[i] = beta2 * v[i] + (1 - beta2) * gradient * gradient;
    w[i] -= lr / correction1 * m[i] / (sqrt(v[i] / correction2) + eps);
  }
}
SEQGRAD_INSTANTIATE(adam_step)

}  // namespace seqgrad::kernels::v1
