// The bridge from tensors to kernels: one call picks the element type and the device.
//
//   launch(kernels::softmax, x, y, rows, cols);
//
// Tensors become pointers (an undefined one a null pointer), numbers are converted to the kernel's types. Element type and
// device are those of the first floating-point tensor. Tensors must be contiguous unless the kernel takes strides: the caller's
// care. Ids, lengths and masks that a kernel on a device only reads may lie on the host, as tensors or as std::span<const i64>.
#pragma once

#include <span>
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
      return tensor.raw<std::remove_const_t<U>>();
    else
      return tensor.mutable_raw<U>();
  }
};

template <class A>
decltype(auto) kernel_argument(const A& a) {
  if constexpr (std::is_same_v<A, Tensor>)
    return PointerTo{a};
  else if constexpr (std::is_same_v<A, Dims> || std::is_same_v<A, std::span<const i64>>)
    return a.data();
  else
    return (a);
}

// An argument as the device needs it: what lies elsewhere is copied for the length of the call.
template <class A>
decltype(auto) on_device(const A& a, Device device) {
  if constexpr (std::is_same_v<A, Tensor>) {
    if (a.defined() && a.device() != device && a.is_floating())
      throw_error("a tensor on {} was used with one on {}", name_of(a.device()), name_of(device));
    return a.defined() ? a.to(device) : a;
  } else if constexpr (std::is_same_v<A, std::span<const i64>>) {
    return Tensor::from<i64>({a.begin(), a.end()}, {static_cast<i64>(a.size())}).to(device);
  } else {
    return (a);
  }
}

// What the copies have become, as pointers, while the call lasts.
template <class T, class Kernel, class... A>
void run_on_device(const Kernel& kernel, Device device, const A&... arguments) {
  kernel.template run<T>(device, kernel_argument(arguments)...);
}

template <class A>
void note_tensor(const A& a, const Tensor*& found) {
  if constexpr (std::is_same_v<A, Tensor>)
    if (!found && a.defined() && a.is_floating()) found = &a;
}

template <class Kernel, class... A>
[[gnu::noinline, gnu::cold]] void launch_on_device(const Kernel& kernel, DType dtype, Device device, const A&... arguments) {
  dispatch(dtype, [&]<class T>() { run_on_device<T>(kernel, device, on_device(arguments, device)...); });
}

}  // namespace detail

template <class Kernel, class... A>
void launch(const Kernel& kernel, const A&... arguments) {
  const Tensor* first = nullptr;
  (detail::note_tensor(arguments, first), ...);
  if (!first) throw_error("a floating-point tensor is needed here");
  if (first->device() != Device::cpu) [[unlikely]]
    return detail::launch_on_device(kernel, first->dtype(), first->device(), arguments...);
  dispatch(first->dtype(), [&]<class T>() { kernel.template run<T>(Device::cpu, detail::kernel_argument(arguments)...); });
}

}  // namespace seqgrad
