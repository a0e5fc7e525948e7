#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "seq2seq/evaluation.h"
#include "seq2seq/text.h"
#include "seq2seq/timing.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/search_options.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;
using nlohmann::ordered_json;

struct Evaluate {
  std::string model, source, reference, tokenize;
  EvaluationOptions options;
  SearchFlags search;
  bool json = false;
  Machine machine;

  void run();
};

void print_json(const Evaluation& evaluation, double seconds) {
  const auto scores = [&](const auto& score) {
    ordered_json result;
    const char* const names[] = {"bleu", "chrf", "chrf++"};
    for (std::size_t i = 0; i < evaluation.measures.size(); ++i) result[names[i]] = score(evaluation.measures[i]);
    return result;
  };
  ordered_json result = {{"sentences", evaluation.hypotheses.size()}};
  // Without a single pair there is no loss: null.
  result["perplexity"] = evaluation.pairs > 0 ? evaluation.teacher_forced.value() : NAN;
  result["target_tokens"] = evaluation.teacher_forced.tokens;
  if (evaluation.free_running) result["free_running_loss"] = evaluation.pairs > 0 ? evaluation.free_running->loss() : NAN;
  result["reference_words"] = evaluation.reference_words;
  result["unknown_reference_words"] = evaluation.unknown_reference_words;
  result.update(scores([](const Measured& measured) { return measured.score(); }));
  const ordered_json signatures = scores([](const Measured& measured) { return measured.signature; });
  for (const auto& [name, signature] : signatures.items()) result[name + "_signature"] = signature;
  ordered_json& buckets = result["by_source_length"] = ordered_json::array();
  for (const LengthBucket& bucket : evaluation.by_length) {
    ordered_json entry = {{"from", bucket.from}, {"to", bucket.to}, {"sentences", bucket.sentences.size()}};
    if (bucket.to == 0) entry["to"] = nullptr;
    entry.update(scores([&](const Measured& measured) { return measured.score(bucket.sentences); }));
    buckets.push_back(entry);
  }
  result["cut_off"] = evaluation.cut_off;
  result["seconds"] = seconds;
  print("{}\n", result.dump());
}

void print_text(const Evaluation& evaluation, double seconds) {
  const std::size_t sentences = evaluation.hypotheses.size(), pairs = static_cast<std::size_t>(evaluation.pairs);
  print("sentences   {} in {:.1f} s", sentences, seconds);
  if (pairs < sentences) print(" ({} without perplexity: a side is empty or too long)", sentences - pairs);
  if (evaluation.cut_off > 0) print(" ({} translations cut off)", evaluation.cut_off);
  print("\nperplexity  {:.4f} over {} target tokens", pairs > 0 ? evaluation.teacher_forced.value() : NAN,
        evaluation.teacher_forced.tokens);
  if (evaluation.unknown_reference_words > 0)
    print("; {} of {} reference words are not in the vocabulary and count as <unk>", evaluation.unknown_reference_words,
          evaluation.reference_words);
  print("\n");
  if (evaluation.free_running)
    print("free-running loss  {:.4f} per target token, of the model after its own words\n",
          pairs > 0 ? evaluation.free_running->loss() : NAN);
  print("{}\nsignature   {}\n", evaluation.bleu.format(), evaluation.bleu.signature);
  for (std::size_t i = 1; i < evaluation.measures.size(); ++i) {
    const Measured& measured = evaluation.measures[i];
    print("{} = {:.2f}\nsignature   {}\n", measured.name, measured.score(), measured.signature);
  }
  print("\n{:<13}  {:>9}", "source length", "sentences");
  for (const Measured& measured : evaluation.measures) print("  {:>7}", measured.name);
  print("\n");
  for (const LengthBucket& bucket : evaluation.by_length) {
    print("{:<13}  {:>9}", bucket.name(), bucket.sentences.size());
    for (const Measured& measured : evaluation.measures) print("  {:>7.2f}", measured.score(bucket.sentences));
    print("\n");
  }
}

void Evaluate::run() {
  machine.start();
  search.apply(options.search);
  check_search(options.search);
  if (options.max_length < 0) throw_error("max-source-length is {}: it must be at least 0", options.max_length);
  if (!tokenize.empty()) options.bleu.tokenize = bleu_tokenizer(tokenize);
  const std::unique_ptr<Run> run = open_run(model);
  search.precision_of(*run);
  const BleuOptions natural = bleu_options(run->settings);
  if (tokenize.empty()) options.bleu.tokenize = natural.tokenize;
  options.bleu.lowercase |= natural.lowercase;
  const std::vector<std::string> sources = read_lines(source), references = read_lines(reference);
  if (sources.size() != references.size())
    throw_error("{} has {} lines but {} has {}: a source and its reference must match line by line", source, sources.size(),
                reference, references.size());
  if (sources.empty()) throw_error("{} and {} are empty", source, reference);
  const auto start = Clock::now();
  const Evaluation evaluation = evaluate(*run, sources, references, options);
  const double seconds = seconds_since(start);
  for (const std::size_t line : evaluation.cut_sources)
    remark("{}:{}: of its tokens the first {} are translated (--max-source-length)\n", source, line + 1, options.max_length);
  for (const std::string& warning : text_warnings(evaluation.hypotheses, {references}, options.bleu.tokenize))
    remark("warning: {}\n", warning);
  json ? print_json(evaluation, seconds) : print_text(evaluation, seconds);
}

}  // namespace

void add_evaluate(CLI::App& program) {
  CLI::App* command = add_command(program, "evaluate", "measure perplexity, BLEU and chrF of a model",
                                  "seqgrad evaluate --model runs/sdp --source test_2016_flickr.lc.norm.tok.de --reference "
                                  "test_2016_flickr.lc.norm.tok.en");
  auto options = std::make_shared<Evaluate>();
  command->add_option("--model", options->model, "folder that 'seqgrad train' wrote")->type_name("RUN")->required();
  command->add_option("--source", options->source, "text to translate (plain or gzipped)")->type_name("FILE")->required();
  command->add_option("--reference", options->reference, "its translation by people")->type_name("FILE")->required();
  command->add_option("--batch", options->options.search.batch, "sentences at a time")->type_name("N")->capture_default_str();
  options->search.add_options(*command);
  command
      ->add_option("--tokenize", options->tokenize,
                   "words that BLEU compares; none: as the text has them [none for a model of tokenizer whitespace, else 13a]")
      ->type_name("none|13a|intl|char");
  command->add_flag("--lowercase", options->options.bleu.lowercase,
                    "BLEU and chrF ignore case, as they always do for a model of --lowercase");
  options->options.max_length = default_max_source_length;
  command
      ->add_option("--max-source-length", options->options.max_length,
                   "leave out what a source has beyond N tokens, and pairs with longer sides of the perplexity (0: no limit)")
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--free-running", options->options.free_running,
                    "also the loss of the references' words after the model's own words instead of the references'");
  command->add_option("--lengths", options->options.length_edges, "source lengths at which the table by length divides")
      ->type_name("N,N,...")
      ->delimiter(',')
      ->default_str("5,10,15,20,25,30,40,50");
  command->add_flag("--json", options->json, "write the result as JSON");
  options->machine.add_options(*command);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
