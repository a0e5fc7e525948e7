// The study of the bottleneck: what a fixed-size state loses, and what attention gives back.
#include <algorithm>
#include <exception>

#include "kernels/error.h"
#include "seq2seq/bleu.h"
#include "seq2seq/random.h"
#include "seq2seq/search.h"
#include "seq2seq/study_tools.h"
#include "seq2seq/text.h"
#include "seq2seq/train.h"

namespace seqgrad::seq2seq {
namespace {

constexpr i64 batch_size = 32, shortest = 2;

// "copy a c b" becomes "a c b", and "reverse a c b" becomes "b c a".
class Task {
 public:
  explicit Task(const BottleneckOptions& options) : options_(options) {
    for (i64 i = 0; i < options.symbols; ++i) symbols_.push_back(fmt::format("s{}", i + 1));
    std::vector<std::string> all = symbols_;
    target = Vocabulary::build({symbols_});
    all.insert(all.end(), {"copy", "reverse"});
    source = Vocabulary::build({all});
  }

  SentencePair sentence(i64 length, bool reversed, SplitMix64& random) const {
    SentencePair pair{{reversed ? "reverse" : "copy"}, {}};
    for (i64 i = 0; i < length; ++i) pair.target.push_back(symbols_[random.below(static_cast<u64>(symbols_.size()))]);
    pair.source.insert(pair.source.end(), pair.target.begin(), pair.target.end());
    if (reversed) std::reverse(pair.target.begin(), pair.target.end());
    return pair;
  }

  // A training batch: lengths up to one that grows over the first half of the training.
  Batch batch(i64 step) const {
    SplitMix64 random(options_.seed, static_cast<u64>(step));
    const i64 grown = shortest + (options_.longest - shortest) * 2 * (step + 1) / options_.steps;
    const i64 most = std::min(options_.longest, grown);
    std::vector<SentencePair> pairs;
    for (i64 i = 0; i < batch_size; ++i)
      pairs.push_back(
          sentence(shortest + static_cast<i64>(random.below(static_cast<u64>(most - shortest + 1))), i % 2 == 1, random));
    std::stable_sort(pairs.begin(), pairs.end(),
                     [](const SentencePair& a, const SentencePair& b) { return a.source.size() > b.source.size(); });
    return batch_of(pairs);
  }

  // Sentences of one length to test on, other ones than those of the training.
  std::vector<SentencePair> test(i64 length) const {
    SplitMix64 random(~options_.seed, static_cast<u64>(length));
    std::vector<SentencePair> pairs;
    for (i64 i = 0; i < options_.sentences; ++i) pairs.push_back(sentence(length, i % 2 == 1, random));
    return pairs;
  }

  Batch batch_of(const std::vector<SentencePair>& pairs) const {
    std::vector<std::size_t> rows(pairs.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
    return make_batch(encode_pairs(pairs, source, target), rows);
  }

  Vocabulary source, target;

 private:
  const BottleneckOptions& options_;
  std::vector<std::string> symbols_;
};

struct Scores {
  double right = 0, bleu = 0;  // share of sentences without a fault, per cent; BLEU
};

// Of the longest sentences.
struct Gradients {
  // By distance from the source's end, the mean norm of d loss / d state; and the same of an rnn from its Jacobian.
  std::vector<double> norms = {}, by_hand = {};
  double fused_loss = 0, stepped_loss = 0;
};

struct Trained {
  std::string cell, attention;
  double loss = 0;                  // of the last training steps, per word
  std::vector<Scores> scores = {};  // by length
  Gradients before = {}, after = {};
  std::exception_ptr failure = {};
};

Settings settings_of(const BottleneckOptions& options, const std::string& cell, const std::string& attention) {
  Settings settings{.attention = attention, .cell = cell};
  settings.bridge = "none";
  settings.bidirectional = false;  // so that a state's distance from the decoder is one number
  settings.embedding = 16;
  settings.hidden = options.hidden;
  settings.attention_dim = 32;
  settings.dropout = 0;
  settings.learning_rate = 5e-3;
  settings.batch = batch_size;
  settings.seed = static_cast<i64>(options.seed);
  return settings;
}

std::vector<Scores> scores_of(const Run& run, const Task& task, const BottleneckOptions& options) {
  Translator translator(run);
  std::vector<Scores> all;
  for (i64 length = shortest; length <= options.longest; ++length) {
    const std::vector<SentencePair> pairs = task.test(length);
    std::vector<std::vector<std::string>> sources;
    std::vector<std::string> references, hypotheses;
    for (const SentencePair& pair : pairs) {
      sources.push_back(pair.source);
      references.push_back(join(pair.target));
    }
    for (const Translation& one : translator.translate(sources)) hypotheses.push_back(join(run.target.decode(one.ids)));
    Scores scores;
    for (std::size_t i = 0; i < pairs.size(); ++i) scores.right += hypotheses[i] == references[i];
    scores.right *= 100 / static_cast<double>(pairs.size());
    scores.bleu = corpus_bleu(hypotheses, {references}, {.tokenize = BleuTokenizer::none, .effective_order = true}).score;
    all.push_back(scores);
  }
  return all;
}

double row_norm(const Tensor& a, i64 row) {
  double squares = 0;
  for (i64 j = 0; j < a.size(1); ++j) squares += std::pow(a.at({row, j}), 2);
  return std::sqrt(squares);
}

// Over the sentences: the norm of each one's row of h and, where there is one, of c.
double mean_norm(const Tensor& h, const Tensor& c = {}) {
  double sum = 0;
  for (i64 b = 0; b < h.size(0); ++b) sum += std::hypot(row_norm(h, b), c.defined() ? row_norm(c, b) : 0);
  return sum / static_cast<double>(h.size(0));
}

// d loss / d h_i = d loss / d (what the attention reads of h_i) + W_hh^T ((1 - h_{i+1}^2) * d loss / d h_{i+1}) of a tanh
// network, from the last state's on.
std::vector<double> norms_by_hand(const std::vector<Tensor>& h, const std::vector<Tensor>& read, const Tensor& last,
                                  const Tensor& weight_hh) {
  const i64 batch = last.size(0), width = last.size(1);
  const std::vector<double> w = weight_hh.to_vector<double>();
  std::vector<double> v = last.to_vector<double>(), norms{mean_norm(last)};
  for (std::size_t i = h.size() - 1; i-- > 0;) {
    const std::vector<double> next = h[i + 1].to_vector<double>();
    std::vector<double> total = read[i].to_vector<double>();
    for (i64 b = 0; b < batch; ++b)
      for (i64 k = 0; k < width; ++k) {
        const auto at = static_cast<std::size_t>(b * width + k);
        const double before = (1 - next[at] * next[at]) * v[at];
        for (i64 j = 0; j < width; ++j)
          total[static_cast<std::size_t>(b * width + j)] += before * w[static_cast<std::size_t>(k * width + j)];
      }
    v = std::move(total);
    norms.push_back(mean_norm(Tensor::from<double>(v, {batch, width})));
  }
  return norms;
}

// The encoder step by step, in f64, so that each of its states is a node of the tape.
Gradients gradients_of(const Run& run, const Task& task, const BottleneckOptions& options) {
  Settings settings = run.settings;
  settings.precision = "f64";
  Run exact(settings, run.source, run.target);
  const auto named = [&](const std::string& name) -> Parameter& {
    for (Parameter* parameter : exact.block.parameters())
      if (parameter->name == name) return *parameter;
    throw_failure("the model has no {}", name);
  };
  for (const Parameter* parameter : run.block.parameters())
    named(parameter->name).value.copy_from(parameter->value.to(DType::f64));

  const Batch batch = task.batch_of(task.test(options.longest));
  const Source source = Source::from(batch);
  nn::Mode mode = nn::Mode::evaluation();
  Tape tape;
  const std::string layer = "encoder." + settings.cell + ".";
  const nn::Cell cell = settings.cell == "rnn" ? nn::Cell::rnn : settings.cell == "lstm" ? nn::Cell::lstm : nn::Cell::gru;
  const RecurrentWeights w{tape.parameter(named(layer + "weight_ih_l0")), tape.parameter(named(layer + "weight_hh_l0")),
                           tape.parameter(named(layer + "bias_ih_l0")), tape.parameter(named(layer + "bias_hh_l0"))};
  const Var words = embedding(tape.parameter(named("encoder.embedding.weight")), source.ids);  // (B, S, E)
  const Tensor zero = zeros({batch.size, settings.hidden}, DType::f64);
  nn::RecurrentState state{tape.constant(zero), cell == nn::Cell::lstm ? tape.constant(zero) : Var()};
  std::vector<nn::RecurrentState> states;
  std::vector<Var> read;
  for (i64 i = 0; i < batch.source_length; ++i) {
    state = nn::step(cell, linear(select(words, 1, i), w.weight_ih, nn::input_bias(cell, w)), state, w);
    states.push_back(state);
    read.push_back(state.h * 1.0);  // a node of its own for what the attention reads
  }
  Encoded encoded{stack(read, 1), state, {}};
  exact.model.decoder.prepare(encoded, source.mask);
  const Tensor target_in = Tensor::from<i64>(batch.target_in, {batch.size, batch.target_length}),
               target_out = Tensor::from<i64>(batch.target_out, {batch.size * batch.target_length});
  const Var features = exact.model.decoder(tape, encoded, target_in, mode).features;
  // Summed over the sentences, each of which has states of its own; mean over its words.
  const Var loss =
      exact.model.decoder.loss(reshape(features, {-1, features.size(-1)}), target_out, {}) * static_cast<double>(batch.size);
  tape.backward(loss, {.keep_gradients = true});

  Gradients found;
  found.stepped_loss = loss.value().item() / static_cast<double>(batch.size);
  found.fused_loss = exact.model.negative_log_likelihood(batch) / static_cast<double>(batch.target_tokens);
  for (std::size_t i = states.size(); i-- > 0;)
    found.norms.push_back(mean_norm(states[i].h.grad(), states[i].c.defined() ? states[i].c.grad() : Tensor()));
  if (cell != nn::Cell::rnn) return found;
  std::vector<Tensor> h, direct;
  for (std::size_t i = 0; i < states.size(); ++i) {
    h.push_back(states[i].h.value());
    direct.push_back(read[i].grad());
  }
  found.by_hand = norms_by_hand(h, direct, states.back().h.grad(), named(layer + "weight_hh_l0").value);
  return found;
}

Trained train_and_measure(const BottleneckOptions& options, const Task& task, const std::string& cell,
                          const std::string& attention) {
  Trained trained{.cell = cell, .attention = attention};
  Run run(settings_of(options, cell, attention), task.source, task.target);
  trained.before = gradients_of(run, task, options);
  nn::Adam adam(run.block, run.settings.beta1, run.settings.beta2, run.settings.eps);
  Tape tape;
  const i64 last = std::max<i64>(1, options.steps / 20);
  for (i64 step = 0; step < options.steps; ++step) {
    const Batch batch = task.batch(step);
    // Towards the end ever smaller steps.
    const double left = static_cast<double>(options.steps - step) / static_cast<double>(options.steps);
    const double loss =
        train_step(run, adam, tape, {&batch, 1}, step, run.settings.learning_rate * std::min(1.0, 2 * left)).loss;
    if (step >= options.steps - last) trained.loss += loss / static_cast<double>(last);
  }
  trained.scores = scores_of(run, task, options);
  trained.after = gradients_of(run, task, options);
  return trained;
}

void check(const BottleneckOptions& options) {
  const auto within = [](const char* name, i64 value, i64 low, i64 high) {
    if (value < low || value > high) throw_error("{} is {}: it must be between {} and {}", name, value, low, high);
  };
  within("longest", options.longest, shortest + 1, 100);
  within("symbols", options.symbols, 2, 1000);
  within("hidden", options.hidden, 1, 1024);
  within("steps", options.steps, 1, 1000000);
  within("sentences", options.sentences, 2, 10000);
  for (const auto& [name, names] : {std::pair{"attentions", &options.attentions}, {"cells", &options.cells}}) {
    if (names->empty()) throw_error("{} is empty", name);
    for (const std::string& one : *names)
      if (std::count(names->begin(), names->end(), one) > 1) throw_error("{} names {} twice: once is enough", name, one);
  }
  for (const std::string& cell : options.cells)
    for (const std::string& attention : options.attentions) check_settings(settings_of(options, cell, attention));
}

}  // namespace

Study bottleneck_study(const BottleneckOptions& options) {
  check(options);
  const Task task(options);
  std::vector<Trained> all;
  for (const std::string& cell : options.cells)
    for (const std::string& attention : options.attentions) all.push_back({.cell = cell, .attention = attention});
  const i64 count = static_cast<i64>(all.size());
#pragma omp parallel for schedule(dynamic)
  for (i64 i = 0; i < count; ++i) {
    Trained& one = all[static_cast<std::size_t>(i)];
    try {
      one = train_and_measure(options, task, one.cell, one.attention);
#pragma omp critical
      if (options.progress)
        options.progress(fmt::format("{:<5} {:<9} loss {:.3f}, {:3.0f} % of the sentences of {} symbols without a fault",
                                     one.cell, one.attention, one.loss, one.scores.back().right, options.longest));
    } catch (...) {
      one.failure = std::current_exception();
    }
  }
  for (const Trained& one : all)
    if (one.failure) std::rethrow_exception(one.failure);

  Study study{
      "bottleneck",
      "The bottleneck: a whole sentence in one state",
      "Without attention the decoder knows the source by one state of fixed size, which has to hold every word in its place: "
      "the longer the sentence, the less it does, and what is learnt about a word has to come back through every step since. "
      "Attention reads the states themselves, each one step away. Their mean is as short a way, but forgets the places.",
      {fmt::format("{} symbols; 'copy a b c' is to become 'a b c', 'reverse a b c' is to become 'c b a'", options.symbols),
       fmt::format("{} steps of {} sentences with {} to {} symbols, the longest length growing over the first half; {} other "
                   "sentences of each length to test on",
                   options.steps, batch_size, shortest, options.longest, options.sentences),
       fmt::format("encoder in one direction, {} units, whose last state is the decoder's first; the same sentences, and the "
                   "same first weights wherever names, shapes and ranges agree",
                   options.hidden),
       "one seed: the trained models' numbers are examples, the gradients' comparisons exact"}};

  StudyTable losses{"Loss on the longest sentences after training: the fused encoder, and step by step", {}};
  StudyTable jacobians{
      "|d loss / d state| of the rnn, before and after training: through its Jacobian W_hh^T diag(1 - h^2) by hand, and by the "
      "tape",
      {}};
  for (const Trained& one : all) {
    losses.rows.push_back({fmt::format("{}, {}", one.cell, one.attention), one.after.fused_loss, one.after.stepped_loss});
    if (one.after.by_hand.empty()) continue;
    const std::size_t farthest = one.after.norms.size() - 1;
    for (const auto& [when, gradients] : {std::pair{"before", &one.before}, {"after", &one.after}})
      for (const std::size_t distance : {std::size_t{1}, farthest / 2, farthest})
        jacobians.rows.push_back({fmt::format("{}, {}, distance {}", one.attention, when, distance),
                                  gradients->by_hand[distance], gradients->norms[distance]});
  }
  study.tables.push_back(losses);
  if (!jacobians.rows.empty()) study.tables.push_back(jacobians);

  const auto each_of = [&](const std::string& cell, const auto& f) {
    for (const Trained& one : all)
      if (one.cell == cell) f(one);
  };
  for (const std::string& cell : options.cells) {
    Measurement scores{fmt::format("{}: sentences without a fault in per cent, and BLEU, by length", cell), {{"symbols"}, {}}};
    Measurement norms{
        fmt::format(
            "{}: |d loss / d state|, mean over the longest sentences, by distance from their end, before and after training",
            cell),
        {{"distance"}, {}}};
    StudyPlot right{fmt::format("{}: sentences without a fault", cell), "symbols", "per cent", {}, Scale::linear};
    StudyPlot bleu{fmt::format("{}: BLEU", cell), "symbols", "BLEU", {}, Scale::linear};
    const auto gradient_plot = [&](const char* when) {
      return StudyPlot{fmt::format("{}: what a state at a distance is told to change, {} training", cell, when),
                       "distance from the source's end",
                       "|d loss / d state|",
                       {}};
    };
    StudyPlot before = gradient_plot("before"), after = gradient_plot("after");
    each_of(cell, [&](const Trained& one) { scores.table.columns.push_back(one.attention); });
    each_of(cell, [&](const Trained& one) { scores.table.columns.push_back("BLEU " + one.attention); });
    each_of(cell, [&](const Trained& one) { norms.table.columns.push_back(one.attention + " before"); });
    each_of(cell, [&](const Trained& one) { norms.table.columns.push_back(one.attention + " after"); });
    each_of(cell, [&](const Trained& one) {
      right.curves.push_back({one.attention, {}});
      bleu.curves.push_back({one.attention, {}});
      for (std::size_t i = 0; i < one.scores.size(); ++i) {
        const double length = static_cast<double>(shortest) + static_cast<double>(i);
        right.curves.back().points.emplace_back(length, one.scores[i].right);
        bleu.curves.back().points.emplace_back(length, one.scores[i].bleu);
      }
      for (const auto& [plot, gradients] : {std::pair{&before, &one.before}, {&after, &one.after}}) {
        plot->curves.push_back({one.attention, {}});
        for (std::size_t i = 0; i < gradients->norms.size(); ++i)
          plot->curves.back().points.emplace_back(static_cast<double>(i), gradients->norms[i]);
      }
    });
    for (std::size_t i = 0; i < static_cast<std::size_t>(options.longest - shortest + 1); ++i) {
      std::vector<std::string> row{fmt::format("{}", shortest + static_cast<i64>(i))};
      each_of(cell, [&](const Trained& one) { row.push_back(fmt::format("{:.0f}", one.scores[i].right)); });
      each_of(cell, [&](const Trained& one) { row.push_back(fmt::format("{:.1f}", one.scores[i].bleu)); });
      scores.table.rows.push_back(std::move(row));
    }
    for (std::size_t i = 0; i < all.front().after.norms.size(); ++i) {
      std::vector<std::string> row{fmt::format("{}", i)};
      each_of(cell, [&](const Trained& one) { row.push_back(fmt::format("{:.1e}", one.before.norms[i])); });
      each_of(cell, [&](const Trained& one) { row.push_back(fmt::format("{:.1e}", one.after.norms[i])); });
      norms.table.rows.push_back(std::move(row));
    }
    study.measurements.push_back(std::move(scores));
    study.measurements.push_back(std::move(norms));
    for (StudyPlot* plot : {&right, &bleu, &before, &after}) study.plots.push_back(std::move(*plot));
  }

  // The best of the cells at the longest length; -1 where the attention is not among those asked for.
  const auto best = [&](const std::string& attention) {
    double right = -1;
    for (const Trained& one : all)
      if (one.attention == attention) right = std::max(right, one.scores.back().right);
    return right;
  };
  const double looking = std::max(best("sdp"), best("bahdanau"));
  const auto believe = [&](const std::string& attention, const std::string& belief) {
    if (looking < 0 || best(attention) < 0) return;
    study.beliefs.push_back({belief,
                             fmt::format("Of sentences of {} symbols, {:.0f} % came out without a fault with {}, and {:.0f} % "
                                         "with sdp or bahdanau, the best of the cells each.",
                                         options.longest, best(attention), attention, looking),
                             best(attention) < looking});
  };
  believe("none", "A recurrent state has read every word, so it is enough to start the decoder from.");
  believe("mean", "A context made of all words is enough, whatever their weights.");
  return study;
}

}  // namespace seqgrad::seq2seq
