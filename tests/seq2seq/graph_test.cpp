// The drawn computation is the trained one: the same loss, the same gradients.
#include "seq2seq/graph.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

Vocabulary words(const std::vector<std::string>& all) { return Vocabulary::build({all}); }

bool holds(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("a drawn translator's loss and gradients are those of training") {
  for (const std::string attention : {"none", "mean", "sdp", "bahdanau"}) {
    CAPTURE(attention);
    const Settings settings{.attention = attention,
                            .embedding = 4,
                            .hidden = 3,
                            .decoder_hidden = 5,
                            .attention_dim = 2,
                            .dropout = 0,
                            .precision = "f64"};
    Run run(settings, words({"ein", "hund", "läuft"}), words({"a", "dog", "runs"}));
    const EncodedPair pair{{4, 5, 6, Vocabulary::end}, {4, 5, 6}};
    const std::string dot = translation_graph(run, pair);
    const std::vector<double> drawn = run.block.gradients().to_vector<double>();

    run.block.zero_grad();
    Tape tape;
    nn::Mode mode = nn::Mode::evaluation();
    const Var loss = run.model.loss(tape, make_batch({pair}, {0}), mode, 0);
    tape.backward(loss);
    const std::vector<double> trained = run.block.gradients().to_vector<double>();
    double worst = 0;
    for (std::size_t i = 0; i < drawn.size(); ++i) worst = std::max(worst, std::fabs(drawn[i] - trained[i]));
    CHECK(worst <= 1e-12);
    CHECK(holds(dot, fmt::format("attention {}, loss {:.4f}\\n", attention, loss.value().item())));

    CHECK(holds(dot, "label=\"encoder: " + run.source.token(4)));
    for (int step = 1; step <= 4; ++step) CHECK(holds(dot, fmt::format("label=\"decoder, step {}: after ", step)));
    CHECK(holds(dot, "step 1: after <s>, expects " + run.target.token(4) + "\";"));
    CHECK(holds(dot, "step 4: after " + run.target.token(6) + ", expects </s>\";"));
    CHECK(holds(dot, "label=\"loss\";"));
    CHECK(holds(dot, "[label=\"cross_entropy ()\\ngradient 1\", shape=ellipse];"));
    for (const Parameter* parameter : run.block.parameters()) {
      CAPTURE(parameter->name);
      double largest = 0;
      for (const double g : parameter->grad.to_vector<double>()) largest = std::max(largest, std::fabs(g));
      CHECK(holds(dot, "[label=\"" + parameter->name + "\\n") ==
            (largest > 0));  // a bias that softmax does not see is not drawn
    }
  }
}
