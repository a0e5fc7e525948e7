// Bahdanau's attention out of primitive operations, beside the library's: the same context, the same gradients.
#include <fmt/format.h>
#include <seqgrad/nn/attention.h>

#include <array>
#include <cmath>

using namespace seqgrad;

// s_i = Va tanh(Wa h + Ua x_i), weights = softmax(s), context = sum_i weights_i x_i;  h (B, D), x (B, S, C)
Var attend(const Var& h, const Var& x, const std::vector<Var>& p) {
  const Var query = matmul(h, transpose(p[0])) + p[1];                             // (B, K)
  const Var keys = matmul(x, transpose(p[2])) + p[3];                              // (B, S, K)
  const Var s = matmul(tanh(keys + unsqueeze(query, 1)), transpose(p[4])) + p[5];  // (B, S, 1)
  const Var e = exp(s);                                                            // (B, S, 1)
  return sum(e / sum(e, 1, true) * x, 1);                                          // (B, C)
}

struct Model : nn::Module {
  std::unique_ptr<nn::Attention> attention = nn::make_attention(nn::AttentionKind::bahdanau, *this, "attention", 5, 6, 7);
};

int main() {
  Generator random(1);
  Model model;
  nn::ParameterBlock block(model, DType::f64, random);
  const Tensor h = randn({2, 5}, DType::f64, random), x = randn({2, 4, 6}, DType::f64, random);
  const auto run = [&](bool library) {
    Tape tape;
    block.zero_grad();
    const Var th = tape.leaf(h), tx = tape.leaf(x);
    std::vector<Var> p;
    for (Parameter* parameter : block.parameters()) p.push_back(tape.parameter(*parameter));
    const Var context = library ? (*model.attention)(th, model.attention->prepare(tx, {})).context : attend(th, tx, p);
    tape.backward(sum(context * context));
    return std::array{context.value().clone(), th.grad().clone(), tx.grad().clone(), block.gradients().clone()};
  };
  const std::array<Tensor, 4> composed = run(false), library = run(true);
  const char* const names[] = {"the context", "d loss / d h", "d loss / d x", "d loss / d parameters"};
  for (std::size_t i = 0; i < composed.size(); ++i) {
    double largest = 0;
    const std::vector<double> a = composed[i].to_vector<double>(), b = library[i].to_vector<double>();
    for (std::size_t k = 0; k < a.size(); ++k) largest = std::fmax(largest, std::fabs(a[k] - b[k]));
    fmt::print("{:<22} {:3} numbers, largest difference {:.1e}\n", names[i], a.size(), largest);
  }
}
