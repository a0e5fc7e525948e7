#include "seq2seq/search.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/philox.h"
#include "tensor/launch.h"

namespace seqgrad::seq2seq {

double SearchOptions::penalty(i64 tokens) const {
  return length_penalty == 0 ? 1 : std::pow((5 + static_cast<double>(tokens)) / 6, length_penalty);
}

void check_search(const SearchOptions& o) {
  const auto at_least = [](const char* name, i64 value, i64 least) {
    if (value < least) throw_error("{} is {}: it must be at least {}", name, value, least);
  };
  at_least("batch", o.batch, 1);
  at_least("beam", o.beam, 1);
  at_least("nbest", o.nbest, 1);
  at_least("min-length", o.min_length, 0);
  at_least("top-k", o.top_k, 0);
  if (!(o.length_penalty >= 0 && std::isfinite(o.length_penalty)))
    throw_error("length-penalty is {}: it must be at least 0", o.length_penalty);
  // Below, log-probabilities divided by it are beyond f32.
  constexpr double least_temperature = 1e-30;
  if (!((o.temperature == 0 || o.temperature >= least_temperature) && std::isfinite(o.temperature)))
    throw_error("sample is {}: it must be a temperature of at least {}, or 0", o.temperature, least_temperature);
  if (o.temperature > 0 && o.beam > 1) throw_error("sample and a beam of {} exclude each other", o.beam);
  if (o.temperature == 0 && o.nbest > o.beam) throw_error("nbest is {}: it must be at most the beam, {}", o.nbest, o.beam);
}

namespace {

// Whether a stands before b: NaNs first, then the larger.
bool better(double a, double b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

struct Hypothesis {
  i64 node = -1;  // its last word in its sentence's nodes; -1: <s>
  double log_probability = 0;
  i64 parent = 0;  // the hypothesis that it extends: a row of its sentence in the last step
  i64 number = 0;  // of a sample
};

struct Node {
  i64 parent, word;
  i64 look;  // the source as it was looked at for this word: where its weights begin
};

}  // namespace

// A sentence on its way.
struct Translator::Job {
  std::size_t index;  // among the caller's
  u64 number;         // among all of the Translator's
  Segment segment;
  i64 limit;       // words
  i64 length = 0;  // words so far
  i64 width;       // hypotheses that may go on
  std::vector<Hypothesis> alive;
  std::vector<Node> nodes;
  std::vector<float> looks;
  std::vector<Translation> ended;
  i64 first_look = 0;  // of the last step, in looks

  i64 word(const Hypothesis& one) const {
    return one.node < 0 ? Vocabulary::start : nodes[static_cast<std::size_t>(one.node)].word;
  }
  Hypothesis extended(i64 row, i64 word, double log_probability) {
    const Hypothesis& parent = alive[static_cast<std::size_t>(row)];
    nodes.push_back({parent.node, word, looks.empty() ? -1 : first_look + row * segment.length});
    return {static_cast<i64>(nodes.size()) - 1, log_probability, row, parent.number};
  }
  void end(const Hypothesis& one, const SearchOptions& options) {
    Translation translation;
    translation.log_probability = one.log_probability;
    translation.cut_off = word(one) != Vocabulary::end;
    i64 tokens = 0;
    for (i64 node = one.node; node >= 0; node = nodes[static_cast<std::size_t>(node)].parent, ++tokens) {
      const Node& at = nodes[static_cast<std::size_t>(node)];
      if (at.word != Vocabulary::end) translation.ids.push_back(at.word);
      if (at.look >= 0) translation.weights.emplace_back(looks.begin() + at.look, looks.begin() + at.look + segment.length);
    }
    std::reverse(translation.ids.begin(), translation.ids.end());
    std::reverse(translation.weights.begin(), translation.weights.end());
    translation.score = one.log_probability / options.penalty(tokens);
    const auto place = std::find_if(ended.begin(), ended.end(), [&](const Translation& other) {
      if (other.cut_off != translation.cut_off) return other.cut_off;
      return better(translation.score, other.score);
    });
    ended.insert(place, std::move(translation));
    if (static_cast<i64>(ended.size()) > options.nbest) ended.pop_back();
  }
};

// What the models say of the next words of all rows.
class Translator::Scores {
 public:
  explicit Scores(std::vector<Tensor> logits) : logits_(std::move(logits)) {}

  // The k likeliest of each row.
  void top(i64 k, std::vector<double>& log_probabilities, std::vector<i64>& words) const {
    const i64 rows = logits_[0].size(0);
    const Tensor x = logits_.size() == 1 ? logits_[0] : this->log_probabilities();
    const Tensor y({rows, k}, x.dtype(), x.device()), index({rows, k}, DType::i64, x.device());
    launch(kernels::top_of_rows, x, logits_.size() == 1, y, index, rows, x.size(1), k);
    words = index.to_vector<i64>();
    log_probabilities = y.to(DType::f64).to_vector<double>();
  }
  // (rows, V): the mean over the models
  Tensor log_probabilities() const {
    Tensor sum;
    for (const Tensor& logits : logits_) {
      const Tensor log_p(logits.shape(), logits.dtype(), logits.device());
      launch(kernels::log_softmax, logits, log_p, logits.size(0), logits.size(1));
      if (!sum.defined()) {
        sum = log_p;
        continue;
      }
      const Tensor other = log_p.to(sum.dtype());
      const i64 shape[] = {sum.numel()}, one[] = {1};
      launch(kernels::add_strided, 1.0, other, one, sum, one, shape, i64{1});
    }
    if (logits_.size() > 1) launch(kernels::affine, sum, sum, 1.0 / static_cast<double>(logits_.size()), 0.0, sum.numel());
    return sum;
  }

 private:
  std::vector<Tensor> logits_;
};

// How sentences go on.
class Translator::Choice {
 public:
  explicit Choice(const SearchOptions& options) : options_(options) {}
  virtual ~Choice() = default;
  virtual i64 first_hypotheses() const { return 1; }
  virtual i64 hypotheses() const { return 1; }  // of a sentence, at most
  virtual i64 limit(const Job& job) const { return options_.longest(job.segment.length); }
  virtual void see(const Scores& scores) = 0;
  // Puts extensions of the job's hypotheses, whose rows begin at `row`, in their place; those that end go to its ended ones.
  virtual void extend(Job& job, i64 row) = 0;

 protected:
  const SearchOptions& options_;
};

// Greedy and beam search.
class Translator::Best : public Translator::Choice {
 public:
  Best(const SearchOptions& options, i64 vocabulary)
      : Choice(options), k_(std::min(vocabulary, options.beam + (options.min_length > 0 ? 1 : 0))) {}

  i64 hypotheses() const override { return options_.beam; }
  void see(const Scores& scores) override { scores.top(k_, log_p_, words_); }

  void extend(Job& job, i64 row) override {
    candidates_.clear();
    for (std::size_t r = 0; r < job.alive.size(); ++r) {
      i64 taken = 0;
      for (i64 j = 0; j < k_ && taken < job.width; ++j) {
        const std::size_t at = static_cast<std::size_t>((row + static_cast<i64>(r)) * k_ + j);
        if (words_[at] == Vocabulary::end && job.length < options_.min_length) continue;
        candidates_.push_back({job.alive[r].log_probability + log_p_[at], static_cast<i64>(r), words_[at], candidates_.size()});
        ++taken;
      }
    }
    const std::size_t kept = std::min(candidates_.size(), static_cast<std::size_t>(job.width));
    std::partial_sort(candidates_.begin(), candidates_.begin() + static_cast<std::ptrdiff_t>(kept), candidates_.end(),
                      [](const Candidate& a, const Candidate& b) {
                        return better(a.log_probability, b.log_probability) ||
                               (!better(b.log_probability, a.log_probability) && a.order < b.order);
                      });
    std::vector<Hypothesis> next;
    ++job.length;
    for (std::size_t i = 0; i < kept; ++i) {
      const Candidate& one = candidates_[i];
      const Hypothesis hypothesis = job.extended(one.row, one.word, one.log_probability);
      if (one.word == Vocabulary::end || job.length == job.limit)
        job.end(hypothesis, options_);
      else
        next.push_back(hypothesis);
      job.width -= one.word == Vocabulary::end;
    }
    // Further words add nothing to a log-probability, and at most `limit` tokens divide it.
    if (static_cast<i64>(job.ended.size()) == options_.nbest && !job.ended.back().cut_off)
      std::erase_if(next, [&](const Hypothesis& one) {
        const double soonest = one.log_probability / options_.penalty(job.length + 1),
                     latest = one.log_probability / options_.penalty(job.limit);
        return std::max(soonest, latest) <= job.ended.back().score;
      });
    job.alive = std::move(next);
  }

 private:
  struct Candidate {
    double log_probability;
    i64 row, word;
    std::size_t order;
  };
  i64 k_;
  std::vector<double> log_p_;
  std::vector<i64> words_;
  std::vector<Candidate> candidates_;
};

// Samples: each hypothesis takes one word.
class Translator::Drawn : public Translator::Choice {
 public:
  Drawn(const SearchOptions& options, i64 vocabulary)
      : Choice(options), k_(options.top_k > 0 ? std::min(options.top_k + (options.min_length > 0 ? 1 : 0), vocabulary) : 0) {}

  i64 first_hypotheses() const override { return options_.nbest; }
  i64 hypotheses() const override { return options_.nbest; }

  void see(const Scores& scores) override {
    log_p_ = scores.log_probabilities().to(Device::cpu);
    const i64 rows = log_p_.size(0), columns = k_ > 0 ? k_ : log_p_.size(1);
    probabilities_ = Tensor({rows, columns}, log_p_.dtype());
    words_.clear();
    if (k_ > 0) {
      words_.resize(static_cast<std::size_t>(rows * k_));
      launch(kernels::top_of_rows, log_p_, false, probabilities_, words_.data(), rows, log_p_.size(1), k_);
    }
    launch(kernels::affine, k_ > 0 ? probabilities_ : log_p_, probabilities_, 1 / options_.temperature, 0.0, rows * columns);
    launch(kernels::softmax, probabilities_, probabilities_, rows, columns);
  }

  void extend(Job& job, i64 row) override {
    std::vector<Hypothesis> next;
    for (std::size_t r = 0; r < job.alive.size(); ++r) {
      const i64 at = row + static_cast<i64>(r);
      const i64 word = draw(job, job.alive[r].number, at);
      const Hypothesis hypothesis =
          job.extended(static_cast<i64>(r), word, job.alive[r].log_probability + log_p_.at({at, word}));
      if (word == Vocabulary::end || job.length + 1 == job.limit)
        job.end(hypothesis, options_);
      else
        next.push_back(hypothesis);
    }
    ++job.length;
    job.alive = std::move(next);
  }

 private:
  i64 draw(const Job& job, i64 number, i64 row) const {
    const u64 stream = job.number * static_cast<u64>(options_.nbest) + static_cast<u64>(number);
    const kernels::Philox bits = kernels::philox(options_.seed, stream, static_cast<u64>(job.length));
    const double uniform = static_cast<double>((u64{bits.word[0] >> 5} << 26) | (bits.word[1] >> 6)) * 0x1p-53;
    const i64 columns = probabilities_.size(1);
    const auto word_at = [&](i64 j) { return k_ > 0 ? words_[static_cast<std::size_t>(row * k_ + j)] : j; };
    i64 drawn = -1;
    dispatch(probabilities_.dtype(), [&]<class T>() {
      const T* p = probabilities_.data<T>() + row * columns;
      const auto each_allowed = [&](auto&& take) {
        i64 left = options_.top_k > 0 ? options_.top_k : columns;
        for (i64 j = 0; j < columns && left > 0; ++j)
          if (job.length >= options_.min_length || word_at(j) != Vocabulary::end) {
            --left;
            if (!take(j, static_cast<double>(p[j]))) break;
          }
      };
      double total = 0;
      each_allowed([&](i64, double probability) {
        total += probability;
        return true;
      });
      double left = uniform * total;
      each_allowed([&](i64 j, double probability) {
        drawn = word_at(j);
        left -= probability;
        return !(left < 0);
      });
    });
    return drawn;
  }

  i64 k_;
  Tensor log_p_, probabilities_;
  std::vector<i64> words_;
};

// Words that are known, for their score.
class Translator::Given : public Translator::Choice {
 public:
  Given(const SearchOptions& options, const std::vector<std::vector<i64>>& targets) : Choice(options), targets_(targets) {}

  i64 limit(const Job& job) const override { return static_cast<i64>(targets_[job.index].size()) + 2; }
  void see(const Scores& scores) override { log_p_ = scores.log_probabilities().to(Device::cpu); }

  void extend(Job& job, i64 row) override {
    const std::vector<i64>& target = targets_[job.index];
    const std::size_t at = static_cast<std::size_t>(job.length++);
    const i64 word = at < target.size() ? target[at] : Vocabulary::end;
    const Hypothesis hypothesis = job.extended(0, word, job.alive[0].log_probability + log_p_.at({row, word}));
    job.alive.clear();
    if (at == target.size())
      job.end(hypothesis, options_);
    else
      job.alive.push_back(hypothesis);
  }

 private:
  const std::vector<std::vector<i64>>& targets_;
  Tensor log_p_;
};

// ---- Translator -----------------------------------------------------------------------------------------------------

Translator::Translator(const Run& run, const SearchOptions& options) : Translator(std::vector<const Run*>{&run}, options) {}

Translator::Translator(const std::vector<const Run*>& runs, const SearchOptions& options) : runs_(runs), options_(options) {
  check_search(options);
  if (runs.empty()) throw_error("[translate] there is no model");
  for (std::size_t i = 1; i < runs.size(); ++i)
    for (const bool source : {true, false})
      if (!(source ? runs[i]->source == runs[0]->source : runs[i]->target == runs[0]->target))
        throw_error(
            "[translate] models 1 and {} know different {} words: models that translate together need the same vocabularies",
            i + 1, source ? "source" : "target");
  models_.reserve(runs.size());
  for (const Run* run : runs) models_.emplace_back(*run);
}

// What is best for a sentence depends on its length alone, so that no other sentence changes its bits.
void Translator::run(const std::vector<std::vector<i64>>& sources, const std::vector<std::size_t>& order, Choice& choice,
                     std::vector<std::vector<Translation>>& results) {
  std::vector<std::size_t> parted = order;
  const auto longer = std::stable_partition(parted.begin(), parted.end(), [&](std::size_t i) {
    const i64 length = static_cast<i64>(sources[i].size());
    return std::none_of(models_.begin(), models_.end(),
                        [&](const Inference& model) { return model.shares_pay(length, choice.hypotheses()); });
  });
  run_alike(sources, {parted.begin(), longer}, false, choice, results);
  run_alike(sources, {longer, parted.end()}, true, choice, results);
}

void Translator::run_alike(const std::vector<std::vector<i64>>& sources, std::span<const std::size_t> order, bool shares,
                           Choice& choice, std::vector<std::vector<Translation>>& results) {
  constexpr i64 most_bytes = i64{96} << 20;  // of all positions, unless a single sentence has more
  i64 position_bytes = 0;
  for (const Inference& model : models_) position_bytes += model.position_bytes(shares);
  std::vector<Job> jobs;
  std::vector<i64> from, words;  // of each row: where its state is (Inference::arrange), its last word
  std::vector<Segment> segments;
  // Sentences group..encoded in `order` were encoded together; those before `started` are jobs or were.
  std::size_t group = 0, started = 0, encoded = 0;
  std::vector<Segment> group_segments;
  for (const std::size_t most = static_cast<std::size_t>(options_.batch);;) {
    std::vector<std::vector<i64>> part;
    if (started == encoded && jobs.size() < most) {
      i64 positions = 0;
      for (const Job& job : jobs) positions += job.segment.length;
      for (group = encoded; encoded < order.size() && part.size() < most; ++encoded) {
        const std::vector<i64>& source = sources[order[encoded]];
        positions += static_cast<i64>(source.size());
        if (positions * position_bytes > most_bytes && !(jobs.empty() && part.empty())) break;
        part.push_back(source);
      }
    }
    if (!part.empty()) {
      i64 first = 0;
      const auto take = [&](i64 length) {
        const Segment segment{first, length};
        first += length;
        return segment;
      };
      segments.clear();
      for (Job& job : jobs) {
        segments.push_back(job.segment);
        job.segment = take(job.segment.length);
      }
      group_segments.clear();
      for (const std::vector<i64>& source : part) {
        group_segments.push_back(take(static_cast<i64>(source.size())));
        work_.source_tokens += group_segments.back().length;
        work_.shared_tokens += shares * group_segments.back().length;
      }
      for (Inference& model : models_) model.encode(segments, part, shares);
      work_.sentences += static_cast<i64>(part.size());
    }
    for (; jobs.size() < most && started < encoded; ++started) {
      Job& job = jobs.emplace_back();
      job.index = order[started];
      job.number = numbered_ + job.index;
      job.segment = group_segments[started - group];
      job.limit = choice.limit(job);
      job.width = options_.beam;
      for (i64 number = 0; number < choice.first_hypotheses(); ++number) {
        job.alive.push_back({-1, 0, 0, number});
        from.push_back(-1 - static_cast<i64>(started - group));
      }
    }
    if (jobs.empty()) return;
    words.clear();
    segments.clear();
    for (const Job& job : jobs)
      for (const Hypothesis& one : job.alive) {
        words.push_back(job.word(one));
        segments.push_back(job.segment);
        work_.looks += job.segment.length;
        work_.shared_looks += shares * job.segment.length;
      }
    ++work_.steps;
    work_.extended += static_cast<i64>(words.size());
    work_.shared_extended += shares * static_cast<i64>(words.size());
    std::vector<Tensor> logits;
    std::vector<Tensor> weights;
    for (Inference& model : models_) {
      model.arrange(from);
      const Inference::Step step = model.step(words, segments);
      logits.push_back(step.logits);
      if (step.weights.defined() && options_.weights) weights.push_back(step.weights.to(Device::cpu).to(DType::f32));
    }
    choice.see(Scores(std::move(logits)));

    from.clear();
    i64 row = 0;
    for (Job& job : jobs) {
      const i64 rows = static_cast<i64>(job.alive.size());
      if (!weights.empty()) {
        job.first_look = static_cast<i64>(job.looks.size());
        for (i64 r = row; r < row + rows; ++r)
          for (i64 s = 0; s < job.segment.length; ++s) {
            float sum = 0;
            for (const Tensor& one : weights) sum += one.data<float>()[r * one.size(1) + s];
            job.looks.push_back(sum / static_cast<float>(weights.size()));
          }
      }
      choice.extend(job, row);
      for (const Hypothesis& one : job.alive) from.push_back(row + one.parent);
      row += rows;
      if (job.alive.empty()) results[job.index] = std::move(job.ended);
    }
    std::erase_if(jobs, [](const Job& job) { return job.alive.empty(); });
  }
}

std::vector<std::vector<Translation>> Translator::find(const std::vector<std::vector<i64>>& sources,
                                                       const std::vector<std::size_t>& order) {
  std::vector<std::vector<Translation>> results(sources.size());
  const i64 vocabulary = models_[0].vocabulary();
  if (options_.temperature > 0) {
    Drawn choice(options_, vocabulary);
    run(sources, order, choice, results);
  } else {
    Best choice(options_, vocabulary);
    run(sources, order, choice, results);
  }
  numbered_ += sources.size();
  return results;
}

std::vector<std::vector<Translation>> Translator::search(const std::vector<std::vector<i64>>& sources) {
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].empty()) throw_error("source row {} has length 0: it must be at least 1", i);
  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  return find(sources, order);
}

// Ids ending in </s>; none for an empty sentence.
std::vector<std::vector<i64>> Translator::encoded(const std::vector<std::vector<std::string>>& sentences) const {
  std::vector<std::vector<i64>> sources;
  for (const auto& sentence : sentences) {
    sources.push_back(runs_[0]->source.encode(sentence));
    if (!sentence.empty()) sources.back().push_back(Vocabulary::end);
  }
  return sources;
}

namespace {

// The sentences that are not empty, the longest first.
std::vector<std::size_t> longest_first(const std::vector<std::vector<i64>>& sources) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (!sources[i].empty()) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sources[a].size() > sources[b].size(); });
  return order;
}

}  // namespace

std::vector<std::vector<Translation>> Translator::nbest(const std::vector<std::vector<std::string>>& sentences) {
  const std::vector<std::vector<i64>> sources = encoded(sentences);
  std::vector<std::vector<Translation>> results = find(sources, longest_first(sources));
  for (auto& translations : results)
    if (translations.empty()) translations.emplace_back();
  return results;
}

std::vector<Translation> Translator::translate(const std::vector<std::vector<std::string>>& sentences) {
  std::vector<Translation> best;
  for (auto& translations : nbest(sentences)) best.push_back(std::move(translations[0]));
  return best;
}

std::vector<double> Translator::score(const std::vector<std::vector<std::string>>& source_words,
                                      const std::vector<std::vector<std::string>>& target_words) {
  if (source_words.size() != target_words.size())
    throw_error("[score] {} sources and {} targets are no pairs", source_words.size(), target_words.size());
  const std::vector<std::vector<i64>> sources = encoded(source_words);
  std::vector<std::vector<i64>> targets;
  for (const auto& words : target_words) targets.push_back(runs_[0]->target.encode(words));
  std::vector<std::vector<Translation>> results(sources.size());
  Given choice(options_, targets);
  run(sources, longest_first(sources), choice, results);
  std::vector<double> scores;
  for (std::size_t i = 0; i < results.size(); ++i)
    scores.push_back(!results[i].empty()  ? results[i][0].log_probability
                     : targets[i].empty() ? 0
                                          : -std::numeric_limits<double>::infinity());
  return scores;
}

}  // namespace seqgrad::seq2seq
