#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "seq2seq/bleu.h"
#include "seq2seq/search.h"
#include "seq2seq/text.h"
#include "seq2seq/train.h"
#include "tools/commands.h"
#include "tools/console.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct Evaluate {
  std::string model, source, reference, tokenize = "none";
  i64 batch = 64;
  bool lowercase = false, json = false;
  Machine machine;

  void run() const;
};

void Evaluate::run() const {
  machine.start();
  if (batch < 1) throw_error("batch is {}: it must be at least 1", batch);
  BleuOptions bleu_options;
  bleu_options.tokenize = bleu_tokenizer(tokenize);
  bleu_options.lowercase = lowercase;
  const std::unique_ptr<Run> run = open_run(model);
  const std::vector<std::string> source_lines = read_lines(source), reference_lines = read_lines(reference);
  if (source_lines.size() != reference_lines.size())
    throw_error("{} has {} lines but {} has {}: a source and its reference must match line by line", source,
                source_lines.size(), reference, reference_lines.size());
  if (source_lines.empty()) throw_error("{} and {} are empty", source, reference);

  const auto start = std::chrono::steady_clock::now();
  std::vector<SentencePair> pairs;
  std::vector<std::vector<std::string>> sentences;
  i64 words = 0, unknown = 0;
  for (std::size_t i = 0; i < source_lines.size(); ++i) {
    SentencePair pair{split_whitespace(source_lines[i]), split_whitespace(reference_lines[i])};
    sentences.push_back(pair.source);
    for (const i64 id : run->target.encode(pair.target)) {
      ++words;
      unknown += id == Vocabulary::unknown;
    }
    if (!pair.source.empty() && !pair.target.empty()) pairs.push_back(std::move(pair));
  }
  const Perplexity measured = perplexity(*run, encode_pairs(pairs, run->source, run->target), batch);
  const double perplexity_value = pairs.empty() ? NAN : measured.value();  // null in JSON
  std::vector<std::string> hypotheses;
  i64 cut_off = 0;
  for (const Translation& translation : Translator(*run, {.batch = batch}).translate(sentences)) {
    hypotheses.push_back(join(run->target.decode(translation.ids)));
    cut_off += translation.cut_off;
  }
  const BleuScore bleu = corpus_bleu(hypotheses, {reference_lines}, bleu_options);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  if (json) {
    const nlohmann::ordered_json result = {{"sentences", sentences.size()},
                                           {"perplexity", perplexity_value},
                                           {"target_tokens", measured.tokens},
                                           {"reference_words", words},
                                           {"unknown_reference_words", unknown},
                                           {"bleu", bleu.score},
                                           {"bleu_signature", bleu.signature},
                                           {"cut_off", cut_off},
                                           {"seconds", seconds}};
    print("{}\n", result.dump());
    return;
  }
  print("sentences   {} in {:.1f} s", sentences.size(), seconds);
  if (pairs.size() < sentences.size()) print(" ({} without perplexity: a side is empty)", sentences.size() - pairs.size());
  if (cut_off > 0) print(" ({} translations cut off)", cut_off);
  print("\nperplexity  {:.4f} over {} target tokens", perplexity_value, measured.tokens);
  if (unknown > 0) print("; {} of {} reference words are not in the vocabulary and count as <unk>", unknown, words);
  print("\n{}\nsignature   {}\n", bleu.format(), bleu.signature);
}

}  // namespace

void add_evaluate(CLI::App& program) {
  CLI::App* command = add_command(program, "evaluate", "measure perplexity and BLEU of a model",
                                  "seqgrad evaluate --model runs/sdp --source test_2016_flickr.lc.norm.tok.de --reference "
                                  "test_2016_flickr.lc.norm.tok.en");
  auto options = std::make_shared<Evaluate>();
  command->add_option("--model", options->model, "folder that 'seqgrad train' wrote")->type_name("RUN")->required();
  command->add_option("--source", options->source, "text to translate (plain or gzipped)")->type_name("FILE")->required();
  command->add_option("--reference", options->reference, "its translation by people")->type_name("FILE")->required();
  command->add_option("--batch", options->batch, "sentences at a time")->type_name("N")->capture_default_str();
  command->add_option("--tokenize", options->tokenize, "words that BLEU compares; none: as the text has them")
      ->type_name("none|13a|char")
      ->capture_default_str();
  command->add_flag("--lowercase", options->lowercase, "BLEU ignores case");
  command->add_flag("--json", options->json, "write the result as JSON");
  options->machine.add_options(*command);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
