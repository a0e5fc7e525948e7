#include "seq2seq/bleu.h"

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "seq2seq/text.h"
#include "tools/commands.h"
#include "tools/console.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct Bleu {
  std::string reference, hypothesis, tokenize = "13a";
  bool lowercase = false, json = false;

  void run() const;
};

void Bleu::run() const {
  BleuOptions options;
  options.tokenize = bleu_tokenizer(tokenize);
  options.lowercase = lowercase;
  const std::vector<std::string> references = read_lines(reference), hypotheses = read_lines(hypothesis);
  if (references.size() != hypotheses.size())
    throw_error("{} has {} lines but {} has {}: references and translations must match line by line", reference,
                references.size(), hypothesis, hypotheses.size());
  if (references.empty()) throw_error("{} and {} are empty", reference, hypothesis);
  const BleuScore score = corpus_bleu(hypotheses, {references}, options);
  if (json) {
    const nlohmann::ordered_json result = {{"bleu", score.score},
                                           {"precisions", score.precisions},
                                           {"brevity_penalty", score.brevity_penalty},
                                           {"hypothesis_length", score.hypothesis_length},
                                           {"reference_length", score.reference_length},
                                           {"signature", score.signature}};
    print("{}\n", result.dump());
    return;
  }
  print("{}\nsignature: {}\n", score.format(), score.signature);
}

}  // namespace

void add_bleu(CLI::App& program) {
  CLI::App* command = add_command(program, "bleu", "BLEU of translations against references, as sacreBLEU computes it",
                                  "seqgrad bleu ref.en out.en");
  auto options = std::make_shared<Bleu>();
  command->add_option("REF", options->reference, "translations by people, one a line (plain or gzipped)")->required();
  command->add_option("HYP", options->hypothesis, "translations to judge")->required();
  command->add_option("--tokenize", options->tokenize, "how lines become words")
      ->type_name("13a|none|char")
      ->capture_default_str();
  command->add_flag("--lowercase", options->lowercase, "ignore case");
  command->add_flag("--json", options->json, "write the result as JSON");
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
