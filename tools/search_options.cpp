#include "tools/search_options.h"

#include "kernels/error.h"
#include "tensor/matmul.h"
#include "tools/console.h"

namespace seqgrad::tools {

void SearchFlags::add_options(CLI::App& command) {
  command.add_option("--beam", beam, "hypotheses of a sentence to follow at once (1: greedy search)")
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--length-penalty", length_penalty,
                  "compare hypotheses of n words by log p / ((5 + n) / 6)^A (Wu et al. 2016; 0: by log p)")
      ->type_name("A")
      ->capture_default_str();
  command.add_option("--min-length", min_length, "words before a translation may end")->type_name("N")->capture_default_str();
  command.add_option("--max-length", max_length, "words after which one is cut off (0: twice the source's and ten)")
      ->type_name("N")
      ->capture_default_str();
  command
      .add_option("--precision", precision,
                  "arithmetic; bf16 rounds the operands of matrix products, for speed; a model of f64 has its own")
      ->type_name("f32|bf16")
      ->capture_default_str();
}

void SearchFlags::apply(seq2seq::SearchOptions& options) const {
  if (max_length < 0) throw_error("max-length is {}: it must be at least 0", max_length);
  if (max_length > 0 && min_length > max_length)
    throw_error("min-length is {}: it must be at most the max-length, {}", min_length, max_length);
  if (precision != "f32" && precision != "bf16") throw_error("precision is '{}': it must be f32 or bf16", precision);
  set_float32_matmul_precision(precision == "bf16" ? MatmulPrecision::medium : MatmulPrecision::highest);
  options.beam = beam;
  options.length_penalty = length_penalty;
  options.min_length = min_length;
  if (max_length == 0) return;
  options.length_factor = 0;
  options.length_more = max_length;
}

std::string SearchFlags::precision_of(const seq2seq::Run& run) const {
  if (run.settings.precision != "f64") return precision;
  if (precision == "bf16") throw_error("precision is bf16, but the model computes in f64: leave --precision out");
  return "f64";
}

void add_max_source_length(CLI::App& command, i64& tokens) {
  command.add_option("--max-source-length", tokens, "leave out what a source has beyond N tokens, and say so (0: no limit)")
      ->type_name("N")
      ->capture_default_str();
}

void cut_source(std::vector<std::string>& tokens, i64 most, const std::string& name) {
  if (most == 0 || static_cast<i64>(tokens.size()) <= most) return;
  remark("{}: {} tokens, of which the first {} are translated (--max-source-length)\n", name, tokens.size(), most);
  tokens.resize(static_cast<std::size_t>(most));
}

void add_models(CLI::App& command, std::vector<std::string>& models) {
  command.add_option("--model", models, "folder that 'seqgrad train' wrote; given again, the models' mean log p counts")
      ->type_name("RUN")
      ->required()
      ->allow_extra_args(false);
}

}  // namespace seqgrad::tools
