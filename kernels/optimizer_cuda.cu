// Optimiser steps: one pass over the block of all parameters.
#include "kernels/cuda_loops.cuh"
#include "kernels/instantiate.h"
#include "kernels/kernels.h"

namespace seqgrad::kernels::cuda {

template <class T>
void sgd_step(T* w, const T* g, T* velocity, i64 n, T lr, T momentum, const double* scale) {
  each_element(n, [=] __device__(i64 i) {
    const double factor = scale ? *scale : 1;
    if (factor != factor) return;
    T step = T(factor) * g[i];
    if (velocity) step = velocity[i] = momentum * velocity[i] + step;
    w[i] -= lr * step;
  });
}
SEQGRAD_INSTANTIATE(sgd_step)

template <class T>
void adam_step(T* w, const T* g, T* m, T* v, i64 n, double lr, double beta1, double beta2, double eps, double correction1,
               double correction2, const double* scale) {
  const T b1 = T(beta1), b2 = T(beta2), c1 = T(1 - beta1), c2 = T(1 - beta2);
  const T rate = T(lr / correction1), inverse2 = T(1 / correction2), epsilon = T(eps);
  each_element(n, [=] __device__(i64 i) {
    const double factor = scale ? *scale : 1;
    if (factor != factor) return;
    const T gradient = T(factor) * g[i];
    m[i] = b1 * m[i] + c1 * gradient;
    v[i] = b2 * v[i] + c2 * gradient * gradient;
    w[i] -= rate * m[i] / (sqrt(v[i] * inverse2) + epsilon);
  });
}
SEQGRAD_INSTANTIATE(adam_step)

}  // namespace seqgrad::kernels::cuda
