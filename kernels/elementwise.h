// Elementwise operations, each with its derivative: the functors that the CPU loops and the CUDA kernels share, and the two
// lists that generate the kernels and the operations on Vars. To add one: a functor and its line in the list here, and its file
// in autograd/ops/ (CONTRIBUTING.md works an example).
//
// V is float, double, or a SIMD vector of either; it has + - * /, V(constant), and the functions exp, log, tanh, sigmoid,
// sqrt, and select(condition, a, b) with comparisons < <= > >= == (scalar_math.h and simd.h supply them).
// Unary: y = forward(x); dx = backward(x, y, dy). Binary: y = forward(a, b); backward gives da and db from (a, b, y, dy).
#pragma once

#include "kernels/scalar_math.h"
#include "kernels/types.h"

namespace seqgrad::kernels {

struct Exp {  // y = e^x, dx = dy y
  template <class V>
  SEQGRAD_HOST_DEVICE static V forward(V x) {
    return exp(x);
  }
  template <class V>
  SEQGRAD_HOST_DEVICE static V backward(V, V y, V dy) {
    return dy * y;
  }
};

struct Log {  // y = log x, dx = dy / x
  template <class V>
  SEQGRAD_HOST_DEVICE static V forward(V x) {
    return log(x);
  }
  template <class V>
  SEQGRAD_HOST_DEVICE static V backward(V x, V, V dy) {
    return dy / x;
  }
};

struct Tanh {  // y = tanh x, dx = dy (1 - y^2)
  template <class V>
  SEQGRAD_HOST_DEVICE static V forward(V x) {
    return tanh(x);
  }
  template <class V>
  SEQGRAD_HOST_DEVICE static V backward(V, V y, V dy) {
#ifdef SEQGRAD_PLANTED_FAULT
    dy = dy * V(1.01);
#endif
    return dy * (V(1) - y * y);
  }
};

struct Sigmoid {  // y = 1 / (1 + e^-x), dx = dy y (1 - y)
  template <class V>
  SEQGRAD_HOST_DEVICE static V forward(V x) {
    return sigmoid(x);
  }
  template <class V>
  SEQGRAD_HOST_DEVICE static V backward(V, V y, V dy) {
    return dy * y * (V(1) - y);
  }
};

struct Relu {  // y = max(x, 0), dx = dy where x > 0 (0 at the kink, as PyTorch has it)
  template <class V>
  SEQGRAD_HOST_DEVICE static V forward(V x) {
    return select(x <= V(0), V(0), x);
  }
  template <class V>
  SEQGRAD_HOST_DEVICE static V backward(V x, V, V dy) {
    return select(x > V(0), dy, V(0));
  }
};

struct Sqrt {  // y = sqrt x, dx = dy / (2 y)
  template <class V>
  SEQGRAD_HOST_DEVICE static V forward(V x) {
    return sqrt(x);
  }
  template <class V>
  SEQGRAD_HOST_DEVICE static V backward(V, V y, V dy) {
    return dy / (V(2) * y);
  }
};

struct Add {  // y = a + b
  template <class V>
  SEQGRAD_HOST_DEVICE static V forward(V a, V b) {
    return a + b;
  }
  template <class V>
  SEQGRAD_HOST_DEVICE static void backward(V, V, V, V dy, V& da, V& db) {
    da = dy;
    db = dy;
  }
};

struct Sub {  // y = a - b
  template <class V>
  SEQGRAD_HOST_DEVICE static V forward(V a, V b) {
    return a - b;
  }
  template <class V>
  SEQGRAD_HOST_DEVICE static void backward(V, V, V, V dy, V& da, V& db) {
    da = dy;
    db = V(0) - dy;
  }
};

struct Mul {  // y = a b
  template <class V>
  SEQGRAD_HOST_DEVICE static V forward(V a, V b) {
    return a * b;
  }
  template <class V>
  SEQGRAD_HOST_DEVICE static void backward(V a, V b, V, V dy, V& da, V& db) {
    da = dy * b;
    db = dy * a;
  }
};

struct Div {  // y = a / b, db = -dy y / b
  template <class V>
  SEQGRAD_HOST_DEVICE static V forward(V a, V b) {
    return a / b;
  }
  template <class V>
  SEQGRAD_HOST_DEVICE static void backward(V, V b, V y, V dy, V& da, V& db) {
    da = dy / b;
    db = V(0) - dy * y / b;
  }
};

// clang-format off
//                           functor  function on Vars
#define SEQGRAD_UNARY_OPS(X) X(Exp,     exp)      \
                             X(Log,     log)      \
                             X(Tanh,    tanh)     \
                             X(Sigmoid, sigmoid)  \
                             X(Relu,    relu)     \
                             X(Sqrt,    sqrt)

#define SEQGRAD_BINARY_OPS(X) X(Add, add)  \
                              X(Sub, sub)  \
                              X(Mul, mul)  \
                              X(Div, div)
// clang-format on

}  // namespace seqgrad::kernels
