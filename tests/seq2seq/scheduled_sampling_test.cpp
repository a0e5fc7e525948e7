// Scheduled sampling: whose words the decoder is fed, how often, and that nothing else changes.
#include <doctest/doctest.h>

#include <cmath>

#include "seq2seq/random.h"
#include "seq2seq/train.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Values = std::vector<double>;

namespace {

constexpr i64 words = 12, width = 6;

struct Fixture {
  explicit Fixture(const std::string& attention, double dropout = 0, const std::string& cell = "gru")
      : settings{.attention = attention, .cell = cell, .embedding = width, .hidden = 5, .attention_dim = 3, .dropout = dropout},
        model(settings, words, words),
        generator(2),
        block(model, DType::f64, generator) {}

  Settings settings;
  Seq2Seq model;
  Generator generator;
  nn::ParameterBlock block;
};

Batch random_batch(i64 rows, i64 longest, u64 seed) {
  SplitMix64 random(seed);
  std::vector<EncodedPair> pairs;
  std::vector<std::size_t> all;
  const auto word = [&] { return Vocabulary::specials + static_cast<i64>(random.below(words - Vocabulary::specials)); };
  for (i64 b = 0; b < rows; ++b) {
    EncodedPair pair;
    for (u64 n = 1 + random.below(4); pair.source.size() < n;) pair.source.push_back(word());
    pair.source.push_back(Vocabulary::end);
    for (u64 n = random.below(static_cast<u64>(longest)); pair.target.size() < n;) pair.target.push_back(word());
    all.push_back(pairs.size());
    pairs.push_back(pair);
  }
  return make_batch(pairs, all);
}

Tensor target_of(const Batch& batch) { return Tensor::from<i64>(batch.target_in, {batch.size, batch.target_length}); }

struct Decoded {
  std::vector<std::vector<i64>> fed, best;  // [b][t]
  Values logits;
};

// What the decoder was fed stands at the end of its deep features, without dropout; what it found best follows from them.
Decoded decode(const Fixture& f, const Batch& batch, nn::Mode mode, double ratio) {
  Tape tape;
  const Encoded encoded = f.model.encode(tape, Source::from(batch), mode);
  const DecoderOutput out = f.model.decoder(tape, encoded, target_of(batch), mode, ratio);
  CHECK(out.weights.defined() == (f.settings.attention != "none"));
  const Tensor features = out.features.value(), logits = f.model.decoder.logits(out.features).value();
  const Parameter* table = nullptr;
  for (const Parameter* parameter : f.block.parameters())
    if (parameter->name == "decoder.embedding.weight") table = parameter;
  REQUIRE(table);
  Decoded result;
  result.logits = logits.to_vector<double>();
  for (i64 b = 0; b < batch.size; ++b) {
    result.fed.emplace_back();
    result.best.emplace_back();
    for (i64 t = 0; t < batch.target_length; ++t) {
      const Values row = features.select(0, b).select(0, t).to_vector<double>();
      const Values embedding(row.end() - width, row.end());
      i64 word = 0;
      while (word < words && table->value.select(0, word).to_vector<double>() != embedding) ++word;
      REQUIRE(word < words);
      result.fed.back().push_back(word);
      i64 best = 0;
      for (i64 v = 1; v < words; ++v)
        if (logits.at({b, t, v}) > logits.at({b, t, best})) best = v;
      result.best.back().push_back(best);
    }
  }
  return result;
}

struct Counts {
  i64 own = 0, all = 0;  // of the words after the first that are not padding
};

// Each fed word is the reference's or the decoder's own.
Counts check_fed(const Decoded& decoded, const Batch& batch) {
  Counts counts;
  const Tensor target = target_of(batch);
  for (i64 b = 0; b < batch.size; ++b)
    for (i64 t = 0; t < batch.target_length; ++t) {
      const auto& fed = decoded.fed[static_cast<std::size_t>(b)];
      const i64 word = fed[static_cast<std::size_t>(t)], reference = target.select(0, b).data<i64>()[t];
      if (t == 0 || reference == Vocabulary::pad) {
        CHECK(word == reference);
        continue;
      }
      const i64 own = decoded.best[static_cast<std::size_t>(b)][static_cast<std::size_t>(t - 1)];
      CHECK((word == reference || word == own));
      if (own == reference) continue;
      ++counts.all;
      counts.own += word == own;
    }
  return counts;
}

const char* const attentions[] = {"none", "mean", "sdp", "bahdanau", "luong_general"};

Values gradient_of(Fixture& f, const Batch& batch, nn::Mode mode, double ratio, double* loss) {
  f.block.zero_grad();
  Tape tape;
  const Var value = ratio < 0 ? f.model.loss(tape, batch, mode, 0.1) : f.model.loss(tape, batch, mode, 0.1, ratio);
  tape.backward(value);
  *loss = value.value().item();
  return f.block.gradients().to_vector<double>();
}

}  // namespace

TEST_CASE("ratio 1 is teacher forcing, bit for bit, and draws nothing") {
  const Batch batch = random_batch(5, 6, 1);
  for (const char* attention : attentions) {
    Fixture f(attention, 0.4);
    double plain = 0, forced = 0;
    CHECK(gradient_of(f, batch, nn::Mode::training_step(3, 4), -1, &plain) ==
          gradient_of(f, batch, nn::Mode::training_step(3, 4), 1, &forced));
    CHECK(plain == forced);
  }
}

TEST_CASE("ratio 0 feeds only the decoder's own words, whatever the reference says") {
  for (const char* attention : attentions)
    for (const char* cell : {"gru", "lstm", "rnn"}) {
      Fixture f(attention, 0, cell);
      Batch batch = random_batch(6, 8, 2);
      const nn::Mode mode = nn::Mode::training_step(1, 1);
      const Decoded decoded = decode(f, batch, mode, 0);
      const Counts counts = check_fed(decoded, batch);
      CHECK(counts.all > 10);
      CHECK(counts.own == counts.all);
      for (std::size_t i = 0; i < batch.target_in.size(); ++i)
        if (i % static_cast<std::size_t>(batch.target_length) != 0 && batch.target_in[i] != Vocabulary::pad)
          batch.target_in[i] = Vocabulary::specials + static_cast<i64>(i % 5);
      CHECK(decode(f, batch, mode, 0).logits == decoded.logits);
    }
}

TEST_CASE("own words are fed to what the search does with them") {
  for (const char* cell : {"gru", "lstm", "rnn"}) {
    Fixture f("sdp", 0, cell);
    const Batch batch = random_batch(4, 7, 3);
    const Decoded decoded = decode(f, batch, nn::Mode::training_step(1, 1), 0);
    Tape tape;
    nn::Mode evaluation = nn::Mode::evaluation();
    const Encoded encoded = f.model.encode(tape, Source::from(batch), evaluation);
    nn::RecurrentState state = encoded.state;
    for (i64 t = 0; t < batch.target_length; ++t) {
      std::vector<i64> fed;
      for (const auto& row : decoded.fed) fed.push_back(row[static_cast<std::size_t>(t)]);
      const DecoderStep step = f.model.decoder.step(encoded, Tensor::from<i64>(fed, {batch.size}), state);
      state = step.state;
      for (i64 b = 0; b < batch.size; ++b)
        for (i64 v = 0; v < words; ++v) {
          const auto at = static_cast<std::size_t>((b * batch.target_length + t) * words + v);
          CHECK(std::fabs(step.logits.value().at({b, v}) - decoded.logits[at]) <= 1e-12);
        }
    }
  }
}

TEST_CASE("in between, each word is drawn by itself with the asked probability") {
  Fixture f("sdp");
  const Batch batch = random_batch(150, 12, 4);
  double before = 0;
  for (const double ratio : {0.9, 0.5, 0.2}) {
    const Counts counts = check_fed(decode(f, batch, nn::Mode::training_step(1, 7), ratio), batch);
    const double n = static_cast<double>(counts.all), own = static_cast<double>(counts.own) / n;
    CHECK(n > 400);
    CHECK(std::fabs(own - (1 - ratio)) < 4 * std::sqrt(ratio * (1 - ratio) / n));
    CHECK(own > before);
    before = own;
  }
}

TEST_CASE("the draws are a pure function of seed and step") {
  const Batch batch = random_batch(20, 8, 5);
  for (const double dropout : {0.0, 0.4}) {
    Fixture f("bahdanau", dropout);
    const auto results = [&](u64 seed, u64 step) {
      double loss = 0;
      Values all = gradient_of(f, batch, nn::Mode::training_step(seed, step), 0.5, &loss);
      all.push_back(loss);
      return all;
    };
    const Values once = results(1, 2);
    CHECK(once == results(1, 2));
    CHECK(once != results(1, 3));
    CHECK(once != results(2, 2));
  }
}

TEST_CASE("evaluation uses neither scheduled sampling nor label smoothing") {
  const Batch batch = random_batch(6, 6, 6);
  Fixture f("sdp", 0.4);
  CHECK(decode(f, batch, nn::Mode::evaluation(), 0).logits == decode(f, batch, nn::Mode::evaluation(), 1).logits);

  const Vocabulary vocabulary = Vocabulary::build({{"a", "b", "c", "d"}});
  const std::vector<EncodedPair> pairs{{{4, 5, 3}, {6, 7, 4}}, {{7, 3}, {4, 4, 4, 5}}};
  const auto run = [&](double ratio, double smoothing) {
    Settings settings = f.settings;
    settings.teacher_forcing = ratio;
    settings.label_smoothing = smoothing;
    return std::make_unique<Run>(settings, vocabulary, vocabulary);
  };
  const auto plain = run(1, 0), other = run(0, 0.3);
  CHECK(perplexity(*plain, pairs, 2).value() == perplexity(*other, pairs, 2).value());
  // Training does use them.
  const auto loss = [&](Run& one) {
    nn::Adam adam(one.block);
    Tape tape;
    return train_step(one, adam, tape, make_batch(pairs, {0, 1}), 0).loss;
  };
  const double forced = loss(*plain), smoothed = loss(*run(1, 0.3)), sampled = loss(*run(0, 0));
  CHECK(forced != smoothed);
  CHECK(forced != sampled);
}

TEST_CASE("a ratio outside 0..1 is refused") {
  for (const double ratio : {-0.1, 1.5}) {
    Settings settings;
    settings.teacher_forcing = ratio;
    CHECK_THROWS_WITH_AS(check_settings(settings),
                         fmt::format("teacher-forcing is {}: it must be at least 0 and at most 1", ratio).c_str(), Error);
  }
}
