#include "tensor/tensor.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cuda.h"
#include "tensor/launch.h"

namespace seqgrad {

namespace {
Device device_of_models = Device::cpu;
}
Device default_device() { return device_of_models; }
void set_default_device(Device device) {
  if (device == Device::cuda) kernels::cuda::require();
  device_of_models = device;
}

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::i64:
      return "i64";
    case DType::boolean:
      return "bool";
  }
  return "?";
}

const char* name_of(Device device) { return device == Device::cpu ? "cpu" : "cuda"; }

Dims contiguous_strides(const Dims& shape) {
  Dims strides = shape;
  i64 step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

Dims broadcast_strides(const Tensor& x, const Dims& shape) {
  if (x.shape() == shape) return x.strides();
  Dims strides = shape;
  const int lead = shape.size() - x.dim();
  for (int i = 0; i < shape.size(); ++i) strides[i] = i < lead || x.shape()[i - lead] != shape[i] ? 0 : x.strides()[i - lead];
  return strides;
}

Dims broadcast(const char* op, const Dims& a, const Dims& b) {
  if (a == b) return a;
  Dims shape = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  const int lead = shape.size() - shorter.size();
  for (int i = 0; i < shorter.size(); ++i) {
    i64& extent = shape[lead + i];
    if (extent == 1)
      extent = shorter[i];
    else if (shorter[i] != 1 && shorter[i] != extent)
      throw_error("[{}] shapes do not broadcast: {} and {}", op, a, b);
  }
  return shape;
}

namespace {

[[noreturn]] void throw_bad_shape(const Dims& shape) {
  for (i64 extent : shape)
    if (extent < 0) throw_error("a tensor cannot have the shape {}", shape);
  throw_error("a tensor of shape {} is too large", shape);
}

// The number of elements, where it and all strides are small enough to calculate with.
i64 checked_count(const Dims& shape) {
  i64 count = 1;  // over the extents that are not 0, for the strides are products of those
  bool empty = false;
  for (i64 extent : shape) {
    empty |= extent == 0;
    if (extent < 0 || __builtin_mul_overflow(count, std::max<i64>(extent, 1), &count) || count > (i64{1} << 48))
      throw_bad_shape(shape);
  }
  return empty ? 0 : count;
}

}  // namespace

Tensor::Tensor(const Dims& shape, i64 count, DType dtype, Device device)
    : storage_(static_cast<std::size_t>(count) * size_of(dtype), device), shape_(shape), strides_(shape), dtype_(dtype) {
  i64 step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides_[i] = step;
    step *= shape[i];
  }
}

Tensor::Tensor(const Dims& shape, DType dtype, Device device) : Tensor(shape, checked_count(shape), dtype, device) {}

int Tensor::wrap(int dimension) const {
  const int wrapped = dimension < 0 ? dimension + dim() : dimension;
  if (wrapped < 0 || wrapped >= dim()) throw_error("dimension {} does not exist in a tensor of shape {}", dimension, shape_);
  return wrapped;
}

void Tensor::wrong_dtype(DType wanted) const {
  if (!defined()) throw_error("a tensor without contents was used");
  throw_error("a tensor of {} was used where {} is needed", name_of(dtype_), name_of(wanted));
}

void Tensor::not_on_host() const {
  throw_error("a tensor of shape {} lies on {}, where the host cannot read it: move it with to(Device::cpu)", shape_,
              name_of(device()));
}

Tensor Tensor::transpose(int a, int b) const {
  a = wrap(a);
  b = wrap(b);
  Tensor view = *this;
  std::swap(view.shape_[a], view.shape_[b]);
  std::swap(view.strides_[a], view.strides_[b]);
  return view;
}

Tensor Tensor::slice(int dimension, i64 begin, i64 end) const {
  dimension = wrap(dimension);
  if (begin < 0 || end < begin || end > shape_[dimension])
    throw_error("[slice] {}..{} is not a part of dimension {} of shape {}", begin, end, dimension, shape_);
  Tensor view = *this;
  view.offset_ += begin * strides_[dimension];
  view.shape_[dimension] = end - begin;
  return view;
}

Tensor Tensor::select(int dimension, i64 index) const {
  dimension = wrap(dimension);
  if (index < 0 || index >= shape_[dimension])
    throw_error("[select] index {} is outside dimension {} of shape {}", index, dimension, shape_);
  Tensor view = *this;
  view.offset_ += index * strides_[dimension];
  view.shape_.erase(dimension);
  view.strides_.erase(dimension);
  return view;
}

Tensor Tensor::expand(const Dims& shape) const {
  const int lead = shape.size() - dim();
  bool fits = lead >= 0;
  Tensor view = *this;
  view.shape_ = shape;
  view.strides_ = shape;
  for (int i = 0; fits && i < shape.size(); ++i) {
    const i64 extent = i < lead ? 1 : shape_[i - lead];
    fits = extent == shape[i] || (extent == 1 && shape[i] >= 0);
    view.strides_[i] = i < lead || extent != shape[i] ? 0 : strides_[i - lead];
  }
  if (!fits) throw_error("[expand] {} does not expand to {}", shape_, shape);
  checked_count(shape);
  return view;
}

Tensor Tensor::unsqueeze(int dimension) const {
  if (dimension < 0) dimension += dim() + 1;
  if (dimension < 0 || dimension > dim()) throw_error("[unsqueeze] dimension {} is outside shape {}", dimension, shape_);
  Tensor view = *this;
  view.shape_.insert(dimension, 1);
  view.strides_.insert(dimension, dimension < dim() ? shape_[dimension] * strides_[dimension] : 1);
  return view;
}

namespace {

Dims resolve_shape(const Dims& from, const Dims& wanted) {
  const i64 count = from.product();
  Dims to = wanted;
  int unknown = -1;
  i64 known = 1;
  bool fits = true;
  for (int i = 0; i < to.size(); ++i) {
    if (to[i] == -1 && unknown < 0)
      unknown = i;
    else
      fits = fits && to[i] >= 0 && !__builtin_mul_overflow(known, to[i], &known);
  }
  fits = fits && (unknown < 0 ? known == count : known != 0 && count % known == 0);
  if (!fits) throw_error("[reshape] {} has {} elements and does not fit {}", from, count, wanted);
  if (unknown >= 0) to[unknown] = count / known;
  return to;
}

// Strides of `shape` over the memory of a tensor with the given extents and strides; false where only a copy would do.
// Walks both shapes from the end in groups of equal product.
bool strides_of_view(const Dims& old_shape, const Dims& old_strides, const Dims& shape, Dims& strides) {
  strides = contiguous_strides(shape);
  if (shape.product() == 0) return true;
  int o = old_shape.size() - 1;
  int n = shape.size() - 1;
  while (n >= 0) {
    while (o >= 0 && old_shape[o] == 1) --o;
    if (o < 0) break;  // only extents of 1 are left
    i64 step = old_strides[o];
    i64 group = old_shape[o];  // extents merged so far, contiguous among themselves
    i64 taken = 1;
    while (n >= 0 && taken < group) {
      strides[n] = taken * step;
      taken *= shape[n--];
      while (taken > group && o > 0) {
        --o;
        if (old_shape[o] != 1 && old_strides[o] != group * step) return false;
        group *= old_shape[o];
      }
    }
    if (taken != group) return false;
    --o;
  }
  return true;
}

}  // namespace

bool Tensor::can_view(const Dims& shape) const {
  Dims strides;
  return strides_of_view(shape_, strides_, resolve_shape(shape_, shape), strides);
}

Tensor Tensor::reshape(const Dims& shape) const {
  Tensor view = *this;
  view.shape_ = resolve_shape(shape_, shape);
  if (!strides_of_view(shape_, strides_, view.shape_, view.strides_)) return contiguous().reshape(shape);
  return view;
}

Tensor Tensor::contiguous() const { return is_contiguous() ? *this : clone(); }

Tensor Tensor::clone() const {
  Tensor copy = empty_like(*this);
  copy.copy_from(*this);
  return copy;
}

namespace {

template <class T>
void copy_plain(const T* x, const Dims& xs, T* y, const Dims& ys, const Dims& shape, int d) {
  if (d == shape.size()) {
    *y = *x;
    return;
  }
  for (i64 i = 0; i < shape[d]; ++i) copy_plain(x + i * xs[d], xs, y + i * ys[d], ys, shape, d + 1);
}

}  // namespace

void Tensor::copy_from(const Tensor& source) const {
  if (!(source.shape_ == shape_) || source.dtype_ != dtype_)
    throw_error("[copy] a {} tensor of shape {} cannot be copied into {} of shape {}", name_of(source.dtype_), source.shape_,
                name_of(dtype_), shape_);
  if (source.device() != device() || (dtype_ == DType::boolean && device() != Device::cpu)) return copy_bytes(source);
  if (device() != Device::cpu && dtype_ == DType::i64)  // moved as they are, bit by bit
    return kernels::copy_strided.run<double>(device(), reinterpret_cast<const double*>(source.bytes()), source.strides_.data(),
                                             reinterpret_cast<double*>(mutable_raw<i64>()), strides_.data(), shape_.data(),
                                             dim());
  if (dtype_ == DType::boolean)
    copy_plain(source.data<bool>(), source.strides_, mutable_data<bool>(), strides_, shape_, 0);
  else if (dtype_ == DType::i64)
    copy_plain(source.data<i64>(), source.strides_, mutable_data<i64>(), strides_, shape_, 0);
  else
    launch(kernels::copy_strided, source, source.strides_, *this, strides_, shape_, dim());
}

// To or from a device, or there, where there are no gaps; what has gaps is copied on its own side.
void Tensor::copy_bytes(const Tensor& source) const {
  if (!is_contiguous()) {
    if (dtype_ == DType::boolean && device() != Device::cpu)
      throw_error("[copy] a bool tensor with gaps of shape {} cannot be written on {}", shape_, name_of(device()));
    return copy_from(source.to(device()));
  }
  if (!source.is_contiguous() && dtype_ == DType::boolean && source.device() != Device::cpu)
    throw_error("[copy] a bool tensor with gaps of shape {} cannot be read on {}", shape_, name_of(source.device()));
  const Tensor from = source.contiguous();
  const std::size_t size = static_cast<std::size_t>(numel()) * size_of(dtype_);
  ++storage_->version;
  if (from.device() == Device::cpu)
    kernels::cuda::upload(bytes(), from.bytes(), size);
  else if (device() == Device::cpu)
    kernels::cuda::download(bytes(), from.bytes(), size);
  else
    kernels::cuda::copy(bytes(), from.bytes(), size);
}

Tensor Tensor::to(Device device) const {
  if (!defined() || device == this->device()) return *this;
  const Tensor result(shape_, dtype_, device);
  result.copy_bytes(*this);
  return result;
}

void Tensor::add_from(const Tensor& source) const {
  if (!(source.shape_ == shape_) || source.dtype_ != dtype_)
    throw_error("[add] a {} tensor of shape {} cannot be added to {} of shape {}", name_of(source.dtype_), source.shape_,
                name_of(dtype_), shape_);
  launch(kernels::add_strided, 1.0, source, source.strides_, *this, strides_, shape_, dim());
}

void Tensor::fill(double value) const {
  if (!is_contiguous()) return copy_from(full({}, value, dtype_, device()).expand(shape_));
  if (device() != Device::cpu && !is_floating()) {
    if (dtype_ == DType::boolean)
      return kernels::cuda::set_bytes(mutable_raw<bool>(), value != 0, static_cast<std::size_t>(numel()));
    return kernels::fill.run<double>(device(), reinterpret_cast<double*>(mutable_raw<i64>()),
                                     std::bit_cast<double>(static_cast<i64>(value)), numel());
  }
  if (dtype_ == DType::boolean) {
    std::memset(mutable_data<bool>(), value != 0, static_cast<std::size_t>(numel()));
  } else if (dtype_ == DType::i64) {
    i64* p = mutable_data<i64>();
    for (i64 i = 0; i < numel(); ++i) p[i] = static_cast<i64>(value);
  } else {
    launch(kernels::fill, *this, value, numel());
  }
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  if (defined() && device() != Device::cpu) return to(Device::cpu).to(dtype).to(device());
  const Tensor from = contiguous();
  Tensor result(shape_, dtype);
  const auto convert = [&]<class To>(To* out) {
    const auto copy = [&](const auto* in) {
      for (i64 i = 0; i < numel(); ++i) out[i] = static_cast<To>(in[i]);
    };
    switch (dtype_) {
      case DType::f32:
        return copy(from.data<float>());
      case DType::f64:
        return copy(from.data<double>());
      case DType::i64:
        return copy(from.data<i64>());
      case DType::boolean:
        return copy(from.data<bool>());
    }
  };
  switch (dtype) {
    case DType::f32:
      convert(result.mutable_data<float>());
      break;
    case DType::f64:
      convert(result.mutable_data<double>());
      break;
    case DType::i64:
      convert(result.mutable_data<i64>());
      break;
    case DType::boolean:
      convert(result.mutable_data<bool>());
      break;
  }
  return result;
}

double Tensor::item() const {
  if (numel() != 1) throw_error("[item] needs a tensor of one element, not {}", shape_);
  return *to(Device::cpu).to(DType::f64).data<double>();
}

double Tensor::at(std::initializer_list<i64> index) const {
  Tensor x = *this;
  for (i64 i : index) x = x.select(0, i);
  return x.item();
}

Tensor zeros(const Dims& shape, DType dtype, Device device) { return full(shape, 0, dtype, device); }
Tensor ones(const Dims& shape, DType dtype, Device device) { return full(shape, 1, dtype, device); }

Tensor full(const Dims& shape, double value, DType dtype, Device device) {
  Tensor x(shape, dtype, device);
  x.fill(value);
  return x;
}

Tensor empty_like(const Tensor& x) { return Tensor(x.shape_, x.numel(), x.dtype_, x.device()); }

Tensor zeros_like(const Tensor& x) { return zeros(x.shape(), x.dtype(), x.device()); }

std::string to_string(const Tensor& x) {
  if (!x.defined()) return "tensor without contents";
  std::string text = fmt::format("{} {}", name_of(x.dtype()), x.shape());
  if (x.numel() > 64) return text;
  const std::vector<double> values = x.to(DType::f64).to_vector<double>();
  if (x.dim() == 0) return fmt::format("{:.6g}", values[0]);
  const i64 row = x.size(-1);
  std::string rows;
  for (i64 i = 0; i < x.numel(); ++i) {
    if (row && i % row == 0) rows += i ? "\n " : " ";
    rows += fmt::format("{:>11.6g}", values[static_cast<std::size_t>(i)]);
  }
  return rows.empty() ? text : text + "\n" + rows;
}

}  // namespace seqgrad
