#include "seq2seq/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

namespace seqgrad::seq2seq {
namespace {

constexpr const char* format_version = "2";

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

// The blocks that a checkpoint holds, each part under a name of its own: "adam.m/encoder.gru.weight_ih_l0".
std::vector<std::pair<std::string, Tensor>> blocks(const Run& run, const nn::Adam& adam, const nn::MovingAverage* average) {
  std::vector<std::pair<std::string, Tensor>> all{
      {"model/", run.block.values()}, {"adam.m/", adam.first_moments()}, {"adam.v/", adam.second_moments()}};
  if (average) all.emplace_back("ema/", average->values());
  return all;
}

}  // namespace

void save_checkpoint(const Run& run, const nn::Adam& adam, const nn::MovingAverage* average, const Progress& progress,
                     const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (const auto& [prefix, whole] : blocks(run, adam, average)) append_parts(tensors, prefix, run.block, whole);
  std::map<std::string, std::string> metadata{{"format", format_version}};
  for_each_number(progress, [&](const char* name, const auto& value) { metadata[name] = fmt::format("{}", value); });
  std::string& kept = metadata["kept"];
  for (const Kept& one : progress.kept) kept += fmt::format("{}{} {}", kept.empty() ? "" : " ", one.step, one.score);
  write_safetensors(path, tensors, metadata);
}

Progress load_checkpoint(Run& run, nn::Adam& adam, nn::MovingAverage* average, const std::string& path) {
  const SafetensorsReader file(path);
  if (const std::string& version = metadata_entry(file, "format"); version != format_version)
    throw_error("{}: format {} is not {}: it was written by another version of seqgrad", path, version, format_version);
  Progress progress;
  for_each_number(progress, [&](const char* name, auto& value) { read_number(metadata_entry(file, name), path, name, value); });
  progress.kept = read_kept(metadata_entry(file, "kept"), path);
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
  std::error_code ignored;  // a file too many does no harm
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(folder) / "kept", ignored))
    if (std::none_of(kept.begin(), kept.end(), [&](const Kept& one) { return entry.path() == kept_path(folder, one.step); }))
      std::filesystem::remove(entry.path(), ignored);
}

}  // namespace seqgrad::seq2seq
