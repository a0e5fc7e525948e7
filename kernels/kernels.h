// The numeric routines on raw pointers and sizes, generated from ops.def (contracts there) and elementwise.h:
//   kernels::softmax<float>(device, x, y, rows, cols)          by device
//   kernels::cpu::softmax<float>(x, y, rows, cols)             the CPU's, fastest for this machine
//   kernels::v1::softmax<float>(x, y, rows, cols)              the plain loops that read like the equations
// Thread-safe: no routine has state; each call uses all threads of set_threads() where that pays.
#pragma once

#include "kernels/elementwise.h"
#include "kernels/types.h"

namespace seqgrad::kernels {

#define SEQGRAD_DECLARE(name, parameters) \
  template <class T>                      \
  void name parameters;
#define SEQGRAD_KERNEL(name, parameters, arguments) SEQGRAD_DECLARE(name, parameters)

// Elementwise families. Contiguous: y = f(x), dx = f'(x, y, dy); dx may be dy.
// Broadcasting: y is contiguous over `shape`; a and b have strides (0 where they repeat). In the backward y and dy are
// contiguous, da and db are contiguous over `shape` (the caller sums over repeated axes); da?, db? may be null.
#define SEQGRAD_ELEMENTWISE_FAMILIES                                                                                       \
  template <class Op, class T>                                                                                             \
  void unary(const T* x, T* y, i64 n);                                                                                     \
  template <class Op, class T>                                                                                             \
  void unary_backward(const T* x, const T* y, const T* dy, T* dx, i64 n);                                                  \
  template <class Op, class T>                                                                                             \
  void binary(const T* a, const i64* a_strides, const T* b, const i64* b_strides, T* y, const i64* shape, i64 ndim);       \
  template <class Op, class T>                                                                                             \
  void binary_backward(const T* a, const i64* a_strides, const T* b, const i64* b_strides, const T* y, const T* dy, T* da, \
                       T* db, const i64* shape, i64 ndim);

namespace v1 {
SEQGRAD_ELEMENTWISE_FAMILIES
#include "kernels/ops.def"
}  // namespace v1
namespace avx2 {
SEQGRAD_ELEMENTWISE_FAMILIES
#include "kernels/ops.def"
}  // namespace avx2
namespace avx512 {
SEQGRAD_ELEMENTWISE_FAMILIES
#include "kernels/ops.def"
}  // namespace avx512
namespace cpu {
SEQGRAD_ELEMENTWISE_FAMILIES
#include "kernels/ops.def"
}  // namespace cpu
namespace cuda {
SEQGRAD_ELEMENTWISE_FAMILIES
#include "kernels/ops.def"
}  // namespace cuda

// By device. Objects rather than functions, so that tensor/launch.h can pass them along.
#undef SEQGRAD_KERNEL
#define SEQGRAD_KERNEL(name, parameters, arguments)                             \
  inline constexpr struct name##_kernel {                                       \
    template <class T>                                                          \
    void run(Device device, SEQGRAD_UNWRAP parameters) const {                  \
      device == Device::cpu ? cpu::name<T> arguments : cuda::name<T> arguments; \
    }                                                                           \
  } name{};
#define SEQGRAD_UNWRAP(...) __VA_ARGS__
#include "kernels/ops.def"
#undef SEQGRAD_KERNEL
#undef SEQGRAD_UNWRAP
#undef SEQGRAD_DECLARE

template <class Op>
struct unary_kernel {
  template <class T>
  void run(Device device, const T* x, T* y, i64 n) const {
    device == Device::cpu ? cpu::unary<Op>(x, y, n) : cuda::unary<Op>(x, y, n);
  }
};
template <class Op>
struct unary_backward_kernel {
  template <class T>
  void run(Device device, const T* x, const T* y, const T* dy, T* dx, i64 n) const {
    device == Device::cpu ? cpu::unary_backward<Op>(x, y, dy, dx, n) : cuda::unary_backward<Op>(x, y, dy, dx, n);
  }
};
template <class Op>
struct binary_kernel {
  template <class T>
  void run(Device device, const T* a, const i64* a_strides, const T* b, const i64* b_strides, T* y, const i64* shape,
           i64 ndim) const {
    device == Device::cpu ? cpu::binary<Op>(a, a_strides, b, b_strides, y, shape, ndim)
                          : cuda::binary<Op>(a, a_strides, b, b_strides, y, shape, ndim);
  }
};
template <class Op>
struct binary_backward_kernel {
  template <class T>
  void run(Device device, const T* a, const i64* a_strides, const T* b, const i64* b_strides, const T* y, const T* dy, T* da,
           T* db, const i64* shape, i64 ndim) const {
    device == Device::cpu ? cpu::binary_backward<Op>(a, a_strides, b, b_strides, y, dy, da, db, shape, ndim)
                          : cuda::binary_backward<Op>(a, a_strides, b, b_strides, y, dy, da, db, shape, ndim);
  }
};
template <class Op>
inline constexpr unary_kernel<Op> unary{};
template <class Op>
inline constexpr unary_backward_kernel<Op> unary_backward{};
template <class Op>
inline constexpr binary_kernel<Op> binary{};
template <class Op>
inline constexpr binary_backward_kernel<Op> binary_backward{};

// Which CPU routines this process uses: "avx512", "avx2" or "v1". SEQGRAD_CPU in the environment asks for a lower one.
const char* cpu_level();

// True when the build has CUDA and the machine a usable device.
bool cuda_available();

}  // namespace seqgrad::kernels
