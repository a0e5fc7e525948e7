// The device's routines and the reference for them, both called with arrays of the host:
//   on_device::NAME<T>   mirrors on the device the heap blocks that its pointers lead into, and brings back what was written
//   reference::NAME<T>   v1 in double, rounded to T at the end
// Generated from ops.def. Strides and shapes stay on the host, as kernels.h has it. Not thread-safe.
#pragma once

#include <map>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda.h"
#include "kernels/kernels.h"
#include "tests/cuda/heap.h"

namespace seqgrad::kernels {

namespace test {

// True for the routines whose arrays of i64 are strides and shapes.
constexpr bool takes_strides(std::string_view routine) { return routine.find("_strided") != std::string_view::npos; }

class OnDevice {
 public:
  explicit OnDevice(bool strides_on_host) : strides_on_host_(strides_on_host) {}
  ~OnDevice() {
    for (auto& [begin, mirror] : mirrors_) cuda::release(mirror.data, mirror.bytes);
  }
  OnDevice(const OnDevice&) = delete;

  template <class A>
  A operator()(A argument) {
    if constexpr (std::is_pointer_v<A>) {
      if (strides_on_host_ && std::is_same_v<A, const i64*>) return argument;
      const HeapBlock block = heap_block(argument);
      if (!block.begin || block.bytes == 0) return argument;
      Mirror& mirror = mirrors_[block.begin];
      if (!mirror.data) {
        mirror = {static_cast<char*>(cuda::allocate(block.bytes)), block.bytes};
        cuda::upload(mirror.data, block.begin, block.bytes);
      }
      mirror.written |= !std::is_const_v<std::remove_pointer_t<A>>;
      return reinterpret_cast<A>(mirror.data + (reinterpret_cast<const char*>(argument) - block.begin));
    } else {
      return argument;
    }
  }

  void finish() {
    cuda::synchronize();
    for (auto& [begin, mirror] : mirrors_)
      if (mirror.written) cuda::download(begin, mirror.data, mirror.bytes);
  }

 private:
  struct Mirror {
    char* data = nullptr;
    std::size_t bytes = 0;
    bool written = false;
  };
  bool strides_on_host_;
  std::map<char*, Mirror> mirrors_;
};

template <class... P, class... A>
void call_on_device(bool strides_on_host, void (*routine)(P...), A... arguments) {
  OnDevice mirrored(strides_on_host);
  routine(mirrored(static_cast<P>(arguments))...);
  mirrored.finish();
}

class InDouble {
 public:
  double* operator()(float* x) { return widened(x, true); }
  const double* operator()(const float* x) { return widened(x, false); }
  double operator()(float x) { return static_cast<double>(x); }
  template <class A>
  A operator()(A argument) {
    return argument;
  }

  void finish() {
    for (auto& [begin, wide] : wide_)
      for (std::size_t i = 0; wide.written && i < wide.values.size(); ++i) begin[i] = static_cast<float>(wide.values[i]);
  }

 private:
  struct Wide {
    std::vector<double> values;
    bool written = false;
  };

  double* widened(const float* x, bool written) {
    const HeapBlock block = heap_block(x);
    if (!block.begin) return nullptr;
    float* const begin = reinterpret_cast<float*>(block.begin);
    Wide& wide = wide_[begin];
    if (wide.values.empty()) wide.values.assign(begin, begin + block.bytes / sizeof(float));
    wide.written |= written;
    return wide.values.data() + (x - begin);
  }
  std::map<float*, Wide> wide_;
};

template <class T, class F, class... A>
void call_in_double(F routine, A... arguments) {
  if constexpr (std::is_same_v<T, double>) {
    routine(arguments...);
  } else {
    InDouble wide;
    routine(wide(arguments)...);
    wide.finish();
  }
}

}  // namespace test

#define SEQGRAD_UNWRAP(...) __VA_ARGS__

namespace on_device {
#define SEQGRAD_KERNEL(name, parameters, arguments)                                             \
  template <class T>                                                                            \
  void name parameters {                                                                        \
    test::call_on_device(test::takes_strides(#name), &cuda::name<T>, SEQGRAD_UNWRAP arguments); \
  }
#include "kernels/ops.def"
#undef SEQGRAD_KERNEL

template <class Op, class T>
void unary(const T* x, T* y, i64 n) {
  test::call_on_device(false, &cuda::unary<Op, T>, x, y, n);
}
template <class Op, class T>
void unary_backward(const T* x, const T* y, const T* dy, T* dx, i64 n) {
  test::call_on_device(false, &cuda::unary_backward<Op, T>, x, y, dy, dx, n);
}
template <class Op, class T>
void binary(const T* a, const i64* a_strides, const T* b, const i64* b_strides, T* y, const i64* shape, i64 ndim) {
  test::call_on_device(true, &cuda::binary<Op, T>, a, a_strides, b, b_strides, y, shape, ndim);
}
template <class Op, class T>
void binary_backward(const T* a, const i64* a_strides, const T* b, const i64* b_strides, const T* y, const T* dy, T* da, T* db,
                     const i64* shape, i64 ndim) {
  test::call_on_device(true, &cuda::binary_backward<Op, T>, a, a_strides, b, b_strides, y, dy, da, db, shape, ndim);
}
}  // namespace on_device

namespace reference {
#define SEQGRAD_KERNEL(name, parameters, arguments)                       \
  template <class T>                                                      \
  void name parameters {                                                  \
    test::call_in_double<T>(&v1::name<double>, SEQGRAD_UNWRAP arguments); \
  }
#include "kernels/ops.def"
#undef SEQGRAD_KERNEL

template <class Op, class T>
void unary(const T* x, T* y, i64 n) {
  test::call_in_double<T>(&v1::unary<Op, double>, x, y, n);
}
template <class Op, class T>
void unary_backward(const T* x, const T* y, const T* dy, T* dx, i64 n) {
  test::call_in_double<T>(&v1::unary_backward<Op, double>, x, y, dy, dx, n);
}
template <class Op, class T>
void binary(const T* a, const i64* a_strides, const T* b, const i64* b_strides, T* y, const i64* shape, i64 ndim) {
  test::call_in_double<T>(&v1::binary<Op, double>, a, a_strides, b, b_strides, y, shape, ndim);
}
template <class Op, class T>
void binary_backward(const T* a, const i64* a_strides, const T* b, const i64* b_strides, const T* y, const T* dy, T* da, T* db,
                     const i64* shape, i64 ndim) {
  test::call_in_double<T>(&v1::binary_backward<Op, double>, a, a_strides, b, b_strides, y, dy, da, db, shape, ndim);
}
}  // namespace reference

#undef SEQGRAD_UNWRAP

}  // namespace seqgrad::kernels
