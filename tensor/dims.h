// Extents or strides of a tensor: a short inline sequence. Value type.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "kernels/types.h"

namespace seqgrad {

class Dims {
 public:
  static constexpr int max = 6;

  Dims() = default;
  Dims(std::initializer_list<i64> values) : Dims(values.begin(), static_cast<i64>(values.size())) {}
  Dims(const std::vector<i64>& values) : Dims(values.data(), static_cast<i64>(values.size())) {}
  Dims(const i64* values, i64 count) {
    if (count > max) throw_error("a tensor has at most {} dimensions, not {}", max, count);
    for (i64 i = 0; i < count; ++i) values_[i] = values[i];
    count_ = static_cast<int>(count);
  }

  int size() const { return count_; }
  bool empty() const { return count_ == 0; }
  i64& operator[](int i) { return values_[i]; }
  i64 operator[](int i) const { return values_[i]; }
  i64& back() { return values_[count_ - 1]; }
  i64 back() const { return values_[count_ - 1]; }
  const i64* data() const { return values_; }
  const i64* begin() const { return values_; }
  const i64* end() const { return values_ + count_; }

  void clear() { count_ = 0; }
  void push_back(i64 value) { insert(count_, value); }
  void insert(int at, i64 value) {
    if (count_ == max) throw_error("a tensor has at most {} dimensions", max);
    for (int i = count_; i > at; --i) values_[i] = values_[i - 1];
    values_[at] = value;
    ++count_;
  }
  void erase(int at) {
    for (int i = at; i + 1 < count_; ++i) values_[i] = values_[i + 1];
    --count_;
  }

  bool operator==(const Dims& other) const {
    if (count_ != other.count_) return false;
    for (int i = 0; i < count_; ++i)
      if (values_[i] != other.values_[i]) return false;
    return true;
  }

  i64 product() const {
    i64 p = 1;
    for (i64 v : *this) p *= v;
    return p;
  }

 private:
  i64 values_[max] = {};
  int count_ = 0;
};

// Two shapes aligned at their last dimensions, each pair equal or one of them 1 (numpy's rule).
// Error: "[add] shapes do not broadcast: (3, 4) and (2, 4)".
Dims broadcast(const char* op, const Dims& a, const Dims& b);

}  // namespace seqgrad

template <>
struct fmt::formatter<seqgrad::Dims> : fmt::formatter<std::string> {
  template <class Context>
  auto format(const seqgrad::Dims& dims, Context& context) const {
    return fmt::format_to(context.out(), "({})", fmt::join(dims, ", "));
  }
};
