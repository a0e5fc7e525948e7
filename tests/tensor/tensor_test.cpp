#include "tensor/tensor.h"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <numeric>

#include "kernels/cuda.h"
#include "kernels/kernels.h"
#include "tensor/random.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

Tensor counting(const Dims& shape) {
  std::vector<i64> values(static_cast<std::size_t>(shape.product()));
  std::iota(values.begin(), values.end(), 0);
  return Tensor::from(values, shape);
}

void for_each_index(const Dims& shape, const std::function<void(const Dims&)>& visit) {
  for (i64 flat = 0; flat < shape.product(); ++flat) {
    Dims index = shape;
    i64 rest = flat;
    for (int d = shape.size() - 1; d >= 0; --d) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    visit(index);
  }
}

// A view as a list: the place in memory of each element, in row-major order. Slow and plain, the judge of Tensor's strides.
struct Model {
  Dims shape;
  std::vector<i64> places;

  i64 at(const Dims& index) const {
    i64 flat = 0;
    for (int d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
    return places[static_cast<std::size_t>(flat)];
  }
  Model view(const Dims& to, const std::function<Dims(Dims)>& source) const {
    Model result{to, {}};
    for_each_index(to, [&](const Dims& index) { result.places.push_back(at(source(index))); });
    return result;
  }
  // Whether strides exist that walk these places in the given shape.
  bool has_strides_for(const Dims& to) const {
    const Model reshaped{to, places};
    bool linear = true;
    for_each_index(to, [&](const Dims& index) {
      i64 place = places[0];
      for (int d = 0; d < to.size(); ++d)
        if (index[d] != 0) {
          Dims one = index;
          for (int k = 0; k < to.size(); ++k) one[k] = k == d;
          place += index[d] * (reshaped.at(one) - places[0]);
        }
      linear &= place == reshaped.at(index);
    });
    return linear;
  }
};

Dims random_factors(i64 count, const std::function<i64(i64)>& below) {
  Dims shape;
  while (shape.size() < 5 && below(4) != 0) {
    std::vector<i64> divisors;
    for (i64 d = 1; d <= std::max<i64>(count, 1); ++d)
      if (count % d == 0) divisors.push_back(d);
    const i64 extent = count == 0 ? below(3) : divisors[static_cast<std::size_t>(below(static_cast<i64>(divisors.size())))];
    shape.push_back(extent);
    if (extent != 0 && count != 0) count /= extent;
  }
  shape.push_back(count);
  return shape;
}

}  // namespace

TEST_CASE("chains of views agree with index-by-index arithmetic") {
  Generator generator(3);
  const auto below = [&](i64 n) { return static_cast<i64>(generator.uniform() * static_cast<double>(n)); };
  int views = 0, copies = 0;
  for (int chain = 0; chain < 400; ++chain) {
    Tensor x = counting({2, 3, 4, 2});
    Model model{x.shape(), x.to_vector<i64>()};
    std::string story = "x";
    for (int step = 0; step < 8; ++step) {
      const int n = x.dim();
      const int d = n ? static_cast<int>(below(n)) : 0;
      const Dims old = x.shape();
      switch (below(6)) {
        case 0: {
          if (n == 0) continue;
          const int e = static_cast<int>(below(n));
          Dims to = old;
          std::swap(to[d], to[e]);
          model = model.view(to, [&](Dims i) { return std::swap(i[d], i[e]), i; });
          x = x.transpose(d, e - n);
          story += fmt::format(".transpose({}, {})", d, e - n);
          break;
        }
        case 1: {
          if (n == 0) continue;
          const i64 begin = below(old[d] + 1), end = begin + below(old[d] - begin + 1);
          if (begin == end && below(4)) continue;  // emptiness ends a chain's interest
          Dims to = old;
          to[d] = end - begin;
          model = model.view(to, [&](Dims i) { return i[d] += begin, i; });
          x = x.slice(d, begin, end);
          story += fmt::format(".slice({}, {}, {})", d, begin, end);
          break;
        }
        case 2: {
          if (n == 0 || old[d] == 0) continue;
          const i64 at = below(old[d]);
          Dims to = old;
          to.erase(d);
          model = model.view(to, [&](Dims i) { return i.insert(d, at), i; });
          x = x.select(d, at);
          story += fmt::format(".select({}, {})", d, at);
          break;
        }
        case 3: {
          if (n == Dims::max || x.numel() > 200) continue;
          Dims to = old;
          for (int k = 0; k < n; ++k)
            if (to[k] == 1) to[k] = 1 + below(3);
          to.insert(0, 1 + below(2));
          model = model.view(to, [&](Dims i) {
            i.erase(0);
            for (int k = 0; k < n; ++k)
              if (old[k] == 1) i[k] = 0;
            return i;
          });
          x = x.expand(to);
          story += fmt::format(".expand{}", to);
          break;
        }
        case 4: {
          if (n == Dims::max) continue;
          const int at = static_cast<int>(below(n + 1));
          Dims to = old;
          to.insert(at, 1);
          model = model.view(to, [&](Dims i) { return i.erase(at), i; });
          x = x.unsqueeze(at - n - 1);
          story += fmt::format(".unsqueeze({})", at - n - 1);
          break;
        }
        default: {
          const Dims to = random_factors(x.numel(), below);
          story += fmt::format(".reshape{}", to);
          CAPTURE(story);
          const bool possible = x.numel() == 0 || model.has_strides_for(to);
          CHECK(x.can_view(to) == possible);
          const Tensor y = x.reshape(to);
          CHECK(y.shares_memory_with(x) == possible);
          ++(possible ? views : copies);
          if (!possible) {  // a copy: its places start anew, the values stay
            CHECK(y.to_vector<i64>() == model.places);
            continue;
          }
          model.shape = to;
          x = y;
        }
      }
      CAPTURE(story);
      REQUIRE(x.shape() == model.shape);
      CHECK(x.to_vector<i64>() == model.places);
      const bool dense = [&] {
        for (std::size_t i = 1; i < model.places.size(); ++i)
          if (model.places[i] != model.places[i - 1] + 1) return false;
        return true;
      }();
      CHECK(x.is_contiguous() == (dense || x.numel() == 0));
    }
  }
  CHECK(views > 50);
  CHECK(copies > 50);
}

TEST_CASE("reshape finds one extent") {
  const Tensor x = counting({2, 3, 4});
  CHECK(x.reshape({-1}).shape() == Dims{24});
  CHECK(x.reshape({4, -1, 2}).shape() == Dims{4, 3, 2});
  CHECK(x.reshape({24, -1}).shape() == Dims{24, 1});
  CHECK(zeros({0, 3}).reshape({-1, 2}).shape() == Dims{0, 2});
  CHECK(zeros({0, 3}).reshape({7, 0}).shape() == Dims{7, 0});
}

TEST_CASE("a tensor without dimensions and one without elements") {
  const Tensor scalar = full({}, 2.5, DType::f64);
  CHECK(scalar.numel() == 1);
  CHECK(scalar.is_contiguous());
  CHECK(scalar.item() == 2.5);
  CHECK(scalar.at({}) == 2.5);
  CHECK(scalar.unsqueeze(0).shape() == Dims{1});
  CHECK(scalar.reshape({1, 1}).reshape({}).item() == 2.5);
  CHECK(scalar.expand({2, 2}).to_vector<double>() == std::vector<double>(4, 2.5));
  const Tensor empty = zeros({3, 0, 2});
  CHECK(empty.numel() == 0);
  CHECK(empty.is_contiguous());
  CHECK(empty.transpose(0, 1).clone().shape() == Dims{0, 3, 2});
  CHECK(empty.to(DType::i64).to_vector<i64>().empty());
  CHECK(empty.select(0, 2).expand({5, 0, 2}).numel() == 0);
  CHECK(zeros({1}).expand({0}).numel() == 0);
  empty.transpose(0, 2).fill(1);
  empty.copy_from(ones({3, 0, 2}));
}

TEST_CASE("copies between any two layouts, of every dtype, touch nothing else") {
  const Dims shape{3, 4};
  const std::vector<std::pair<Dims, std::function<Tensor(const Tensor&)>>> layouts{
      {{3, 4}, [](const Tensor& t) { return t; }},
      {{4, 3}, [](const Tensor& t) { return t.transpose(0, 1); }},
      {{3, 6}, [](const Tensor& t) { return t.slice(1, 1, 5); }},
      {{4, 5}, [](const Tensor& t) { return t.slice(1, 2, 5).transpose(0, 1); }},
      {{3, 4, 2}, [](const Tensor& t) { return t.select(2, 1); }},
      {{2, 3, 4}, [](const Tensor& t) { return t.select(0, 1); }},
      {{3, 1},
       [](const Tensor& t) {
         return t.expand({3, 4});
       }},  // as a source only
  };
  for (DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean})
    for (const auto& from : layouts)
      for (std::size_t to = 0; to + 1 < layouts.size(); ++to) {
        CAPTURE(name_of(dtype));
        CAPTURE(from.first);
        CAPTURE(layouts[to].first);
        const Tensor whole = counting(layouts[to].first).to(dtype), before = whole.clone();
        const Tensor source = from.second(rand(from.first, -9, 9).to(DType::i64).to(dtype)), target = layouts[to].second(whole);
        const u32 version = whole.version();
        target.copy_from(source);
        CHECK(whole.version() != version);
        const auto values = [](const Tensor& t) { return t.to(DType::f64).to_vector<double>(); };
        CHECK(values(target) == values(source));
        layouts[to].second(before).fill(1);
        target.fill(1);
        CHECK(values(whole) == values(before));
      }
}

TEST_CASE("conversions between dtypes") {
  const Tensor x = Tensor::from<double>({-2.7, 0, 1, 3.2}, {4});
  CHECK(x.to(DType::i64).to_vector<i64>() == std::vector<i64>{-2, 0, 1, 3});
  CHECK(x.to(DType::boolean).to_vector<bool>() == std::vector<bool>{true, false, true, true});
  CHECK(x.to(DType::f32).to_vector<float>() == std::vector<float>{-2.7f, 0, 1, 3.2f});
  CHECK(x.to(DType::f64).shares_memory_with(x));
  CHECK(counting({2, 3}).transpose(0, 1).to(DType::f64).to_vector<double>() == std::vector<double>{0, 3, 1, 4, 2, 5});
  CHECK(Tensor::from<bool>({true, false}, {2}).to(DType::f32).to_vector<float>() == std::vector<float>{1, 0});
}

TEST_CASE("handles share, clones do not") {
  Tensor x = zeros({2, 2});
  CHECK(x.owns_all_of_its_memory());
  const Tensor view = x.select(0, 1);
  CHECK(!x.owns_all_of_its_memory());
  view.fill(3);
  CHECK(x.to_vector<float>() == std::vector<float>{0, 0, 3, 3});
  const Tensor copy = x.clone();
  x.fill(9);
  CHECK(copy.to_vector<float>() == std::vector<float>{0, 0, 3, 3});
  CHECK(!copy.shares_memory_with(x));
  CHECK(x.contiguous().shares_memory_with(x));
  CHECK(!x.transpose(0, 1).contiguous().shares_memory_with(x));
}

TEST_CASE("text of tensors") {
  CHECK(to_string(full({}, 1.5)) == "1.5");
  CHECK(to_string(Tensor()) == "tensor without contents");
  CHECK(to_string(zeros({65})) == "f32 (65)");
  CHECK(to_string(zeros({0, 2})) == "f32 (0, 2)");
  CHECK(to_string(counting({2, 2})) == "i64 (2, 2)\n           0          1\n           2          3");
}

TEST_CASE("mistakes are named") {
  const Tensor x = zeros({2, 3}), ids = counting({2, 3}), nothing;
  const i64 huge = i64{1} << 40;
  const std::pair<std::function<void()>, const char*> table[] = {
      {[&] { x.transpose(0, 2); }, "dimension 2 does not exist in a tensor of shape (2, 3)"},
      {[&] { x.size(-3); }, "dimension -3 does not exist in a tensor of shape (2, 3)"},
      {[&] { full({}, 0).select(0, 0); }, "dimension 0 does not exist in a tensor of shape ()"},
      {[&] { x.slice(1, 1, 4); }, "[slice] 1..4 is not a part of dimension 1 of shape (2, 3)"},
      {[&] { x.slice(1, 2, 1); }, "[slice] 2..1 is not a part of dimension 1 of shape (2, 3)"},
      {[&] { x.slice(-1, -1, 1); }, "[slice] -1..1 is not a part of dimension 1 of shape (2, 3)"},
      {[&] { x.select(0, 2); }, "[select] index 2 is outside dimension 0 of shape (2, 3)"},
      {[&] {
         x.at({1, -1});
       },
       "[select] index -1 is outside dimension 0 of shape (3)"},
      {[&] {
         x.expand({3, 3});
       },
       "[expand] (2, 3) does not expand to (3, 3)"},
      {[&] { x.expand({3}); }, "[expand] (2, 3) does not expand to (3)"},
      {[&] { full({}, 0).expand({-1}); }, "[expand] () does not expand to (-1)"},
      {[&] {
         full({}, 0).expand({huge, huge});
       },
       "a tensor of shape (1099511627776, 1099511627776) is too large"},
      {[&] { x.unsqueeze(3); }, "[unsqueeze] dimension 3 is outside shape (2, 3)"},
      {[&] { x.unsqueeze(-4); }, "[unsqueeze] dimension -1 is outside shape (2, 3)"},
      {[&] { x.reshape({4}); }, "[reshape] (2, 3) has 6 elements and does not fit (4)"},
      {[&] {
         x.reshape({4, -1});
       },
       "[reshape] (2, 3) has 6 elements and does not fit (4, -1)"},
      {[&] {
         x.reshape({-1, -1});
       },
       "[reshape] (2, 3) has 6 elements and does not fit (-1, -1)"},
      {[&] {
         x.reshape({-2, -3});
       },
       "[reshape] (2, 3) has 6 elements and does not fit (-2, -3)"},
      {[&] {
         x.reshape({0, -1});
       },
       "[reshape] (2, 3) has 6 elements and does not fit (0, -1)"},
      {[&] {
         x.reshape({huge, huge});
       },
       "[reshape] (2, 3) has 6 elements and does not fit (1099511627776, 1099511627776)"},
      {[&] {
         x.copy_from(zeros({3, 2}));
       },
       "[copy] a f32 tensor of shape (3, 2) cannot be copied into f32 of shape (2, 3)"},
      {[&] { x.copy_from(ids); }, "[copy] a i64 tensor of shape (2, 3) cannot be copied into f32 of shape (2, 3)"},
      {[&] { x.item(); }, "[item] needs a tensor of one element, not (2, 3)"},
      {[&] { x.data<double>(); }, "a tensor of f32 was used where f64 is needed"},
      {[&] { ids.mutable_data<float>(); }, "a tensor of i64 was used where f32 is needed"},
      {[&] { nothing.data<float>(); }, "a tensor without contents was used"},
      {[&] {
         Tensor({2, -1});
       },
       "a tensor cannot have the shape (2, -1)"},
      {[&] {
         Tensor({huge, huge});
       },
       "a tensor of shape (1099511627776, 1099511627776) is too large"},
      {[&] {
         Tensor({0, huge, huge});
       },
       "a tensor of shape (0, 1099511627776, 1099511627776) is too large"},
      {[&] {
         Tensor({1, 1, 1, 1, 1, 1, 1});
       },
       "a tensor has at most 6 dimensions, not 7"},
      {[&] {
         zeros({1, 1, 1, 1, 1, 1}).unsqueeze(0);
       },
       "a tensor has at most 6 dimensions"},
      {[&] {
         Tensor::from<float>({1, 2, 3}, {2});
       },
       "3 values do not fill a tensor of shape (2)"},
      {[&] { randn({2}, DType::i64); }, "a floating-point tensor is needed here, not i64"},
      {[&] {
         broadcast("add", {3, 4}, {2, 4});
       },
       "[add] shapes do not broadcast: (3, 4) and (2, 4)"},
  };
  for (const auto& [mistake, text] : table) CHECK(message_of(mistake) == text);
}

TEST_CASE("broadcasting follows numpy's rule") {
  CHECK(broadcast("op", {3, 1}, {4}) == Dims{3, 4});
  CHECK(broadcast("op", {}, {2, 3}) == Dims{2, 3});
  CHECK(broadcast("op", {2, 1, 3}, {5, 1}) == Dims{2, 5, 3});
  CHECK(broadcast("op", {1}, {0}) == Dims{0});
  CHECK(broadcast("op", {0, 3}, {1, 3}) == Dims{0, 3});
}

TEST_CASE("broadcast strides are those of the expanded tensor") {
  const Tensor x = zeros({3, 1, 4}).transpose(0, 2);
  for (const Dims& shape : {Dims{4, 1, 3}, Dims{4, 5, 3}, Dims{2, 4, 5, 3}}) {
    CAPTURE(shape.size());
    CHECK(broadcast_strides(x, shape) == x.expand(shape).strides());
  }
  CHECK(broadcast_strides(zeros({1}), {7}) == Dims{0});
  CHECK(broadcast_strides(zeros({}), {2, 3}) == Dims{0, 0});
}

TEST_CASE("add_from adds whatever the strides") {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}), y = Tensor::from<float>({10, 20, 30, 40, 50, 60}, {3, 2});
  y.add_from(x.transpose(0, 1));
  CHECK(y.to_vector<float>() == std::vector<float>{11, 24, 32, 45, 53, 66});
  y.transpose(0, 1).add_from(x);
  CHECK(y.to_vector<float>() == std::vector<float>{12, 28, 34, 50, 56, 72});
  const Tensor s = full({}, 2);
  s.add_from(full({}, 3));
  CHECK(s.item() == 5);
  zeros({0, 3}).add_from(zeros({0, 3}));
  CHECK(message_of([&] { y.add_from(x); }) == "[add] a f32 tensor of shape (2, 3) cannot be added to f32 of shape (3, 2)");
  CHECK(message_of([&] { s.add_from(full({}, 3, DType::f64)); }) ==
        "[add] a f64 tensor of shape () cannot be added to f32 of shape ()");
}

TEST_CASE("a device that is not there is refused in one line") {
  if (kernels::cuda_available()) return;
  const std::string why = "no CUDA device can be used: " + kernels::cuda::why_unavailable() + "; use --device cpu";
  CHECK(message_of([] { zeros({2}, DType::f32, Device::cuda); }) == why);
  CHECK(message_of([] { set_default_device(Device::cuda); }) == why);
  CHECK(default_device() == Device::cpu);
}

TEST_CASE("a tensor that is reset is undefined and gives its memory back") {
  const std::size_t in_use = memory_statistics().in_use;
  Tensor x = zeros({2, 3});
  const Tensor view = x.select(0, 1);
  x.reset();
  CHECK(!x.defined());
  CHECK(x.shape() == Dims{});
  CHECK(view.numel() == 3);
  CHECK(memory_statistics().in_use > in_use);
}
