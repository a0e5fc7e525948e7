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
// All tensors handed to them are contiguous. Thread-safe where forward and backward are.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/tape.h"
#include "tensor/launch.h"

namespace seqgrad {

// f of each element, in the tensors' own type; all have one shape and type.
template <class F, class... More>
Tensor map(F f, const Tensor& first, const More&... more) {
  if (!((more.shape() == first.shape() && more.dtype() == first.dtype()) && ...))
    throw_error("[map] the tensors differ in shape or type");
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
[[noreturn]] void wrong_gradient_count(std::size_t gradients, std::size_t inputs);

template <class T, std::size_t>
using repeated = T;

template <class F, class B>
class CustomOp {
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
    const Tensor y = call(forward_, values);
    const std::vector<Saved> saved(values.begin(), values.end());
    return record(name_, std::span<const Var>(inputs), y, [inputs, saved, y = Saved(y), b = backward_](const Tensor& dy) {
      std::vector<Tensor> arguments{dy};
      for (const Saved& one : saved) arguments.push_back(one.get());
      std::vector<Tensor> gradients = gradients_of(b, arguments, y.get());
      if (gradients.size() != inputs.size()) wrong_gradient_count(gradients.size(), inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i)
        if (gradients[i].defined()) inputs[i].accumulate(std::move(gradients[i]));
    });
  }

 private:
  static constexpr std::size_t most_inputs = 6;

  // function(x...) of as many tensors as there are, or function(x) of the vector.
  template <class Function, std::size_t... I>
  static constexpr bool takes(std::index_sequence<I...>) {
    return std::is_invocable_v<const Function&, repeated<const Tensor&, I>...>;
  }
  template <class Function, std::size_t N = 1>
  static auto call(const Function& function, const std::vector<Tensor>& x) {
    if constexpr (std::is_invocable_v<const Function&, const std::vector<Tensor>&>) {
      return function(x);
    } else if constexpr (takes<Function>(std::make_index_sequence<N>())) {
      if (x.size() != N) throw_error("the operation's functions take {} tensors, not {}", N, x.size());
      return spread(function, x, std::make_index_sequence<N>());
    } else {
      static_assert(N < most_inputs + 2, "forward takes the inputs, backward dy and the inputs: const Tensor& each");
      return call<Function, N + 1>(function, x);
    }
  }
  template <class Function, std::size_t... I>
  static auto spread(const Function& function, const std::vector<Tensor>& x, std::index_sequence<I...>) {
    return function(x[I]...);
  }

  template <std::size_t N = 1>
  static constexpr std::size_t count(const auto& function) {
    if constexpr (takes<std::decay_t<decltype(function)>>(std::make_index_sequence<N>()))
      return N;
    else if constexpr (N < most_inputs + 2)
      return count<N + 1>(function);
    else
      return 0;
  }

  static std::vector<Tensor> gradients_of(const B& backward, const std::vector<Tensor>& dy_and_inputs, const Tensor& y) {
    const auto listed = [](auto&& result) -> std::vector<Tensor> {
      if constexpr (std::is_convertible_v<decltype(result), Tensor>)
        return {result};
      else
        return result;
    };
    const std::vector<Tensor> inputs(dy_and_inputs.begin() + 1, dy_and_inputs.end());
    if constexpr (std::is_invocable_v<const B&, const Tensor&, const std::vector<Tensor>&>) {
      return listed(backward(dy_and_inputs[0], inputs));
    } else if constexpr (std::is_invocable_v<const B&, const Tensor&, const std::vector<Tensor>&, const Tensor&>) {
      return listed(backward(dy_and_inputs[0], inputs, y));
    } else {
      std::vector<Tensor> all = dy_and_inputs;
      if (count(backward) > all.size()) all.push_back(y);
      return listed(call(backward, all));
    }
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
