// Beam search against all there is, sampling, ensembles, and the scores of given translations.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "seq2seq/search.h"
#include "tensor/launch.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Ids = std::vector<i64>;
using Sentences = std::vector<std::vector<std::string>>;

namespace {

const Vocabulary words = Vocabulary::build({{"a", "b"}});

// Random weights, scaled up so that words differ in probability; <pad>, which a loss leaves out, has none.
std::unique_ptr<Run> make_run(i64 seed, const std::string& attention = "sdp", const std::string& precision = "f64",
                              const Vocabulary& target = words, double scale = 3) {
  Settings settings{.attention = attention, .embedding = 6, .hidden = 7, .attention_dim = 4};
  settings.precision = precision;
  settings.seed = seed;
  auto run = std::make_unique<Run>(settings, words, target);
  for (Parameter* parameter : run->block.parameters()) {
    if (!parameter->name.starts_with("decoder.out")) continue;
    launch(kernels::affine, parameter->value, parameter->value, scale, 0.0, parameter->value.numel());
    if (parameter->name == "decoder.out.bias") parameter->value.slice(0, Vocabulary::pad, Vocabulary::pad + 1).fill(-1e9);
  }
  return run;
}

double log_probability(const Run& run, const Ids& source, const Ids& target) {
  return -run.model.negative_log_likelihood(make_batch({{source, target}}, {0}));
}

struct Scored {
  double score;
  Ids ids;
};

// All translations of fewer than `limit` words, by score.
std::vector<Scored> all_translations(const Run& run, const Ids& source, i64 limit, const SearchOptions& options) {
  std::vector<Ids> prefixes{{}};
  std::vector<Scored> all;
  for (i64 length = 0; length < limit; ++length) {
    std::vector<Ids> longer;
    for (const Ids& prefix : prefixes) {
      if (length >= options.min_length)
        all.push_back({log_probability(run, source, prefix) / options.penalty(length + 1), prefix});
      for (i64 word = 0; word < run.target.size(); ++word) {
        if (word == Vocabulary::end || word == Vocabulary::pad) continue;
        longer.push_back(prefix);
        longer.back().push_back(word);
      }
    }
    prefixes = std::move(longer);
  }
  std::sort(all.begin(), all.end(), [](const Scored& a, const Scored& b) { return a.score > b.score; });
  return all;
}

SearchOptions with_limit(i64 limit) {
  SearchOptions options;
  options.length_factor = 0;
  options.length_more = limit;
  return options;
}

const Ids source{4, 5, 4, Vocabulary::end};

}  // namespace

TEST_CASE("a beam as wide as all beginnings finds the best of all translations, in order") {
  for (const i64 seed : {1, 2, 3})
    for (const double length_penalty : {0.0, 0.6, 1.0, 3.0})
      for (const i64 min_length : {0, 2}) {
        CAPTURE(seed);
        CAPTURE(length_penalty);
        CAPTURE(min_length);
        const auto run = make_run(seed);
        SearchOptions options = with_limit(4);
        options.length_penalty = length_penalty;
        options.min_length = min_length;
        options.beam = 1000;
        options.nbest = 30;
        const std::vector<Scored> expected = all_translations(*run, source, 4, options);
        CHECK(expected.size() == (min_length == 0 ? 85 : 80));
        const std::vector<Translation> found = Translator(*run, options).search({source})[0];
        REQUIRE(found.size() == 30);
        for (std::size_t i = 0; i < found.size(); ++i) {
          CHECK(found[i].ids == expected[i].ids);
          CHECK(found[i].score == doctest::Approx(expected[i].score).epsilon(1e-10));
          CHECK_FALSE(found[i].cut_off);
        }
        // The same with an end as early as it may come: for the best alone.
        options.nbest = 1;
        Translator translator(*run, options);
        CHECK(translator.search({source})[0].at(0).ids == expected[0].ids);
      }
}

TEST_CASE("a search ends as soon as nothing better can come, and not before") {
  // "a" with probability 0.6 and </s> with 0.4, always. Of n tokens a translation scores ((n - 1) log 0.6 + log 0.4) /
  // ((5 + n) / 6)^A.
  const auto run = make_run(1);
  for (Parameter* parameter : run->block.parameters()) {
    if (parameter->name == "decoder.out.weight") parameter->value.fill(0);
    if (parameter->name != "decoder.out.bias") continue;
    parameter->value.fill(-1e9);
    parameter->value.slice(0, Vocabulary::end, Vocabulary::end + 1).fill(std::log(0.4));
    parameter->value.slice(0, 4, 5).fill(std::log(0.6));
  }
  const auto steps = [&](double length_penalty, std::size_t best_words) {
    SearchOptions options = with_limit(20);
    options.beam = 30;
    options.length_penalty = length_penalty;
    Translator translator(*run, options);
    const Translation best = translator.search({source})[0].at(0);
    CHECK(best.ids == Ids(best_words, 4));
    CHECK_FALSE(best.cut_off);
    return translator.work().steps;
  };
  // log 0.4 = -0.92 for no word at all. "a" alone has -0.51, so it might still be better, "a a" with -1.02 cannot.
  CHECK(steps(0, 0) == 2);
  // At the limit of 20 tokens the penalty is 2.04: three words, -1.53 / 2.04, might still be better, four cannot.
  CHECK(steps(0.5, 0) == 4);
  // The penalty grows faster than the log-probability falls: the longest is best.
  CHECK(steps(3, 19) == 20);
}

TEST_CASE("an end that is likely at once does not win where longer translations are likelier by the word") {
  // The next word follows from the last one alone, as logits are that one's row of a table: after <s> comes </s> with
  // probability 0.54 and "a" with 0.46, after "a" always "b", after "b" always </s>.
  Settings settings{.attention = "sdp", .embedding = 6, .hidden = 4, .attention_dim = 4};
  settings.precision = "f64";
  Run run(settings, words, words);
  const i64 a = words.id("a"), b = words.id("b");
  for (Parameter* parameter : run.block.parameters()) {
    if (parameter->name == "decoder.embedding.weight") {
      parameter->value.fill(0);
      for (i64 word = 0; word < 6; ++word) parameter->value.select(0, word).slice(0, word, word + 1).fill(1);
    } else if (parameter->name == "decoder.out.bias") {
      parameter->value.fill(0);
    } else if (parameter->name == "decoder.out.weight") {  // (V, D + C + E)
      parameter->value.fill(0);
      const Tensor table = parameter->value.slice(1, parameter->value.size(1) - 6, parameter->value.size(1));
      table.fill(-1e9);
      const auto follows = [&](i64 word, i64 next, double p) {
        table.select(0, next).slice(0, word, word + 1).fill(std::log(p));
      };
      follows(Vocabulary::start, Vocabulary::end, 0.54);
      follows(Vocabulary::start, a, 0.46);
      follows(a, b, 1);
      follows(b, Vocabulary::end, 1);
    }
  }
  const auto best = [&](i64 beam, double length_penalty) {
    SearchOptions options;
    options.beam = beam;
    options.length_penalty = length_penalty;
    return Translator(run, options).search({source})[0].at(0);
  };
  // log 0.54 = -0.616 for the empty translation, whose penalty is 1; log 0.46 = -0.777 for "a b", whose penalty is 8 / 6.
  const Translation longer = best(2, 1);
  CHECK(longer.ids == Ids{a, b});
  CHECK(longer.log_probability == doctest::Approx(std::log(0.46)));
  CHECK(longer.score == doctest::Approx(std::log(0.46) * 6 / 8));
  CHECK(best(5, 1).ids == Ids{a, b});
  CHECK(best(2, 0).ids.empty());
  CHECK(best(1, 1).ids.empty());
}

TEST_CASE("each word of a beam of one is the likeliest") {
  for (const char* attention : {"none", "bahdanau"}) {
    const auto run = make_run(5, attention, "f32");
    const Translation best = Translator(*run, with_limit(12)).search({source})[0].at(0);
    Ids target = best.ids;
    NoGrad values_only;
    Tape tape;
    nn::Mode mode = nn::Mode::evaluation();
    const Encoded encoded = run->model.encode(tape, Source::from(make_batch({{source, {}}}, {0})), mode);
    Ids input{Vocabulary::start};
    input.insert(input.end(), target.begin(), target.end());
    const i64 steps = static_cast<i64>(input.size());
    const Tensor logits =
        run->model.decoder.logits(run->model.decoder(tape, encoded, Tensor::from<i64>(input, {1, steps}), mode).features)
            .value();
    if (!best.cut_off) target.push_back(Vocabulary::end);
    for (std::size_t t = 0; t < target.size(); ++t) {
      const std::vector<float> row = logits.select(0, 0).select(0, static_cast<i64>(t)).to_vector<float>();
      CHECK(target[t] == std::max_element(row.begin(), row.end()) - row.begin());
    }
  }
}

TEST_CASE("n best translations: different, sorted, scored, and the same bits in any batch") {
  const Sentences sentences{{"a", "b", "c"}, {"b"}, {}, {"b", "a", "a", "b", "b"}, {"a"}, {"a", "a"}};
  for (const char* precision : {"f32", "f64"}) {
    const auto run = make_run(7, "bahdanau", precision);
    SearchOptions options;
    options.beam = 4;
    options.nbest = 3;
    options.length_penalty = 1;
    options.batch = 1;
    const auto alone = Translator(*run, options).nbest(sentences);
    for (const i64 batch : {2, 5, 64}) {
      options.batch = batch;
      const auto together = Translator(*run, options).nbest(sentences);
      for (std::size_t i = 0; i < sentences.size(); ++i) {
        REQUIRE(together[i].size() == alone[i].size());
        for (std::size_t n = 0; n < alone[i].size(); ++n) {
          CHECK(together[i][n].ids == alone[i][n].ids);
          CHECK(together[i][n].score == alone[i][n].score);
          CHECK(together[i][n].log_probability == alone[i][n].log_probability);
          CHECK(together[i][n].weights == alone[i][n].weights);
        }
      }
    }
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      REQUIRE(alone[i].size() == (sentences[i].empty() ? 1 : 3));
      std::set<Ids> different;
      for (std::size_t n = 0; n < alone[i].size(); ++n) {
        const Translation& one = alone[i][n];
        different.insert(one.ids);
        if (sentences[i].empty()) continue;
        const i64 tokens = static_cast<i64>(one.ids.size()) + !one.cut_off;
        CHECK(one.score == doctest::Approx(one.log_probability / ((5.0 + static_cast<double>(tokens)) / 6)));
        CHECK(one.weights.size() == static_cast<std::size_t>(tokens));
        if (n > 0 && one.cut_off == alone[i][n - 1].cut_off) CHECK(one.score <= alone[i][n - 1].score);
        if (n > 0) CHECK(one.cut_off >= alone[i][n - 1].cut_off);
        if (one.cut_off || precision == std::string("f32")) continue;
        Ids ids = words.encode(sentences[i]);
        ids.push_back(Vocabulary::end);
        CHECK(one.log_probability == doctest::Approx(log_probability(*run, ids, one.ids)).epsilon(1e-12));
      }
      CHECK(different.size() == alone[i].size());
    }
  }
}

TEST_CASE("translations are at least so long and at most so long") {
  const auto run = make_run(2);
  for (const i64 beam : {1, 3})
    for (const double temperature : {0.0, 1.0}) {
      if (beam > 1 && temperature > 0) continue;
      SearchOptions options = with_limit(6);
      options.min_length = 4;
      options.beam = beam;
      options.temperature = temperature;
      options.top_k = temperature > 0 ? 1 : 0;
      const Translation found = Translator(*run, options).search({source})[0].at(0);
      CHECK(found.ids.size() >= 4);
      CHECK(found.ids.size() <= 6);
      CHECK(found.cut_off == (found.ids.size() == 6));
      options.min_length = 6;
      CHECK(Translator(*run, options).search({source})[0].at(0).cut_off);
    }
}

TEST_CASE("samples have the model's frequencies, sharpened by the temperature") {
  const auto run = make_run(3);
  // One step: the first word, of the six.
  const Sentences sentences(4000, {"a", "b"});
  const auto frequencies = [&](double temperature, i64 top_k) {
    SearchOptions options = with_limit(1);
    options.temperature = temperature;
    options.top_k = top_k;
    options.weights = false;
    std::vector<double> share(6);
    for (const Translation& one : Translator(*run, options).translate(sentences))
      share[static_cast<std::size_t>(one.cut_off ? one.ids.at(0) : Vocabulary::end)] += 1.0 / 4000;
    return share;
  };
  std::vector<double> p;
  {
    Inference inference(*run);
    inference.encode({}, std::vector<Ids>{{4, 5, 3}}, false);
    inference.arrange(Ids{-1});
    const Tensor logits = inference.step({Vocabulary::start}, std::vector<Segment>{{0, 3}}).logits;
    double total = 0;
    for (const double logit : logits.to_vector<double>()) p.push_back(std::exp(logit));
    for (const double x : p) total += x;
    for (double& x : p) x /= total;
  }
  for (const double temperature : {1.0, 0.5})
    for (const i64 top_k : {0, 2, 100}) {
      CAPTURE(temperature);
      CAPTURE(top_k);
      std::vector<double> sorted = p;
      std::sort(sorted.rbegin(), sorted.rend());
      const double least = top_k == 2 ? sorted[1] : 0;
      std::vector<double> expected;
      double total = 0;
      for (const double x : p) {
        expected.push_back(x >= least ? std::pow(x, 1 / temperature) : 0);
        total += expected.back();
      }
      const std::vector<double> share = frequencies(temperature, top_k);
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double q = expected[i] / total;
        CHECK(std::fabs(share[i] - q) <= 4 * std::sqrt(q * (1 - q) / 4000));  // four standard deviations; 0 of 0
      }
    }
}

TEST_CASE("a sample follows from the seed and the sentence's number alone") {
  const auto run = make_run(3, "sdp", "f32");
  const Sentences sentences{{"a", "b"}, {}, {"b"}, {"a", "b"}, {"b", "b", "a"}};
  SearchOptions options;
  options.temperature = 1;
  options.nbest = 3;
  const auto ids = [](const std::vector<std::vector<Translation>>& all) {
    std::vector<Ids> result;
    for (const auto& translations : all)
      for (const Translation& one : translations) result.push_back(one.ids);
    return result;
  };
  options.batch = 1;
  const auto alone = ids(Translator(*run, options).nbest(sentences));
  CHECK(alone.size() == 13);
  options.batch = 4;
  CHECK(ids(Translator(*run, options).nbest(sentences)) == alone);
  // In two calls, as lines that come one after another.
  Translator translator(*run, options);
  std::vector<Ids> parts = ids(translator.nbest({sentences[0], sentences[1]}));
  for (const Ids& one : ids(translator.nbest({sentences[2], sentences[3], sentences[4]}))) parts.push_back(one);
  CHECK(parts == alone);
  options.seed = 2;
  CHECK(ids(Translator(*run, options).nbest(sentences)) != alone);
  // The same sentence in another line is another sample.
  CHECK(std::vector<Ids>(alone.begin(), alone.begin() + 3) != std::vector<Ids>(alone.begin() + 7, alone.begin() + 10));
}

TEST_CASE("the score of a sample is the model's own, whatever the temperature") {
  const auto run = make_run(4);
  SearchOptions options;
  options.temperature = 2;
  const std::vector<Ids> sources{source, {5, 3}, {4, 3}};
  const auto found = Translator(*run, options).search(sources);
  int ended = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Translation& one = found[i].at(0);
    if (one.cut_off) continue;
    ++ended;
    CHECK(one.log_probability == doctest::Approx(log_probability(*run, sources[i], one.ids)).epsilon(1e-12));
  }
  CHECK(ended > 0);
}

TEST_CASE("several models: the mean of their log-probabilities, and of their looks") {
  const auto first = make_run(1), second = make_run(2, "bahdanau"), third = make_run(3, "none");
  SearchOptions options;
  options.beam = 3;
  const Sentences sentences{{"a", "b", "b"}, {"b"}};
  const std::vector<Translation> alone = Translator(*first, options).translate(sentences);
  const std::vector<Translation> twice = Translator({first.get(), first.get()}, options).translate(sentences);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CHECK(twice[i].ids == alone[i].ids);
    CHECK(twice[i].log_probability == doctest::Approx(alone[i].log_probability).epsilon(1e-12));
    CHECK(twice[i].weights == alone[i].weights);
  }
  const std::vector<Translation> together = Translator({first.get(), second.get(), third.get()}, options).translate(sentences);
  for (std::size_t i = 0; i < together.size(); ++i) {
    if (together[i].cut_off) continue;
    Ids ids = words.encode(sentences[i]);
    ids.push_back(Vocabulary::end);
    double sum = 0;
    for (const Run* run : {first.get(), second.get(), third.get()}) sum += log_probability(*run, ids, together[i].ids);
    CHECK(together[i].log_probability == doctest::Approx(sum / 3).epsilon(1e-12));
    for (const auto& row : together[i].weights) {
      double total = 0;
      for (const float weight : row) total += weight;
      CHECK(total == doctest::Approx(1).epsilon(1e-6));
    }
  }
  // Single and double precision side by side.
  const auto rough = make_run(1, "sdp", "f32");
  const auto mixed = Translator({first.get(), rough.get()}, options).translate(sentences);
  for (std::size_t i = 0; i < alone.size(); ++i)
    CHECK(mixed[i].log_probability == doctest::Approx(alone[i].log_probability).epsilon(1e-4));

  const auto other = make_run(1, "sdp", "f64", Vocabulary::build({{"a", "c"}}));
  CHECK(message_of([&] {
          Translator({first.get(), second.get(), other.get()}, options);
        }) ==
        "[translate] models 1 and 3 know different target words: models that translate together need the same vocabularies");
}

TEST_CASE("scores of given translations") {
  const auto run = make_run(6, "luong_general");
  SearchOptions options;
  options.batch = 2;
  const Sentences sources{{"a"}, {}, {"b", "a"}, {"a", "b", "c"}, {}, {"b"}},
      targets{{"b", "b"}, {}, {}, {"x", "a"}, {"a"}, {"a"}};
  const std::vector<double> scores = Translator(*run, options).score(sources, targets);
  REQUIRE(scores.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    if (sources[i].empty()) continue;
    Ids ids = words.encode(sources[i]);
    ids.push_back(Vocabulary::end);
    CHECK(scores[i] == doctest::Approx(log_probability(*run, ids, words.encode(targets[i]))).epsilon(1e-12));
  }
  CHECK(scores[1] == 0);
  CHECK(scores[4] == -std::numeric_limits<double>::infinity());
  // What a search finds scores what the search says, to the bit.
  const auto found = Translator(*run, options).translate({{"b", "a"}});
  if (!found[0].cut_off && found[0].ids == words.encode(words.decode(found[0].ids)))
    CHECK(Translator(*run, options).score({{"b", "a"}}, {words.decode(found[0].ids)})[0] == found[0].log_probability);
  CHECK(message_of([&] { Translator(*run, options).score({{"a"}}, {}); }) == "[score] 1 sources and 0 targets are no pairs");
}

TEST_CASE("options outside their domain") {
  const auto complaint = [](auto&& change) {
    SearchOptions options;
    change(options);
    return message_of([&] { check_search(options); });
  };
  CHECK(complaint([](SearchOptions&) {}) == "");
  CHECK(complaint([](SearchOptions& o) { o.batch = 0; }) == "batch is 0: it must be at least 1");
  CHECK(complaint([](SearchOptions& o) { o.beam = -2; }) == "beam is -2: it must be at least 1");
  CHECK(complaint([](SearchOptions& o) { o.nbest = 0; }) == "nbest is 0: it must be at least 1");
  CHECK(complaint([](SearchOptions& o) { o.nbest = 2; }) == "nbest is 2: it must be at most the beam, 1");
  CHECK(complaint([](SearchOptions& o) { o.min_length = -1; }) == "min-length is -1: it must be at least 0");
  CHECK(complaint([](SearchOptions& o) { o.top_k = -1; }) == "top-k is -1: it must be at least 0");
  CHECK(complaint([](SearchOptions& o) { o.length_penalty = -0.5; }) == "length-penalty is -0.5: it must be at least 0");
  CHECK(complaint([](SearchOptions& o) { o.temperature = NAN; }) ==
        "sample is nan: it must be a temperature of at least 1e-30, or 0");
  CHECK(complaint([](SearchOptions& o) { o.temperature = 1e-39; }) ==
        "sample is 1e-39: it must be a temperature of at least 1e-30, or 0");
  CHECK(complaint([](SearchOptions& o) {
          o.temperature = 1;
          o.beam = 2;
        }) == "sample and a beam of 2 exclude each other");
}
