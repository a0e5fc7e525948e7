// A run: a trained model with its vocabularies and settings, and the folder that keeps it.
//
//   config.toml  vocab.source  vocab.target     made when training starts
//   spm.source.model  spm.target.model          likewise, for tokenizer spm
//   model.safetensors                           the weights of the best validation
//   kept/step-STEP.safetensors                  those of further validations, if asked for
//   checkpoint.safetensors                      all that training needs to go on (checkpoint.h)
//   metrics.jsonl                               one line a validation
//   report.html                                 the same to look at
//
// Every file is replaced whole or not at all (tensor/file.h). Not for use by two threads at once.
#pragma once

#include <memory>
#include <string>

#include "seq2seq/language.h"
#include "seq2seq/model.h"
#include "tensor/safetensors.h"

namespace seqgrad::seq2seq {

struct Run {
  // Fresh weights from settings.seed. Without tokenizers, those that the settings name, which must not be spm.
  Run(const Settings& settings, Vocabulary source, Vocabulary target, Tokenizers tokenizers = {});
  // Weights that are yet to be read, undefined until then.
  struct Unread {};
  Run(const Settings& settings, Vocabulary source, Vocabulary target, Tokenizers tokenizers, Unread);

  // A translation's text.
  std::string text(const std::vector<i64>& target_ids) const;

  Settings settings;
  Vocabulary source, target;
  Tokenizers tokenizers;
  Seq2Seq model;
  nn::ParameterBlock block;

 private:
  Run(const Settings& settings, Vocabulary source, Vocabulary target, Tokenizers tokenizers, Generator generator);
};

// Opens a folder that `train` made, for translating. Errors name the file, and what in it does not fit.
std::unique_ptr<Run> open_run(const std::string& folder);

// Several, to translate together. Error: "runs/b and runs/a know different source words: ...".
std::vector<std::unique_ptr<Run>> open_ensemble(const std::vector<std::string>& folders);

// values: laid out like the run's block. With a checksum, and with those of the vocabularies that the weights belong to.
void save_weights(const Run& run, const Tensor& values, const std::string& path);
void save_weights(const Run& run, const std::string& path);
// Exactly the model's parameters, each of the model's shape and dtype (f32 and f64 convert into each other). Unless all of them
// fit, nothing changes.
// Errors: "model.safetensors: encoder.embedding.weight has shape (13, 5), the model needs (14, 5)", and weights of another
// vocabulary; a file that is damaged inside its numbers alone is refused when they have been read.
void load_weights(Run& run, const std::string& path);
void load_weights(const std::vector<Parameter*>& parameters, const SafetensorsFile& file, const std::string& path,
                  const std::string& prefix);

// The mean of several such files.
void load_mean(Run& run, const std::vector<std::string>& paths);
// Tensors of any names: these and no other.
void load_exactly(const std::vector<Parameter*>& parameters, const SafetensorsReader& file);

// A block's parts under their parameters' names with a prefix.
void append_parts(std::vector<NamedTensor>& tensors, const std::string& prefix, const nn::ParameterBlock& block,
                  const Tensor& whole);

// Of a vocabulary's words, in hexadecimal.
std::string checksum_of(const Vocabulary& vocabulary);

}  // namespace seqgrad::seq2seq
