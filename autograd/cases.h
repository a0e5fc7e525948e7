// The registry of gradient-check cases. Each source that defines an operation, layer or model declares its cases beside it:
//
//   SEQGRAD_CASES(softmax) { cases.add("softmax", softmax, {cases.normal({3, 5})}); }
//
// The name in the parentheses is unique in the program; the build collects all of them (CMakeLists.txt). A case can say more
// about itself, and the check then holds it to that:
//
//   cases.add("log", log, {cases.uniform({3, 5}, 0.5, 3)}).domain("a", 0, infinity);
//   cases.add("relu", relu, {cases.away_from_zero({3, 5}, 0.1)}).kinks(0.1);
//
// A program of one's own that links seqgrad::gradcheck_main declares its cases with SEQGRAD_GRADCHECK_CASES instead.
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "autograd/gradcheck.h"
#include "tensor/random.h"

namespace seqgrad {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

struct Case {
  std::string name;  // "softmax", or "softmax/saturated" for a further case of the same operation
  GradcheckFunction function;
  std::vector<NamedTensor> inputs;
  std::vector<Parameter*> parameters;
  std::shared_ptr<void> owner;  // of the parameters

  struct Domain {
    std::string argument;
    double low, high;  // the function is defined and smooth between them
  };
  std::vector<Domain> domains;
  double kink_distance = infinity;  // how far one entry can move before it meets a kink or a jump
  double rtol = GradcheckOptions().rtol;
  double rtol_f32 = GradcheckOptions::for_dtype(DType::f32).rtol;
  double nondet_tol = 0;

  Case& domain(const std::string& argument, double low, double high) {
    domains.push_back({argument, low, high});
    return *this;
  }
  Case& kinks(double distance) {
    kink_distance = distance;
    return *this;
  }
  Case& nondeterministic(double furthest_apart) {  // by how much results may differ from run to run
    nondet_tol = furthest_apart;
    return *this;
  }
  // A module's, which lives as long as the case.
  template <class Module>
  Case& parameters_of(const std::shared_ptr<Module>& module) {
    parameters = module->parameters();
    owner = module;
    return *this;
  }
  Case& tolerance_f32(double largest_relative_error) {
    rtol_f32 = largest_relative_error;
    return *this;
  }

  // How far a difference may reach without leaving a domain or meeting a kink. Error: an input outside its domain.
  double reach() const;
  std::string description() const;  // "a (2, 3), b (3); b in (0, inf); kinks 0.1 away; tolerance 1e-07, in f32 1e-04"
};

// Options as given, but no step beyond the case's reach.
GradcheckReport run(const Case& one, const GradcheckOptions& options = {});

class Cases {
 public:
  // f as gradcheck() takes it. Arguments are named a, b, c ... unless names are given. The reference is good until the next
  // add().
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
  Tensor distinct(const Dims& shape, double distance);        // multiples of the distance around 0, each once, in random order

 private:
  std::vector<Case> all_;
  Generator generator_{7};
};

#define SEQGRAD_CASES(name)            \
  void add_cases_##name(Cases& cases); \
  void add_cases_##name([[maybe_unused]] Cases& cases)

// Defined by the build, one for each room.
void add_autograd_cases(Cases& cases);
void add_nn_cases(Cases& cases);
void add_seq2seq_cases(Cases& cases);

// The cases of a user's program, in the order of their registration:
//
//   SEQGRAD_GRADCHECK_CASES { cases.add("cube", cube, {cases.normal({3, 4})}); }
using AddCases = void (*)(Cases& cases);
int register_cases(AddCases add);
void add_registered_cases(Cases& cases);

#define SEQGRAD_JOIN_NAMES(a, b) a##b
#define SEQGRAD_GRADCHECK_CASES_OF(line)                                            \
  static void SEQGRAD_JOIN_NAMES(seqgrad_cases_, line)(seqgrad::Cases & cases);     \
  [[maybe_unused]] static const int SEQGRAD_JOIN_NAMES(seqgrad_registered_, line) = \
      seqgrad::register_cases(SEQGRAD_JOIN_NAMES(seqgrad_cases_, line));            \
  static void SEQGRAD_JOIN_NAMES(seqgrad_cases_, line)([[maybe_unused]] seqgrad::Cases & cases)
#define SEQGRAD_GRADCHECK_CASES SEQGRAD_GRADCHECK_CASES_AT(__LINE__)
#define SEQGRAD_GRADCHECK_CASES_AT(line) SEQGRAD_GRADCHECK_CASES_OF(line)

}  // namespace seqgrad
