#include "seq2seq/run.h"

#include <filesystem>
#include <string_view>
#include <unordered_set>

#include "nn/averaging.h"
#include "tensor/checksum.h"
#include "tensor/memory_purpose.h"
#include "tensor/safetensors.h"

namespace seqgrad::seq2seq {
namespace {

constexpr const char* format_version = "1";

DType dtype_of(const Settings& settings) { return settings.precision == "f64" ? DType::f64 : DType::f32; }

// What a file holds under the parameter's name: of its shape and with numbers that weights can be.
void check_fit(const Parameter& parameter, bool found, const Dims& shape, DType dtype, const std::string& path,
               const std::string& name) {
  if (!found) throw_error("{}: {} is missing: the file belongs to another model", path, name);
  if (!(shape == parameter.value.shape()))
    throw_error("{}: {} has shape {}, the model needs {}", path, name, shape, parameter.value.shape());
  if (dtype != DType::f32 && dtype != DType::f64) throw_error("{}: {} holds {}, not weights", path, name, name_of(dtype));
}

}  // namespace

namespace {

Tokenizers simple_tokenizers(const Settings& settings) {
  if (settings.tokenizer == "spm") throw_error("[run] tokenizer spm needs its models");
  return make_tokenizers(settings, {});
}

}  // namespace

Run::Run(const Settings& settings_in, Vocabulary source_in, Vocabulary target_in, Tokenizers tokenizers_in)
    : Run(settings_in, std::move(source_in), std::move(target_in), std::move(tokenizers_in),
          Generator(static_cast<u64>(settings_in.seed))) {}

Run::Run(const Settings& settings_in, Vocabulary source_in, Vocabulary target_in, Tokenizers tokenizers_in, Generator generator)
    : settings(settings_in),
      source(std::move(source_in)),
      target(std::move(target_in)),
      tokenizers(tokenizers_in.source ? std::move(tokenizers_in) : simple_tokenizers(settings)),
      model(settings, source.size(), target.size()),
      block(model, dtype_of(settings), generator, default_device()) {}

Run::Run(const Settings& settings_in, Vocabulary source_in, Vocabulary target_in, Tokenizers tokenizers_in, Unread)
    : settings(settings_in),
      source(std::move(source_in)),
      target(std::move(target_in)),
      tokenizers(tokenizers_in.source ? std::move(tokenizers_in) : simple_tokenizers(settings)),
      model(settings, source.size(), target.size()),
      block(model, dtype_of(settings), default_device()) {}

std::string Run::text(const std::vector<i64>& target_ids) const { return tokenizers.target->join(target.decode(target_ids)); }

std::unique_ptr<Run> open_run(const std::string& folder) {
  if (!std::filesystem::is_directory(folder)) throw_error("{} is not a folder that 'seqgrad train' made", folder);
  const Settings settings = settings_from_toml(path_in(folder, "config.toml"));
  Language language = load_language(settings, folder);
  const MemoryPurpose purpose("the model of " + folder, "it needs a machine with more");
  auto run = std::make_unique<Run>(settings, std::move(language.source), std::move(language.target),
                                   std::move(language.tokenizers), Run::Unread());
  load_weights(*run, path_in(folder, "model.safetensors"));
  return run;
}

std::vector<std::unique_ptr<Run>> open_ensemble(const std::vector<std::string>& folders) {
  std::vector<std::unique_ptr<Run>> runs;
  for (const std::string& folder : folders) {
    runs.push_back(open_run(folder));
    if (!same_tokenizers(runs.back()->tokenizers, runs[0]->tokenizers))
      throw_error("{} and {} cut text into tokens in different ways: models that translate together need the same tokenizers",
                  folder, folders[0]);
    for (const bool source : {true, false})
      if (!(source ? runs.back()->source == runs[0]->source : runs.back()->target == runs[0]->target))
        throw_error("{} and {} know different {} words: models that translate together need the same vocabularies", folder,
                    folders[0], source ? "source" : "target");
  }
  return runs;
}

std::string checksum_of(const Vocabulary& vocabulary) {
  Checksum sum;
  for (i64 id = 0; id < vocabulary.size(); ++id) sum.add(vocabulary.token(id) + "\n");
  return fmt::format("{:016x}", sum.value());
}

void save_weights(const Run& run, const Tensor& values, const std::string& path) {
  std::vector<NamedTensor> tensors;
  append_parts(tensors, "", run.block, values);
  write_safetensors(
      path, tensors,
      {{"format", format_version}, {"vocab.source", checksum_of(run.source)}, {"vocab.target", checksum_of(run.target)}}, true);
}

void save_weights(const Run& run, const std::string& path) { save_weights(run, run.block.values(), path); }

void load_weights(const std::vector<Parameter*>& parameters, const SafetensorsFile& file, const std::string& path,
                  const std::string& prefix) {
  for (const Parameter* parameter : parameters) {
    const Tensor* stored = file.find(prefix + parameter->name);
    check_fit(*parameter, stored, stored ? stored->shape() : Dims(), stored ? stored->dtype() : DType::f32, path,
              prefix + parameter->name);
  }
  for (const Parameter* parameter : parameters)
    parameter->value.copy_from(file.find(prefix + parameter->name)->to(parameter->value.dtype()));
}

void load_weights(Run& run, const std::string& path) {
  const SafetensorsReader file(path);
  if (file.has_checksum())  // ours
    for (const auto& [name, vocabulary] : {std::pair{"vocab.source", &run.source}, {"vocab.target", &run.target}}) {
      const auto stored = file.metadata().find(name);
      if (stored != file.metadata().end() && stored->second != checksum_of(*vocabulary))
        throw_error("{}: it was trained with another {} than the one beside it", path, name);
    }
  load_exactly(run.block.parameters(), file);
}

void load_mean(Run& run, const std::vector<std::string>& paths) {
  const Tensor& weights = run.block.values();
  const Tensor sum = zeros(weights.shape(), DType::f64);
  for (const std::string& path : paths) {
    load_weights(run, path);
    nn::add_weights(sum, weights.to(Device::cpu).to(DType::f64), 1 / static_cast<double>(paths.size()));
  }
  weights.copy_from(sum.to(weights.dtype()));
}

// Unless all of it fits, nothing changes.
void load_exactly(const std::vector<Parameter*>& parameters, const SafetensorsReader& file) {
  std::unordered_set<std::string_view> known;
  for (const Parameter* parameter : parameters) {
    const SafetensorsReader::Entry* stored = file.find(parameter->name);
    check_fit(*parameter, stored, stored ? stored->shape : Dims(), stored ? stored->dtype : DType::f32, file.path(),
              parameter->name);
    known.insert(parameter->name);
  }
  for (const SafetensorsReader::Entry& stored : file.entries())
    if (!known.contains(stored.name))
      throw_error("{}: the model has no {}: the file belongs to another model", file.path(), stored.name);
  for (const Parameter* parameter : parameters) {
    const SafetensorsReader::Entry& stored = *file.find(parameter->name);
    const bool directly = stored.dtype == parameter->value.dtype() && parameter->value.device() == Device::cpu;
    const Tensor to = directly ? parameter->value : Tensor(stored.shape, stored.dtype);
    file.read(stored, to);
    if (!to.shares_memory_with(parameter->value)) parameter->value.copy_from(to.to(parameter->value.dtype()));
  }
  file.verify();
}

void append_parts(std::vector<NamedTensor>& tensors, const std::string& prefix, const nn::ParameterBlock& block,
                  const Tensor& whole) {
  for (std::size_t i = 0; i < block.parameters().size(); ++i)
    tensors.push_back({prefix + block.parameters()[i]->name, block.part(whole, i)});
}

}  // namespace seqgrad::seq2seq
