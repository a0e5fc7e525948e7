// The bridge from tensors to kernels: one call picks the element type and the device.
//
//   launch(kernels::softmax, x, y, rows, cols);
//
// Tensors become pointers (an undefined one a null pointer), numbers are converted to the kernel's types. The element type is
// that of the first floating-point tensor. Tensors must be contiguous unless the kernel takes strides: the caller's care.
#pragma once

#include <type_traits>

#include "kernels/kernels.h"
#include "tensor/tensor.h"

namespace seqgrad {

// Calls f.template operator()<float>() or <double>() as dtype says.
template <class F>
[[gnu::always_inline]] inline decltype(auto) dispatch(DType dtype, F&& f) {
  if (dtype == DType::f32) return f.template operator()<float>();
  if (dtype == DType::f64) return f.template operator()<double>();
  throw_error("a floating-point tensor is needed here, not {}", name_of(dtype));
}

namespace detail {

struct PointerTo {
  const Tensor& tensor;
  template <class U>
  operator U*() const {
    if (!tensor.defined()) return nullptr;
    if constexpr (std::is_const_v<U>)
      return tensor.data<std::remove_const_t<U>>();
    else
      return tensor.mutable_data<U>();
  }
};

template <class A>
decltype(auto) kernel_argument(const A& a) {
  if constexpr (std::is_same_v<A, Tensor>)
    return PointerTo{a};
  else if constexpr (std::is_same_v<A, Dims>)
    return a.data();
  else
    return (a);
}

template <class A>
void note_tensor(const A& a, const Tensor*& found) {
  if constexpr (std::is_same_v<A, Tensor>)
    if (!found && a.defined() && a.is_floating()) found = &a;
}

}  // namespace detail

template <class Kernel, class... A>
void launch(const Kernel& kernel, const A&... arguments) {
  const Tensor* first = nullptr;
  (detail::note_tensor(arguments, first), ...);
  if (!first) throw_error("a floating-point tensor is needed here");
  dispatch(first->dtype(), [&]<class T>() { kernel.template run<T>(first->device(), detail::kernel_argument(arguments)...); });
}

}  // namespace seqgrad
