// Settings: to a file and back, and every way to be wrong.
#include "seq2seq/settings.h"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <type_traits>

#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

// Every setting by name and value.
std::vector<std::string> listed(const Settings& settings) {
  std::vector<std::string> all;
  for_each_setting(settings, [&](const char* name, const auto& value, const char*, const char*) {
    all.push_back(fmt::format("{}={}", name, value));
  });
  return all;
}

// Another value than the default for every setting.
Settings all_changed() {
  Settings settings;
  for_each_setting(settings, [&, number = 3](const char*, auto& value, const char*, std::string_view allowed) mutable {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, bool>)
      value = !value;
    else if constexpr (std::is_same_v<T, i64>)
      value = number++;
    else if constexpr (std::is_same_v<T, double>)
      value = 1.0 / ++number;
    else
      value = allowed.empty() ? fmt::format("folder/{}", ++number)
              : allowed.substr(0, allowed.find('|')) == value && allowed.find('|') != allowed.npos
                  ? std::string(allowed.substr(allowed.rfind('|') + 1))
                  : std::string(allowed.substr(0, allowed.find('|')));
  });
  settings.bridge = "tanh-linear";  // the other needs equal widths
  settings.cell = "gru";            // the others have no reset gate
  settings.tokenizer = "spm";       // the others take no models of it,
  settings.spm_target_model = "";   // nor does a shared vocabulary take two
  return settings;
}

}  // namespace

TEST_CASE("what is written is what is read") {
  TemporaryFolder folder;
  std::vector<Settings> all(4);
  all[1] = all_changed();
  all[2].learning_rate = 1e-10;
  all[2].clip = 1e300;
  all[2].dropout = 0.1 + 0.2;
  all[2].label_smoothing = 5e-324;
  all[2].seed = std::numeric_limits<i64>::max();
  all[3].learning_rate = 100000000;
  all[3].clip = std::numeric_limits<double>::infinity();
  all[3].bridge = "none";
  all[3].decoder_hidden = 1024;
  all[3].cell = "lstm";
  for (const Settings& settings : all) {
    const std::string path = folder.file("config.toml", to_toml(settings));
    CHECK(listed(settings_from_toml(path)) == listed(settings));
    CHECK(to_toml(settings_from_toml(path)) == to_toml(settings));
  }
  CHECK(listed(all_changed()) != listed(Settings()));
}

TEST_CASE("file names of any text survive") {
  TemporaryFolder folder;
  for (const std::string& name :
       {std::string("a \"quoted\" name"), std::string("C:\\new\\table"), std::string("line\nbreak\r\tand tab"),
        std::string("über/straße.de"), std::string("\x01\x1f\x7f"), std::string("ends in \\"), std::string("'#=[]{}")}) {
    Settings settings;
    settings.train_source = name;
    const std::string text = to_toml(settings);
    CHECK(settings_from_toml(folder.file("config.toml", text)).train_source == name);
  }
}

TEST_CASE("a file overlays what it names and leaves the rest") {
  TemporaryFolder folder;
  Settings settings = all_changed();
  apply_toml(settings,
             folder.file("part.toml", "# a comment\nlearning-rate = 1\nprecision = \"f32\"\n\nbidirectional = true\n"));
  Settings expected = all_changed();
  expected.learning_rate = 1;
  expected.precision = "f32";
  expected.bidirectional = true;
  CHECK(listed(settings) == listed(expected));
  apply_toml(settings, folder.file("empty.toml", ""));
  CHECK(listed(settings) == listed(expected));
}

TEST_CASE("every setting outside its domain is refused by name, with what is allowed") {
  struct Wrong {
    std::function<void(Settings&)> change;
    const char* message;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Wrong> all{
      {[](Settings& s) { s.embedding = 0; }, "embedding is 0: it must be at least 1"},
      {[](Settings& s) { s.hidden = -3; }, "hidden is -3: it must be at least 1"},
      {[](Settings& s) { s.decoder_hidden = -1; }, "decoder-hidden is -1: it must be at least 0"},
      {[](Settings& s) { s.attention_dim = -1; }, "attention-dim is -1: it must be at least 0"},
      {[](Settings& s) { s.layers = 0; }, "layers is 0: it must be at least 1"},
      {[](Settings& s) { s.hidden = 1 << 21; }, "hidden is 2097152: it must be at most 1048576"},
      {[](Settings& s) { s.embedding = std::numeric_limits<i64>::max(); },
       "embedding is 9223372036854775807: it must be at most 1048576"},
      {[](Settings& s) { s.layers = 1001; }, "layers is 1001: it must be at most 1000"},
      {[](Settings& s) { s.checkpoint_every = -1; }, "checkpoint-every is -1: it must be at least 0"},
      {[](Settings& s) { s.checkpoint_seconds = -1; }, "checkpoint-seconds is -1: it must be at least 0"},
      {[](Settings& s) { s.min_frequency = 0; }, "min-frequency is 0: it must be at least 1"},
      {[](Settings& s) { s.max_length = -1; }, "max-length is -1: it must be at least 0"},
      {[](Settings& s) { s.vocabulary_size = -1; }, "vocabulary-size is -1: it must be at least 0"},
      {[](Settings& s) { s.vocabulary_size = 4; },
       "vocabulary-size is 4: it must be 0 or at least 5, for four of it are specials"},
      {[](Settings& s) { s.character_coverage = 0; }, "character-coverage is 0: it must be above 0 and at most 1"},
      {[=](Settings& s) { s.character_coverage = nan; }, "character-coverage is nan: it must be above 0 and at most 1"},
      {[](Settings& s) { s.spm_target_model = "m"; }, "tokenizer is 'whitespace': it must be spm to use a SentencePiece model"},
      {[](Settings& s) { s.tokenizer = "spm", s.shared_vocabulary = true, s.spm_target_model = "m"; },
       "spm-target-model is for a vocabulary of its own: with shared-vocabulary, give spm-source-model alone"},
      {[](Settings& s) { s.tie_embeddings = "decoder"; },
       "tie-embeddings is 'decoder', but the output layer reads 1792 numbers of readout deep and an embedding has 256: take "
       "readout projected"},
      {[](Settings& s) { s.tie_embeddings = "all", s.readout = "projected"; },
       "tie-embeddings is 'all', which needs shared-vocabulary: the source and target words must be the same"},
      {[](Settings& s) { s.batch = 0; }, "batch is 0: it must be at least 1"},
      {[](Settings& s) { s.epochs = -1; }, "epochs is -1: it must be at least 0"},
      {[](Settings& s) { s.patience = -1; }, "patience is -1: it must be at least 0"},
      {[](Settings& s) { s.threads = -1; }, "threads is -1: it must be at least 0"},
      {[](Settings& s) { s.seed = -1; }, "seed is -1: it must be at least 0"},
      {[](Settings& s) { s.clip = -0.5; }, "clip is -0.5: it must be at least 0"},
      {[=](Settings& s) { s.clip = nan; }, "clip is nan: it must be at least 0"},
      {[](Settings& s) { s.learning_rate = 0; }, "learning-rate is 0: it must be a number above 0"},
      {[=](Settings& s) { s.learning_rate = nan; }, "learning-rate is nan: it must be a number above 0"},
      {[](Settings& s) { s.learning_rate = std::numeric_limits<double>::infinity(); },
       "learning-rate is inf: it must be a number above 0"},
      {[](Settings& s) { s.min_learning_rate = 5; }, "min-learning-rate is 5: it must be at most the learning-rate, 0.001"},
      {[](Settings& s) { s.dropout = 1; }, "dropout is 1: it must be at least 0 and below 1"},
      {[](Settings& s) { s.dropout = -0.1; }, "dropout is -0.1: it must be at least 0 and below 1"},
      {[=](Settings& s) { s.dropout = nan; }, "dropout is nan: it must be at least 0 and below 1"},
      {[](Settings& s) { s.batch_tokens = -1; }, "batch-tokens is -1: it must be at least 0"},
      {[](Settings& s) { s.accumulate = 0; }, "accumulate is 0: it must be at least 1"},
      {[](Settings& s) { s.max_steps = -1; }, "max-steps is -1: it must be at least 0"},
      {[=](Settings& s) { s.max_time = nan; }, "max-time is nan: it must be at least 0"},
      {[](Settings& s) { s.warmup = -1; }, "warmup is -1: it must be at least 0"},
      {[](Settings& s) { s.decay = 0; }, "decay is 0: it must be above 0 and at most 1"},
      {[](Settings& s) { s.decay = 1.5; }, "decay is 1.5: it must be above 0 and at most 1"},
      {[](Settings& s) { s.decay_patience = 0; }, "decay-patience is 0: it must be at least 1"},
      {[](Settings& s) { s.min_learning_rate = -1; }, "min-learning-rate is -1: it must be at least 0"},
      {[](Settings& s) { s.beta1 = 1; }, "beta1 is 1: it must be at least 0 and below 1"},
      {[](Settings& s) { s.beta2 = -0.5; }, "beta2 is -0.5: it must be at least 0 and below 1"},
      {[](Settings& s) { s.eps = 0; }, "eps is 0: it must be above 0"},
      {[](Settings& s) { s.weight_decay = -1; }, "weight-decay is -1: it must be at least 0"},
      {[](Settings& s) { s.spm_alpha = 0.1; },
       "spm-alpha is 0.1, but tokenizer is 'whitespace': only spm's pieces can be drawn"},
      {[](Settings& s) { s.spm_alpha = -1; }, "spm-alpha is -1: it must be at least 0"},
      {[](Settings& s) { s.spm_alpha = std::numeric_limits<double>::infinity(); }, "spm-alpha is inf: it must be a number"},
      {[](Settings& s) { s.tokenizer = "spm", s.spm_type = "bpe", s.spm_alpha = 1; },
       "spm-alpha is 1: of spm-type bpe it must be below 1, for it is the probability of leaving out a merge"},
      {[](Settings& s) { s.word_dropout = 1; }, "word-dropout is 1: it must be at least 0 and below 1"},
      {[](Settings& s) { s.output_dropout = 1; }, "output-dropout is 1: it must be at least 0 and below 1"},
      {[](Settings& s) { s.validate_every = -1; }, "validate-every is -1: it must be at least 0"},
      {[](Settings& s) { s.ema = 1; }, "ema is 1: it must be at least 0 and below 1"},
      {[](Settings& s) { s.average = -1; }, "average is -1: it must be at least 0"},
      {[](Settings& s) { s.keep_best = -1; }, "keep-best is -1: it must be at least 0"},
      {[](Settings& s) { s.keep_last = -1; }, "keep-last is -1: it must be at least 0"},
      {[](Settings& s) { s.label_smoothing = 1.5; }, "label-smoothing is 1.5: it must be at least 0 and below 1"},
      {[](Settings& s) { s.bridge = "none"; },
       "bridge is 'none', which copies the encoder's state of width 1024 into the decoder's of width 512: make them equal"},
      {[](Settings& s) { s.cell = "lstm", s.gru_reset = "before"; },
       "gru-reset is 'before', but cell is 'lstm', which has no reset gate: take cell gru, or leave gru-reset out"},
  };
  for (const Wrong& wrong : all) {
    Settings settings;
    wrong.change(settings);
    CHECK(message_of([&] { check_settings(settings); }) == wrong.message);
  }
  check_settings(Settings());
  check_settings(all_changed());

  Settings settings;
  for_each_setting(settings, [&](const char* name, auto& value, const char*, const char* allowed) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) {
      if (!*allowed) return;
      const std::string fallback = value;
      for (const std::string& wrong : {std::string("dot"), std::string(), std::string(allowed) + "|"}) {
        value = wrong;
        CHECK(message_of([&] { check_settings(settings); }) ==
              fmt::format("{} is '{}': it must be one of {}", name, wrong, allowed));
      }
      value = fallback;
    }
  });
}

TEST_CASE("a wrong file is refused by line") {
  TemporaryFolder folder;
  const std::pair<const char*, const char*> all[] = {
      {"hidden = 8\nhiden = 8\n", ":2: unknown setting 'hiden'"},
      {"\n# model\n\"\" = 1\n", ":3: unknown setting ''"},
      {"[model]\nhidden = 8\n", ":1: unknown setting 'model'"},
      {"\"a\\nb\\u001b\" = 1\n", ":1: unknown setting 'a\\x0ab\\x1b'"},
      {"attention = \"a\\nb\"\n",
       ":1: attention is 'a\\x0ab': it must be one of none|mean|sdp|bahdanau|luong_dot|luong_general"},
      {"hidden = \"8\"\n", ":1: hidden needs a whole number"},
      {"seed = 1\nhidden = 8.0\n", ":2: hidden needs a whole number"},
      {"hidden = 1e23\n", ":1: hidden needs a whole number"},
      {"hidden = true\n", ":1: hidden needs a whole number"},
      {"hidden = [8]\n", ":1: hidden needs a whole number"},
      {"hidden.width = 8\n", ":1: hidden needs a whole number"},
      {"dropout = \"0.5\"\n", ":1: dropout needs a number"},
      {"dropout = true\n", ":1: dropout needs a number"},
      {"\nbidirectional = 1\n", ":2: bidirectional needs true or false"},
      {"bidirectional = \"true\"\n", ":1: bidirectional needs true or false"},
      {"attention = 1\n", ":1: attention needs a text in quotes"},
      {"train-source = 2020-01-01\n", ":1: train-source needs a text in quotes"},
      {"seed = 1\n\ndropout = 1.5\n", ":3: dropout is 1.5: it must be at least 0 and below 1"},
      {"seed = 1\nembedding = 0\n", ":2: embedding is 0: it must be at least 1"},
      // What is wrong may stand in no line of its own.
      {"bridge = \"none\"\n",
       ":1: bridge is 'none', which copies the encoder's state of width 1024 into the decoder's of width 512: make them equal"},
      {"cell = \"rnn\"\ngru-reset = \"before\"\n",
       ":2: gru-reset is 'before', but cell is 'rnn', which has no reset gate: take cell gru, or leave gru-reset out"},
  };
  for (const auto& [text, message] : all) {
    const std::string path = folder.file("config.toml", text);
    CHECK(message_of([&] { settings_from_toml(path); }) == path + message);
  }
  for (const char* text :
       {"hidden 8\n", "hidden = 8\nhidden = 9\n", "hidden = 99999999999999999999\n", "attention = \"sdp\n"}) {
    const std::string path = folder.file("config.toml", text);
    const std::string message = message_of([&] { settings_from_toml(path); });
    CHECK(message.starts_with(path + ":"));
    CHECK(message.find('\n') == message.npos);
  }
  CHECK(message_of([&] { settings_from_toml(folder / "none"); }) ==
        "cannot read " + folder / "none" + ": No such file or directory");

  Settings base;
  base.dropout = 2;  // not the file's fault
  const std::string path = folder.file("config.toml", "hidden = 8\n");
  CHECK(message_of([&] { apply_toml(base, path); }) == path + ": dropout is 2: it must be at least 0 and below 1");
}

TEST_CASE("widths that follow from others") {
  Settings settings;
  CHECK(settings.decoder_width() == 512);
  CHECK(settings.attention_width() == 64);
  settings.attention = "bahdanau";
  settings.hidden = 100;
  CHECK(settings.attention_width() == 512);
  CHECK(settings.decoder_width() == 100);
  settings.attention_dim = 7;
  settings.decoder_hidden = 9;
  CHECK(settings.attention_width() == 7);
  CHECK(settings.decoder_width() == 9);
}

TEST_CASE("what the output layer reads") {
  Settings settings;
  CHECK(settings.readout_width() == 512 + 1024 + 256);
  settings.readout = "hidden";
  CHECK(settings.readout_width() == 512);
  settings.readout = "projected";
  CHECK(settings.feature_width() == 512 + 1024 + 256);
  CHECK(settings.readout_width() == 256);
  settings.attention = "none";
  CHECK(settings.feature_width() == 512 + 256);
}

TEST_CASE("presets") {
  Settings settings;
  settings.hidden = 8;
  apply_preset(settings, "multi30k", "data/m");
  CHECK(settings.train_source == "data/m/train.lc.norm.tok.de");
  CHECK(settings.train_target == "data/m/train.lc.norm.tok.en");
  CHECK(settings.valid_source == "data/m/val.lc.norm.tok.de");
  CHECK(settings.valid_target == "data/m/val.lc.norm.tok.en");
  CHECK(settings.hidden == 8);
  CHECK(settings.tokenizer == "whitespace");
  apply_preset(settings, "multi30k", "data/m", "en", "fr");
  CHECK(settings.train_source == "data/m/train.lc.norm.tok.en");
  CHECK(settings.valid_target == "data/m/val.lc.norm.tok.fr");
  apply_preset(settings, "multi30k-raw", "data/m", "", "fr");
  CHECK(settings.train_source == "data/m/train.de.gz");
  CHECK(settings.valid_target == "data/m/val.fr.gz");
  CHECK(settings.tokenizer == "spm");
  for (const char* name : {"multi30k-best", "multi30k-fast"}) {
    Settings chosen;
    apply_preset(chosen, name, "data/m", "en", "de");
    CHECK(chosen.train_source == "data/m/train.en.gz");
    CHECK(chosen.tie_embeddings == "all");
    check_settings(chosen);
  }
  CHECK(message_of([&] { apply_preset(settings, "multi", "data"); }) ==
        "there is no preset 'multi': the presets are " + preset_names());
  CHECK(preset_names().starts_with("multi30k|"));
  CHECK(message_of([&] { apply_preset(settings, "multi30k", "data", "it"); }) ==
        "preset multi30k has no language 'it': it has de|en|fr");
  CHECK(message_of([&] { apply_preset(settings, "multi30k", "data", "", "de|en"); }) ==
        "preset multi30k has no language 'de|en': it has de|en|fr");
  CHECK(message_of([&] { apply_preset(settings, "multi30k", "data", "en"); }) ==
        "preset multi30k from en to en: the languages must differ");
  CHECK(message_of([&] { apply_preset(settings, "multi30k", ""); }) ==
        "preset multi30k needs --data FOLDER, the data that tools/fetch_multi30k.sh fetches");
}
