// Calls a function of x, y, ... with the elements of a vector. How many it takes is known when it is compiled. Stateless.
#pragma once

#include <type_traits>
#include <utility>
#include <vector>

namespace seqgrad::detail {

inline constexpr std::size_t most_arguments = 8;

template <class T, std::size_t>
using repeated = T;

template <class F, class X, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return std::is_invocable_v<F&, repeated<const X&, I>...>;
}

// The smallest number of X's that F can be called with; 0 where that is none of 1 to most_arguments.
template <class F, class X, std::size_t N = 1>
constexpr std::size_t arity() {
  if constexpr (takes<F, X>(std::make_index_sequence<N>()))
    return N;
  else if constexpr (N < most_arguments)
    return arity<F, X, N + 1>();
  else
    return 0;
}

// f(x[0], x[1], ...); x holds as many as f takes.
template <class F, class X>
decltype(auto) call_with_elements(F& f, const std::vector<X>& x) {
  return [&]<std::size_t... I>(std::index_sequence<I...>)->decltype(auto) { return f(x[I]...); }
  (std::make_index_sequence<arity<F, X>()>());
}

}  // namespace seqgrad::detail
