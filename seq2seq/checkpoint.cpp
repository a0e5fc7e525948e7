#include "seq2seq/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <sstream>

#include "tensor/checksum.h"

namespace seqgrad::seq2seq {
namespace {

constexpr const char* format_version = "3";

// f(name, value) for every number of the progress.
template <class P, class F>
void for_each_number(P& p, F&& f) {
  f("epoch", p.epoch);
  f("step", p.step);
  f("batch", p.batch);
  f("validated", p.validated);
  f("best_step", p.best_step);
  f("best_epoch", p.best_epoch);
  f("best_score", p.best_score);
  f("stalled", p.stalled);
  f("plateau_factor", p.plateau.factor);
  f("plateau_bad", p.plateau.bad);
  f("loss", p.loss);
  f("gradient_norm", p.gradient_norm);
  f("tokens", p.tokens);
  f("steps", p.steps);
  f("threads", p.threads);
}

const std::string& metadata_entry(const SafetensorsReader& file, const std::string& key) {
  const auto entry = file.metadata().find(key);
  if (entry == file.metadata().end()) throw_error("{}: this is not a checkpoint: its metadata has no '{}'", file.path(), key);
  return entry->second;
}

template <class T>
void read_number(std::string_view text, const std::string& path, const char* key, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) throw_error("{}: '{}' is no number but '{}'", path, key, text);
  if (value < 0) throw_error("{}: '{}' is {}, but cannot be negative", path, key, text);
}

// A settings file's lines by their names.
std::map<std::string, std::string> lines_of(const std::string& toml) {
  std::map<std::string, std::string> lines;
  std::istringstream text(toml);
  for (std::string line; std::getline(text, line);) lines[line.substr(0, line.find(' '))] = line;
  return lines;
}

// "120 6.33 240 6.01"
std::vector<Kept> read_kept(const std::string& text, const std::string& path) {
  std::vector<Kept> kept;
  std::istringstream words(text);
  for (std::string step, score; words >> step;) {
    words >> score;
    Kept one;
    read_number(step, path, "kept", one.step);
    read_number(score, path, "kept", one.score);
    kept.push_back(one);
    score.clear();
  }
  return kept;
}

// Line by line "name = value", without those that may change.
std::string settings_that_matter(const Settings& settings) {
  std::string text;
  for (const auto& [name, line] : lines_of(to_toml(settings)))
    if (!may_change(name)) text += line + "\n";
  return text;
}

void check_settings_of(const SafetensorsReader& file, const Settings& settings) {
  const std::map<std::string, std::string> then = lines_of(metadata_entry(file, "settings"));
  for (const auto& [name, now] : lines_of(settings_that_matter(settings)))
    if (const auto before = then.find(name); before != then.end() && before->second != now)
      throw_error("{}: it was made with {}, but now {}: a resumed run keeps its settings", file.path(), before->second, now);
}

// Settings, words and text must be those of the run.
void check_made_with(const SafetensorsReader& file, const Run& run, const std::string& data) {
  const std::string& path = file.path();
  if (!file.has_checksum()) throw_error("{}: this is not a checkpoint: its metadata has no 'checksum'", path);
  check_settings_of(file, run.settings);
  for (const auto& [name, ours] :
       {std::pair{"vocab.source", checksum_of(run.source)}, {"vocab.target", checksum_of(run.target)}})
    if (metadata_entry(file, name) != ours) throw_error("{}: it was made with another {} than the one beside it", path, name);
  if (metadata_entry(file, "data") != data)
    throw_error("{}: it was made with other training or validation text than the files of its config.toml hold now", path);
}

Progress read_progress(const SafetensorsReader& file, bool with_threads) {
  Progress progress;
  for_each_number(progress, [&](const char* name, auto& value) {
    if (!with_threads && name == std::string_view("threads")) return;
    read_number(metadata_entry(file, name), file.path(), name, value);
  });
  progress.kept = read_kept(metadata_entry(file, "kept"), file.path());
  return progress;
}

// Format 1 was written at the end of an epoch, after its validation.
Progress read_progress_1(const SafetensorsReader& file) {
  Progress progress;
  const auto read = [&](const char* name, auto& value) { read_number(metadata_entry(file, name), file.path(), name, value); };
  read("epoch", progress.epoch);
  read("step", progress.step);
  read("best_epoch", progress.best_epoch);
  read("best_perplexity", progress.best_score);
  if (progress.best_epoch > progress.epoch)
    throw_error("{}: 'best_epoch' is {}, but 'epoch' {}", file.path(), progress.best_epoch, progress.epoch);
  progress.validated = progress.step;
  progress.stalled = progress.epoch - progress.best_epoch;
  if (progress.epoch > 0) progress.best_step = progress.step / progress.epoch * progress.best_epoch;
  return progress;
}

// The blocks that a checkpoint holds, each part under a name of its own: "adam.m/encoder.gru.weight_ih_l0".
std::vector<std::pair<std::string, Tensor>> blocks(const Run& run, const nn::Adam& adam, const nn::MovingAverage* average) {
  std::vector<std::pair<std::string, Tensor>> all{
      {"model/", run.block.values()}, {"adam.m/", adam.first_moments()}, {"adam.v/", adam.second_moments()}};
  if (average) all.emplace_back("ema/", average->values());
  return all;
}

}  // namespace

std::string checksum_of(const std::vector<EncodedPair>& train, const std::vector<EncodedPair>& valid) {
  Checksum sum;
  for (const auto* pairs : {&train, &valid}) {
    const u64 count = pairs->size();
    sum.add(&count, sizeof count);
    for (const EncodedPair& pair : *pairs)
      for (const auto* side : {&pair.source, &pair.target}) {
        const u64 length = side->size();
        sum.add(&length, sizeof length);
        sum.add(side->data(), length * sizeof(i64));
      }
  }
  return fmt::format("{:016x}", sum.value());
}

void save_checkpoint(const Run& run, const nn::Adam& adam, const nn::MovingAverage* average, const Progress& progress,
                     const std::string& data, const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (const auto& [prefix, whole] : blocks(run, adam, average)) append_parts(tensors, prefix, run.block, whole);
  std::map<std::string, std::string> metadata{{"format", format_version},
                                              {"settings", settings_that_matter(run.settings)},
                                              {"vocab.source", checksum_of(run.source)},
                                              {"vocab.target", checksum_of(run.target)},
                                              {"data", data}};
  for_each_number(progress, [&](const char* name, const auto& value) { metadata[name] = fmt::format("{}", value); });
  std::string& kept = metadata["kept"];
  for (const Kept& one : progress.kept) kept += fmt::format("{}{} {}", kept.empty() ? "" : " ", one.step, one.score);
  write_safetensors(path, tensors, metadata, true);
}

Progress load_checkpoint(Run& run, nn::Adam& adam, nn::MovingAverage* average, const std::string& data,
                         const std::string& path) {
  const SafetensorsReader file(path);
  const std::string& version = metadata_entry(file, "format");
  Progress progress;
  if (version == format_version) {
    check_made_with(file, run, data);
    progress = read_progress(file, true);
  } else if (version == "2") {
    progress = read_progress(file, false);
  } else if (version == "1" && file.metadata().contains("best_perplexity")) {
    progress = read_progress_1(file);
  } else if (version == "1") {
    throw_error("{}: these are a model's weights, not a checkpoint", path);
  } else {
    throw_error("{}: format {} is not {}: it was written by another version of seqgrad", path, version, format_version);
  }
  // Everything through stand-ins with the file's names.
  std::vector<Parameter> parts;
  for (const auto& [prefix, whole] : blocks(run, adam, average))
    for (std::size_t i = 0; i < run.block.parameters().size(); ++i)
      parts.push_back({prefix + run.block.parameters()[i]->name, run.block.part(whole, i), {}, false});
  std::vector<Parameter*> pointers;
  for (Parameter& part : parts) pointers.push_back(&part);
  load_exactly(pointers, file);
  adam.set_steps(progress.step);
  return progress;
}

std::string kept_path(const std::string& folder, i64 step) {
  return (std::filesystem::path(folder) / "kept" / fmt::format("step-{}.safetensors", step)).string();
}

void remove_other_kept(const std::string& folder, const std::vector<Kept>& kept) {
  std::error_code error;  // a file too many does no harm
  std::filesystem::directory_iterator entry(std::filesystem::path(folder) / "kept", error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::filesystem::path path = entry->path();
    std::error_code ignored;
    if (std::none_of(kept.begin(), kept.end(), [&](const Kept& one) { return path == kept_path(folder, one.step); }))
      std::filesystem::remove(path, ignored);
  }
}

}  // namespace seqgrad::seq2seq
