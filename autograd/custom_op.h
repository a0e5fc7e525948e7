// An operation of one's own, on tensors, that joins the tape like any other:
//
//   const auto cube = custom_op("cube",
//       [](const Tensor& x) { return map([](auto v) { return v * v * v; }, x); },
//       [](const Tensor& dy, const Tensor& x) { return map([](auto d, auto v) { return 3 * v * v * d; }, dy, x); });
//   Var y = cube(x);
//   fmt::print("{}", gradcheck(cube, {randn({3, 4})}));
//
// forward: from the inputs' values to the value. backward: from the gradient dy of the value, and the inputs' values, to the
// gradient of the input, or a std::vector<Tensor> of one for each input (an undefined one: no gradient). It may take the value
// y as well, after the inputs. Both may take std::vector<Tensor> for the inputs instead; the operation then takes any number.
// All tensors handed to them are contiguous, and only to be read: writing into one is an error. Gradients have the shapes and
// the type of their inputs. Errors begin with the operation's name. Thread-safe where forward and backward are.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/arity.h"
#include "autograd/tape.h"
#include "tensor/launch.h"

namespace seqgrad {

// f of each element, in the tensors' own type; all have one shape and type.
template <class F, class... More>
Tensor map(F f, const Tensor& first, const More&... more) {
  for (const Tensor* other : {&first, &more...})
    if (!(other->shape() == first.shape() && other->dtype() == first.dtype()))
      throw_error("[map] the tensors differ: {} {} and {} {}", name_of(first.dtype()), first.shape(), name_of(other->dtype()),
                  other->shape());
  const Tensor y(first.shape(), first.dtype(), first.device());
  dispatch(first.dtype(), [&]<class T>() {
    const auto run = [&](const auto&... inputs) {
      T* out = y.mutable_data<T>();
      const auto loop = [&](const auto*... in) {
        for (i64 i = 0; i < y.numel(); ++i) out[i] = static_cast<T>(f(in[i]...));
      };
      loop(inputs.template data<T>()...);
    };
    run(first.contiguous(), more.contiguous()...);
  });
  return y;
}

namespace detail {

const char* operation_name(const std::string& name);  // kept for the life of the program

// What a user's function is called with. Notices when it wrote into a tensor, which somebody else needs.
class ReadOnly {
 public:
  explicit ReadOnly(const std::vector<Tensor>& tensors);
  void check(const char* name, const char* which) const;

 private:
  const std::vector<Tensor>& tensors_;
  std::vector<u32> versions_;
};

// `which` is forward or backward. Errors begin with the operation's name.
void check_value(const char* name, const Tensor& y);
void check_count(const char* name, const char* which, const char* what, std::size_t takes, std::size_t given);
[[noreturn]] void wrong_gradient_count(std::size_t gradients, std::size_t inputs);
[[noreturn]] void throw_from(const char* name, const char* which, const Error& error);

template <class F, class B>
class CustomOp {
  static constexpr bool forward_takes_all = std::is_invocable_v<const F&, const std::vector<Tensor>&>;
  static constexpr bool backward_takes_all =
      std::is_invocable_v<const B&, const Tensor&, const std::vector<Tensor>&> ||
      std::is_invocable_v<const B&, const Tensor&, const std::vector<Tensor>&, const Tensor&>;
  static_assert(forward_takes_all || arity<const F, Tensor>() > 0,
                "forward takes one to eight const Tensor&, or a const std::vector<Tensor>&, and is not mutable");
  static_assert(backward_takes_all || arity<const B, Tensor>() > 1,
                "backward takes dy, the inputs and perhaps y: const Tensor& each, the inputs perhaps as a const "
                "std::vector<Tensor>&; and is not mutable");

 public:
  CustomOp(const std::string& name, F forward, B backward)
      : name_(operation_name(name)), forward_(std::move(forward)), backward_(std::move(backward)) {}

  template <class... More>
  requires(std::is_convertible_v<const More&, Var>&&...) Var operator()(const Var& first, const More&... more) const {
    return (*this)(std::vector<Var>{first, static_cast<Var>(more)...});
  }

  Var operator()(const std::vector<Var>& inputs) const {
    if (inputs.empty()) throw_error("[{}] needs at least one input", name_);
    std::vector<Tensor> values;
    for (const Var& input : inputs) values.push_back(input.value().contiguous());
    const Tensor y = value_of(values);
    check_value(name_, y);
    const std::vector<Saved> saved(values.begin(), values.end());
    return record(name_, std::span<const Var>(inputs), y, [inputs, saved, y = Saved(y), op = *this](const Tensor& dy) {
      std::vector<Tensor> arguments{dy};
      for (const Saved& one : saved) arguments.push_back(one.get());
      arguments.push_back(y.get());
      std::vector<Tensor> gradients = op.gradients_of(arguments);
      if (gradients.size() != inputs.size()) wrong_gradient_count(gradients.size(), inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (gradients[i].defined()) inputs[i].accumulate(std::move(gradients[i]));
    });
  }

 private:
  template <class Function>
  auto guarded(const char* which, const std::vector<Tensor>& arguments, const Function& function) const {
    const ReadOnly read_only(arguments);
    auto result = [&] {
      try {
        return function();
      } catch (const Error& error) {
        throw_from(name_, which, error);
      }
    }();
    read_only.check(name_, which);
    return result;
  }

  Tensor value_of(const std::vector<Tensor>& x) const {
    if constexpr (forward_takes_all) {
      return guarded("forward", x, [&] { return Tensor(forward_(x)); });
    } else {
      check_count(name_, "forward", "inputs", arity<const F, Tensor>(), x.size());
      return guarded("forward", x, [&] { return Tensor(call_with_elements(forward_, x)); });
    }
  }

  // all: dy, the inputs, y
  std::vector<Tensor> gradients_of(const std::vector<Tensor>& all) const {
    const auto listed = [](auto&& result) -> std::vector<Tensor> {
      if constexpr (std::is_convertible_v<decltype(result), Tensor>)
        return {result};
      else
        return result;
    };
    const auto run = [&] {
      if constexpr (backward_takes_all) {
        const std::vector<Tensor> inputs(all.begin() + 1, all.end() - 1);
        if constexpr (std::is_invocable_v<const B&, const Tensor&, const std::vector<Tensor>&>)
          return listed(backward_(all.front(), inputs));
        else
          return listed(backward_(all.front(), inputs, all.back()));
      } else {
        const bool with_value = arity<const B, Tensor>() == all.size();
        return listed(call_with_elements(backward_, std::vector<Tensor>(all.begin(), all.end() - (with_value ? 0 : 1))));
      }
    };
    if constexpr (!backward_takes_all)
      if (constexpr std::size_t takes = arity<const B, Tensor>(); takes != all.size())
        check_count(name_, "backward", "tensors, dy and the inputs", takes, all.size() - 1);
    return guarded("backward", all, run);
  }

  const char* name_;
  F forward_;
  B backward_;
};

}  // namespace detail

template <class F, class B>
detail::CustomOp<F, B> custom_op(const std::string& name, F forward, B backward) {
  return {name, std::move(forward), std::move(backward)};
}

}  // namespace seqgrad
