// Tensor: a handle to shared memory with an offset, a shape and strides. Copying a Tensor copies the handle. Views
// (transpose, slice, select, expand, unsqueeze, reshape where possible) share memory. Row-major; strides count elements.
// Reading from several threads is safe; writing needs the caller's care.
#pragma once

#include <string>
#include <vector>

#include "tensor/dims.h"
#include "tensor/storage.h"

namespace seqgrad {

enum class DType : std::uint8_t { f32, f64, i64, boolean };
constexpr std::size_t size_of(DType dtype) {  // bytes
  return dtype == DType::f32 ? 4 : dtype == DType::boolean ? 1 : 8;
}
const char* name_of(DType dtype);
const char* name_of(Device device);

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<i64>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<bool>() {
  return DType::boolean;
}

class Tensor {
 public:
  Tensor() = default;  // undefined: has no memory and no shape
  explicit Tensor(const Dims& shape, DType dtype = DType::f32, Device device = Device::cpu);  // contents undefined
  template <class T>
  static Tensor from(const std::vector<T>& values, const Dims& shape);

  bool defined() const { return static_cast<bool>(storage_); }
  const Dims& shape() const { return shape_; }
  const Dims& strides() const { return strides_; }
  int dim() const { return shape_.size(); }
  i64 size(int dimension) const { return shape_[wrap(dimension)]; }  // negative counts from the end
  i64 numel() const { return shape_.product(); }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device; }
  bool is_floating() const { return dtype_ == DType::f32 || dtype_ == DType::f64; }
  bool is_contiguous() const {
    i64 step = 1;
    for (int i = dim() - 1; i >= 0; --i) {
      if (shape_[i] != 1 && strides_[i] != step) return numel() == 0;
      step *= shape_[i];
    }
    return true;
  }
  bool owns_all_of_its_memory() const { return storage_.unique() && is_contiguous(); }
  bool shares_memory_with(const Tensor& other) const { return storage_ == other.storage_; }

  // The elements, of a tensor on the CPU.
  template <class T>
  const T* data() const {
    check_host();
    return raw<T>();
  }
  // For writing; counts as an overwrite of the whole storage for the version check.
  template <class T>
  T* mutable_data() const {
    check_host();
    return mutable_raw<T>();
  }
  // The same on any device: addresses for kernels, which the host cannot follow.
  template <class T>
  const T* raw() const {
    check_dtype(dtype_of<T>());
    return reinterpret_cast<const T*>(bytes());
  }
  template <class T>
  T* mutable_raw() const {
    check_dtype(dtype_of<T>());
    ++storage_->version;
    return reinterpret_cast<T*>(bytes());
  }
  u32 version() const { return storage_->version; }

  // Views. Errors name the dimension and the shape.
  Tensor transpose(int a, int b) const;
  Tensor slice(int dimension, i64 begin, i64 end) const;
  Tensor select(int dimension, i64 index) const;  // slice of one, without its dimension
  Tensor expand(const Dims& shape) const;
  Tensor unsqueeze(int dimension) const;
  Tensor reshape(const Dims& shape) const;  // one extent may be -1; copies where strides do not allow a view
  bool can_view(const Dims& shape) const;

  Tensor contiguous() const;  // itself, or a contiguous copy
  Tensor clone() const;
  Tensor to(DType dtype) const;    // itself where it is so already
  Tensor to(Device device) const;  // the same, a contiguous copy else

  void fill(double value) const;
  void copy_from(const Tensor& source) const;  // same shape and dtype; any strides, any device
  void add_from(const Tensor& source) const;   // the same, for floating-point tensors
  double item() const;                         // of a tensor with one element
  double at(std::initializer_list<i64> index) const;
  template <class T>
  std::vector<T> to_vector() const;

  int wrap(int dimension) const;  // checks and maps -1 to dim() - 1
  void reset() {                  // undefined from here on
    storage_ = StorageRef();
    shape_.clear();
    strides_.clear();
  }

 private:
  Tensor(const Dims& shape, i64 count, DType dtype, Device device);
  friend Tensor empty_like(const Tensor& x);
  void copy_bytes(const Tensor& source) const;
  char* bytes() const { return static_cast<char*>(storage_->data) + offset_ * static_cast<i64>(size_of(dtype_)); }
  void check_dtype(DType wanted) const {
    if (!defined() || dtype_ != wanted) wrong_dtype(wanted);
  }
  void check_host() const {
    if (defined() && device() != Device::cpu) [[unlikely]]
      not_on_host();
  }
  [[noreturn]] void wrong_dtype(DType wanted) const;
  [[noreturn]] void not_on_host() const;

  StorageRef storage_;
  i64 offset_ = 0;
  // dtype_ lies in the padding of strides_: two cache lines are all that a tensor takes.
  [[no_unique_address]] Dims shape_;
  [[no_unique_address]] Dims strides_;
  DType dtype_ = DType::f32;
};
static_assert(sizeof(Tensor) == 128);

// Where models are made and gradients checked (the program's --device); the CPU at first. Tensors are made where they are told.
Device default_device();
void set_default_device(Device device);

Dims contiguous_strides(const Dims& shape);
// Strides of x repeated to `shape`, 0 where it repeats: those of x.expand(shape), which is known to fit.
Dims broadcast_strides(const Tensor& x, const Dims& shape);

Tensor zeros(const Dims& shape, DType dtype = DType::f32, Device device = Device::cpu);
Tensor ones(const Dims& shape, DType dtype = DType::f32, Device device = Device::cpu);
Tensor full(const Dims& shape, double value, DType dtype = DType::f32, Device device = Device::cpu);
Tensor empty_like(const Tensor& x);  // contiguous
Tensor zeros_like(const Tensor& x);

struct NamedTensor {
  std::string name;
  Tensor value;
};

// A scalar's text, or shape, dtype and the values of a small tensor.
std::string to_string(const Tensor& x);

template <class T>
Tensor Tensor::from(const std::vector<T>& values, const Dims& shape) {
  if (static_cast<i64>(values.size()) != shape.product())
    throw_error("{} values do not fill a tensor of shape {}", values.size(), shape);
  Tensor x(shape, dtype_of<T>());
  T* out = x.mutable_data<T>();
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = values[i];
  return x;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor x = contiguous().to(Device::cpu);
  const T* p = x.data<T>();
  return std::vector<T>(p, p + x.numel());
}

}  // namespace seqgrad

template <>
struct fmt::formatter<seqgrad::Tensor> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const seqgrad::Tensor& x, Context& context) const {
    return fmt::format_to(context.out(), "{}", seqgrad::to_string(x));
  }
};
