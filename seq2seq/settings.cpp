#include "seq2seq/settings.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>
#include <type_traits>

#include "kernels/bf16.h"
#include "kernels/error.h"
#include "seq2seq/printable.h"
#include "tensor/file.h"

namespace seqgrad::seq2seq {
namespace {

constexpr i64 largest_width = 1 << 20;

bool is_allowed(std::string_view value, std::string_view allowed) {
  while (!allowed.empty()) {
    const std::size_t bar = allowed.find('|');
    if (value == allowed.substr(0, bar)) return true;
    allowed.remove_prefix(bar == allowed.npos ? allowed.size() : bar + 1);
  }
  return false;
}

}  // namespace

bool may_change(std::string_view name) {
  for (const char* free :
       {"train-source", "train-target", "valid-source", "valid-target", "spm-source-model", "spm-target-model", "epochs",
        "max-steps", "max-time", "patience", "average", "average-of", "keep-best", "keep-last", "checkpoint-every",
        "checkpoint-seconds", "stop-on-save-failure", "detect-anomaly", "threads"})
    if (name == free) return true;
  return false;
}

void check_settings(const Settings& settings) {
  for_each_setting(settings, [](const char* name, const auto& value, const char*, std::string_view allowed) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>)
      if (!allowed.empty() && !is_allowed(value, allowed))
        throw_error("{} is '{}': it must be one of {}", name, value, allowed);
  });
  const auto at_least = [](const char* name, double value, double low) {
    if (!(value >= low)) throw_error("{} is {}: it must be at least {}", name, value, low);
  };
  // Far beyond any model; what is larger cannot be calculated with.
  const auto at_most = [](const char* name, i64 value, i64 high) {
    if (value > high) throw_error("{} is {}: it must be at most {}", name, value, high);
  };
  const auto within_one = [](const char* name, double value) {
    if (!(value >= 0 && value < 1)) throw_error("{} is {}: it must be at least 0 and below 1", name, value);
  };
  at_least("embedding", static_cast<double>(settings.embedding), 1);
  at_least("hidden", static_cast<double>(settings.hidden), 1);
  at_least("decoder-hidden", static_cast<double>(settings.decoder_hidden), 0);
  at_least("attention-dim", static_cast<double>(settings.attention_dim), 0);
  at_least("layers", static_cast<double>(settings.layers), 1);
  at_most("embedding", settings.embedding, largest_width);
  at_most("hidden", settings.hidden, largest_width);
  at_most("decoder-hidden", settings.decoder_hidden, largest_width);
  at_most("attention-dim", settings.attention_dim, largest_width);
  at_most("layers", settings.layers, 1000);
  at_least("min-frequency", static_cast<double>(settings.min_frequency), 1);
  at_least("vocabulary-size", static_cast<double>(settings.vocabulary_size), 0);
  if (settings.vocabulary_size > 0 && settings.vocabulary_size < 5)
    throw_error("vocabulary-size is {}: it must be 0 or at least 5, for four of it are specials", settings.vocabulary_size);
  if (!(settings.character_coverage > 0 && settings.character_coverage <= 1))
    throw_error("character-coverage is {}: it must be above 0 and at most 1", settings.character_coverage);
  at_least("spm-alpha", settings.spm_alpha, 0);
  if (!std::isfinite(settings.spm_alpha)) throw_error("spm-alpha is {}: it must be a number", settings.spm_alpha);
  if (settings.spm_alpha > 0 && settings.tokenizer != "spm")
    throw_error("spm-alpha is {}, but tokenizer is '{}': only spm's pieces can be drawn", settings.spm_alpha,
                settings.tokenizer);
  if (settings.spm_type == "bpe" && settings.spm_alpha >= 1)
    throw_error("spm-alpha is {}: of spm-type bpe it must be below 1, for it is the probability of leaving out a merge",
                settings.spm_alpha);
  if (settings.tokenizer != "spm" && !(settings.spm_source_model + settings.spm_target_model).empty())
    throw_error("tokenizer is '{}': it must be spm to use a SentencePiece model", settings.tokenizer);
  if (settings.shared_vocabulary && !settings.spm_target_model.empty())
    throw_error("spm-target-model is for a vocabulary of its own: with shared-vocabulary, give spm-source-model alone");
  at_least("max-length", static_cast<double>(settings.max_length), 0);
  at_least("batch", static_cast<double>(settings.batch), 1);
  at_least("batch-tokens", static_cast<double>(settings.batch_tokens), 0);
  at_least("accumulate", static_cast<double>(settings.accumulate), 1);
  at_least("epochs", static_cast<double>(settings.epochs), 0);
  at_least("max-steps", static_cast<double>(settings.max_steps), 0);
  at_least("max-time", settings.max_time, 0);
  at_least("warmup", static_cast<double>(settings.warmup), 0);
  at_least("decay-patience", static_cast<double>(settings.decay_patience), 1);
  at_least("min-learning-rate", settings.min_learning_rate, 0);
  at_least("weight-decay", settings.weight_decay, 0);
  at_least("validate-every", static_cast<double>(settings.validate_every), 0);
  at_least("average", static_cast<double>(settings.average), 0);
  at_least("keep-best", static_cast<double>(settings.keep_best), 0);
  at_least("keep-last", static_cast<double>(settings.keep_last), 0);
  at_least("checkpoint-every", static_cast<double>(settings.checkpoint_every), 0);
  at_least("checkpoint-seconds", settings.checkpoint_seconds, 0);
  at_least("patience", static_cast<double>(settings.patience), 0);
  at_least("threads", static_cast<double>(settings.threads), 0);
  at_least("seed", static_cast<double>(settings.seed), 0);
  at_least("clip", settings.clip, 0);
  if (!(settings.learning_rate > 0 && std::isfinite(settings.learning_rate)))
    throw_error("learning-rate is {}: it must be a number above 0", settings.learning_rate);
  if (settings.min_learning_rate > settings.learning_rate)
    throw_error("min-learning-rate is {}: it must be at most the learning-rate, {}", settings.min_learning_rate,
                settings.learning_rate);
  if (!(settings.decay > 0 && settings.decay <= 1))
    throw_error("decay is {}: it must be above 0 and at most 1", settings.decay);
  if (!(settings.eps > 0)) throw_error("eps is {}: it must be above 0", settings.eps);
  within_one("beta1", settings.beta1);
  within_one("beta2", settings.beta2);
  within_one("ema", settings.ema);
  within_one("dropout", settings.dropout);
  within_one("word-dropout", settings.word_dropout);
  within_one("output-dropout", settings.output_dropout);
  within_one("label-smoothing", settings.label_smoothing);
  if (!(settings.teacher_forcing >= 0 && settings.teacher_forcing <= 1))
    throw_error("teacher-forcing is {}: it must be at least 0 and at most 1", settings.teacher_forcing);
  if (settings.gru_reset != "after" && settings.cell != "gru")
    throw_error("gru-reset is '{}', but cell is '{}', which has no reset gate: take cell gru, or leave gru-reset out",
                settings.gru_reset, settings.cell);
  if (settings.bridge == "none" && settings.encoder_width() != settings.decoder_width())
    throw_error(
        "bridge is 'none', which copies the encoder's state of width {} into the decoder's of width {}: make them equal",
        settings.encoder_width(), settings.decoder_width());
  if (settings.tie_embeddings != "none" && settings.readout_width() != settings.embedding)
    throw_error(
        "tie-embeddings is '{}', but the output layer reads {} numbers of readout {} and an embedding has {}: take readout "
        "projected",
        settings.tie_embeddings, settings.readout_width(), settings.readout, settings.embedding);
  if (settings.tie_embeddings == "all" && !settings.shared_vocabulary)
    throw_error("tie-embeddings is 'all', which needs shared-vocabulary: the source and target words must be the same");
  if (settings.attention == "luong_dot" && settings.encoder_width() != settings.decoder_width())
    throw_error(
        "attention is 'luong_dot', which multiplies the decoder's state of width {} by the encoder's outputs of width {}: make "
        "them equal, or take luong_general",
        settings.decoder_width(), settings.encoder_width());
}

std::string to_toml(const Settings& settings) {
  std::string text;
  for_each_setting(settings, [&](const char* name, const auto& value, const char*, const char*) {
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, std::string>) {
      std::string quoted;
      for (const char c : value) {
        if (c == '"' || c == '\\') quoted += '\\';
        const auto code = static_cast<unsigned char>(c);
        quoted += code < 0x20 || code == 0x7f ? fmt::format("\\u{:04x}", code) : std::string(1, c);
      }
      text += fmt::format("{} = \"{}\"\n", name, quoted);
    } else if constexpr (std::is_same_v<T, double>) {
      std::string digits = fmt::format("{}", value);
      if (digits.find_first_of(".einf") == digits.npos) digits += ".0";  // else a whole number
      text += fmt::format("{} = {}\n", name, digits);
    } else {
      text += fmt::format("{} = {}\n", name, value);
    }
  });
  return text;
}

Settings settings_from_toml(const std::string& path) {
  Settings settings;
  apply_toml(settings, path);
  return settings;
}

static void apply_toml_file(Settings& settings, const std::string& path) {
  const std::string text = read_file(path);
  toml::table table;
  try {
    table = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    throw_error("{}:{}: {}", path, error.source().begin.line, std::string(error.description()));
  }
  for (const auto& entry : table) {
    const toml::key& key = entry.first;
    const toml::node& node = entry.second;
    const auto line = node.source().begin.line;
    bool known = false;
    for_each_setting(settings, [&](const char* name, auto& value, const char*, const char*) {
      if (key.str() != name) return;
      known = true;
      using T = std::decay_t<decltype(value)>;
      // value() would make whole numbers of others, even where they are out of range.
      const bool other = (std::is_same_v<T, bool> && !node.is_boolean()) || (std::is_same_v<T, i64> && !node.is_integer());
      const auto read = other ? std::nullopt : node.template value<T>();
      if (!read)
        throw_error("{}:{}: {} needs {}", path, line, name,
                    std::is_same_v<T, bool>          ? "true or false"
                    : std::is_same_v<T, i64>         ? "a whole number"
                    : std::is_same_v<T, std::string> ? "a text in quotes"
                                                     : "a number");
      value = *read;
    });
    if (!known) throw_error("{}:{}: unknown setting '{}'", path, line, std::string(key.str()));
  }
  try {
    check_settings(settings);
  } catch (const Error& error) {
    // Its message starts with the setting's name.
    const std::string message = error.what();
    const toml::node* node = table.get(message.substr(0, message.find(' ')));
    throw_error("{}{}: {}", path, node ? fmt::format(":{}", node->source().begin.line) : "", message);
  }
}

void apply_toml(Settings& settings, const std::string& path) {
  with_printable_errors([&] { apply_toml_file(settings, path); });
}

// What translates Multi30k best: one vocabulary of pieces for both sides, whose embeddings are the output layer too, a readout
// as wide as they, much dropout, and a moving average of the weights, or the mean of its last five where that validates better.
// The products are in bf16 where the CPU multiplies it.
static void best_of_multi30k(Settings& s) {
  s.tokenizer = "spm";
  s.spm_type = "bpe";
  s.vocabulary_size = 12000;
  s.shared_vocabulary = true;
  s.tie_embeddings = "all";
  s.readout = "projected";
  s.attention_dim = 256;
  s.hidden = 256;
  s.decoder_hidden = 512;
  s.dropout = s.output_dropout = 0.4;
  s.label_smoothing = 0.1;
  s.batch = 64;
  s.epochs = 20;
  s.schedule = "inverse-sqrt";
  s.learning_rate = 0.0015;
  s.warmup = 1000;
  s.ema = 0.999;
  s.validate_by = "bleu";
  s.average = 5;
  s.average_of = "last";
  if (kernels::bf16_way() != kernels::Bf16Way::rounded_f32) s.precision = "bf16";
}

// The same model in a hurry: less dropout, larger steps and fewer words.
static void fast_multi30k(Settings& s) {
  best_of_multi30k(s);
  s.dropout = s.output_dropout = 0.3;
  s.learning_rate = 0.002;
  s.warmup = 500;
  s.ema = 0.998;
  s.epochs = 6;
  s.average = 0;
  s.vocabulary_size = 8000;
}

const std::vector<Preset>& presets() {
  static const char* const fetch = "tools/fetch_multi30k.sh";
  static const std::vector<Preset> all{
      {"multi30k", "lower-cased, tokenised text, the reference sizes", fetch, "de|en|fr", "de", "en", "train.lc.norm.tok.{}",
       "val.lc.norm.tok.{}", [](Settings& s) { s.tokenizer = "whitespace"; }},
      {"multi30k-raw", "text as written, in SentencePiece's pieces, the reference sizes", fetch, "de|en|fr", "de", "en",
       "train.{}.gz", "val.{}.gz", [](Settings& s) { s.tokenizer = "spm"; }},
      {"multi30k-best", "text as written, the settings with the best BLEU", fetch, "de|en|fr", "de", "en", "train.{}.gz",
       "val.{}.gz", best_of_multi30k},
      {"multi30k-fast", "text as written, a good translator in minutes", fetch, "de|en|fr", "de", "en", "train.{}.gz",
       "val.{}.gz", fast_multi30k},
  };
  return all;
}

std::string preset_names() {
  std::string names;
  for (const Preset& preset : presets()) names += (names.empty() ? "" : "|") + std::string(preset.name);
  return names;
}

const Preset& find_preset(const std::string& name) {
  for (const Preset& preset : presets())
    if (preset.name == name) return preset;
  throw_error("there is no preset '{}': the presets are {}", name, preset_names());
}

void apply_preset(Settings& settings, const std::string& name, const std::string& folder, const std::string& from,
                  const std::string& to) {
  const Preset& preset = find_preset(name);
  if (folder.empty()) throw_error("preset {} needs --data FOLDER, the data that {} fetches", name, preset.fetched_by);
  const std::string source = from.empty() ? preset.source : from, target = to.empty() ? preset.target : to;
  for (const std::string& language : {source, target})
    if (!is_allowed(language, preset.languages))
      throw_error("preset {} has no language '{}': it has {}", name, language, preset.languages);
  if (source == target) throw_error("preset {} from {} to {}: the languages must differ", name, source, target);
  const auto file = [&](const char* pattern, const std::string& language) {
    return (std::filesystem::path(folder) / fmt::format(fmt::runtime(pattern), language)).string();
  };
  settings.train_source = file(preset.train_file, source);
  settings.train_target = file(preset.train_file, target);
  settings.valid_source = file(preset.valid_file, source);
  settings.valid_target = file(preset.valid_file, target);
  preset.change(settings);
}

}  // namespace seqgrad::seq2seq
