// The registry of gradient-check cases. Each source that defines an operation, layer or model declares its cases beside it:
//
//   SEQGRAD_CASES(softmax) { cases.add("softmax", softmax, {cases.normal({3, 5})}); }
//
// The name in the parentheses is unique in the program; the build collects all of them (CMakeLists.txt).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "autograd/gradcheck.h"
#include "tensor/random.h"

namespace seqgrad {

struct Case {
  std::string name;  // "softmax", or "softmax/saturated" for a further case of the same operation
  GradcheckFunction function;
  std::vector<NamedTensor> inputs;
  std::vector<Parameter*> parameters;
  std::shared_ptr<void> owner;  // of the parameters
};

GradcheckReport run(const Case& one, const GradcheckOptions& options = {});

class Cases {
 public:
  // f as gradcheck() takes it. Arguments are named a, b, c ... unless names are given.
  template <class F>
  Case& add(const std::string& name, F f, const std::vector<Tensor>& inputs, const std::vector<std::string>& names = {}) {
    Case one;
    one.name = name;
    one.function = gradcheck_callable(std::move(f));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      one.inputs.push_back({i < names.size() ? names[i] : std::string(1, static_cast<char>('a' + i)), inputs[i]});
    all_.push_back(std::move(one));
    return all_.back();
  }
  const std::vector<Case>& all() const { return all_; }

  // Inputs, in f64: all positive or negative where a domain or a kink asks for it.
  Tensor normal(const Dims& shape) { return randn(shape, DType::f64, generator_); }
  Tensor uniform(const Dims& shape, double low, double high) { return rand(shape, low, high, DType::f64, generator_); }
  Tensor away_from_zero(const Dims& shape, double distance);  // normal, moved so that |x| >= distance

 private:
  std::vector<Case> all_;
  Generator generator_{7};
};

#define SEQGRAD_CASES(name)            \
  void add_cases_##name(Cases& cases); \
  void add_cases_##name([[maybe_unused]] Cases& cases)

// Defined by the build, one for each room that has cases.
void add_autograd_cases(Cases& cases);
void add_nn_cases(Cases& cases);
void add_seq2seq_cases(Cases& cases);

}  // namespace seqgrad
