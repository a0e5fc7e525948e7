#include "seq2seq/bleu.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/error.h"
#include "seq2seq/significance.h"
#include "seq2seq/text.h"
#include "tools/commands.h"
#include "tools/console.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;
using nlohmann::ordered_json;

// seqgrad bleu and seqgrad chrf: the same files, the same tests, other measures.
struct Scoring {
  std::string command;
  std::vector<std::string> files;
  std::string tokenize = "13a";
  bool lowercase = false, chrf = false, chrf_plus_plus = false;
  ChrfOptions chrf_options;  // of seqgrad chrf
  bool sentence_level = false, bootstrap = false, randomization = false, json = false;
  std::optional<i64> trials;
  i64 seed = 12345;

  void run() const;

 private:
  using Lines = std::vector<std::string>;

  BleuOptions bleu_options() const;
  std::vector<ChrfOptions> chrf_measures() const;
  void compare(const Lines& baseline, const Lines& system, const std::vector<Lines>& references) const;
  void print_corpus(const Lines& hypotheses, const std::vector<Lines>& references) const;
  void print_sentences(const Lines& hypotheses, const std::vector<Lines>& references) const;
};

BleuOptions Scoring::bleu_options() const {
  BleuOptions options;
  options.tokenize = bleu_tokenizer(tokenize);
  options.lowercase = lowercase;
  options.effective_order = sentence_level;  // as sacreBLEU has it
  return options;
}

std::vector<ChrfOptions> Scoring::chrf_measures() const {
  ChrfOptions options = chrf_options;
  options.lowercase = lowercase;
  if (command == "chrf") return {options};
  std::vector<ChrfOptions> all;
  for (const auto& [wanted, words] : {std::pair{chrf, 0}, std::pair{chrf_plus_plus, 2}}) {
    options.word_order = words;
    if (wanted) all.push_back(options);
  }
  return all;
}

std::string json_name(const ChrfOptions& options) { return options.word_order == 2 ? "chrf++" : "chrf"; }

ordered_json to_json(const BleuScore& score) {
  return {{"bleu", score.score},
          {"precisions", score.precisions},
          {"brevity_penalty", score.brevity_penalty},
          {"hypothesis_length", score.hypothesis_length},
          {"reference_length", score.reference_length},
          {"signature", score.signature}};
}

void Scoring::print_corpus(const Lines& hypotheses, const std::vector<Lines>& references) const {
  ordered_json result = ordered_json::object();
  if (command == "bleu") {
    const BleuScore score = corpus_bleu(hypotheses, references, bleu_options());
    result = to_json(score);
    if (!json) print("{}\nsignature: {}\n", score.format(), score.signature);
  }
  for (const ChrfOptions& options : chrf_measures()) {
    const double score = corpus_chrf(hypotheses, references, options);
    const std::string name = json_name(options), signature = chrf_signature(options, references.size());
    result[name] = score;
    result[command == "chrf" ? "signature" : name + "_signature"] = signature;
    if (!json) print("{} = {:.2f}\nsignature: {}\n", chrf_name(options), score, signature);
  }
  if (json) print("{}\n", result.dump());
}

// One line a sentence.
void Scoring::print_sentences(const Lines& hypotheses, const std::vector<Lines>& references) const {
  std::vector<BleuCounts> bleu;
  if (command == "bleu") bleu = bleu_counts(hypotheses, references, bleu_options());
  const std::vector<ChrfOptions> measures = chrf_measures();
  std::vector<Measured> chrf;
  for (const ChrfOptions& options : measures) chrf.push_back(measure_chrf(hypotheses, references, options));
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    ordered_json result = ordered_json::object();
    std::string line;
    if (!bleu.empty()) {
      const BleuScore score = bleu_from_counts(bleu[i], references.size(), bleu_options());
      result = to_json(score);
      line = score.format();
    }
    for (std::size_t k = 0; k < chrf.size(); ++k) {
      const double score = chrf[k].value(chrf[k].sentence(i));
      result[json_name(measures[k])] = score;
      line += fmt::format("{}{} = {:.2f}", line.empty() ? "" : "\t", chrf[k].name, score);
    }
    print("{}\n", json ? result.dump() : line);
  }
}

void Scoring::compare(const Lines& baseline, const Lines& system, const std::vector<Lines>& references) const {
  const i64 count = trials.value_or(bootstrap ? 1000 : 10000);
  const auto test = [&](const Measured& a, const Measured& b) {
    const u64 number = static_cast<u64>(seed);
    return bootstrap ? paired_bootstrap(a, b, count, number) : paired_randomization(a, b, count, number);
  };
  std::vector<Comparison> comparisons;
  if (command == "bleu")
    comparisons.push_back(
        test(measure_bleu(baseline, references, bleu_options()), measure_bleu(system, references, bleu_options())));
  for (const ChrfOptions& options : chrf_measures())
    comparisons.push_back(test(measure_chrf(baseline, references, options), measure_chrf(system, references, options)));

  const std::string &baseline_file = files[files.size() - 2], &system_file = files.back();
  const char* name = bootstrap ? "paired bootstrap resampling" : "paired approximate randomisation";
  ordered_json results = ordered_json::array();
  if (!json) print("{}: {} trials, seed {}, {} sentences\n", name, count, seed, baseline.size());
  for (const Comparison& one : comparisons) {
    const auto side = [&](const std::string& file, double score, const Confidence& confidence) {
      ordered_json entry = {{"file", file}, {"score", score}};
      if (bootstrap) {
        entry["mean"] = confidence.mean;
        entry["interval"] = confidence.interval;
      }
      return entry;
    };
    ordered_json entry = {{"metric", one.name},
                          {"baseline", side(baseline_file, one.baseline, one.baseline_confidence)},
                          {"system", side(system_file, one.system, one.system_confidence)},
                          {"difference", one.difference()}};
    if (bootstrap) entry["difference_interval"] = {one.difference_low, one.difference_high};
    entry["p_value"] = one.p_value;
    entry["signature"] = one.signature;
    results.push_back(entry);
    if (json) continue;

    const auto spread = [&](const Confidence& of) {
      return bootstrap ? fmt::format("  mean {:.2f} ± {:.2f}", of.mean, of.interval) : "";
    };
    print("\n{}\n", one.name);
    print("  baseline    {:6.2f}{}  {}\n", one.baseline, spread(one.baseline_confidence), baseline_file);
    print("  system      {:6.2f}{}  {}\n", one.system, spread(one.system_confidence), system_file);
    print("  difference  {:+6.2f}", one.difference());
    if (bootstrap) print("  95% from {:+.2f} to {:+.2f}", one.difference_low, one.difference_high);
    print("  p = {:.4f}{}\n", one.p_value, one.p_value < 0.05 ? ", significant at 0.05" : "");
    print("  signature   {}\n", one.signature);
  }
  if (json)
    print("{}\n",
          ordered_json{{"test", name}, {"trials", count}, {"seed", seed}, {"sentences", baseline.size()}, {"results", results}}
              .dump());
}

void Scoring::run() const {
  const bool paired = bootstrap || randomization;
  const std::size_t systems = paired ? 2 : 1;
  if (files.size() <= systems)
    throw_error("{} too few: seqgrad {} REF... HYP{}",
                files.size() == 1 ? "1 file is" : fmt::format("{} files are", files.size()), command,
                !paired     ? ""
                : bootstrap ? " HYP2 --paired-bs"
                            : " HYP2 --paired-ar");
  if (!paired && trials) throw_error("--trials requires --paired-bs or --paired-ar");
  if (trials && *trials < 1) throw_error("trials is {}: it must be at least 1", *trials);
  if (seed < 0) throw_error("seed is {}: it must not be negative", seed);
  bleu_tokenizer(tokenize);
  check_options(chrf_options);

  std::vector<Lines> texts;
  for (const std::string& file : files) {
    texts.push_back(read_lines(file));
    // As sacreBLEU reads them. Only a count of whitespace could see the difference.
    for (std::string& line : texts.back()) line.resize(without_trailing_whitespace(line).size());
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::size_t reference = std::min(i, files.size() - systems - 1), other = std::max(i, files.size() - systems);
    if (texts[reference].size() != texts[other].size())
      throw_error("{} has {} lines but {} has {}: references and translations must match line by line", files[reference],
                  texts[reference].size(), files[other], texts[other].size());
  }
  if (texts.front().empty()) throw_error("{} and {} are empty", files.front(), files.back());

  const std::vector<Lines> references(texts.begin(), texts.end() - static_cast<std::ptrdiff_t>(systems));
  const BleuTokenizer splits = command == "bleu" ? bleu_tokenizer(tokenize) : BleuTokenizer::none;
  for (std::size_t i = references.size(); i < files.size(); ++i)
    for (const std::string& warning : text_warnings(texts[i], references, splits))
      remark("warning: {}: {}\n", files[i], warning);
  if (paired) {
    compare(texts[texts.size() - 2], texts.back(), references);
  } else if (sentence_level) {
    print_sentences(texts.back(), references);
  } else {
    print_corpus(texts.back(), references);
  }
}

std::shared_ptr<Scoring> add_scoring(CLI::App& program, const std::string& name, const std::string& description,
                                     const std::string& example) {
  CLI::App* command = add_command(program, name, description, example);
  auto options = std::make_shared<Scoring>();
  options->command = name;
  command
      ->add_option("FILE", options->files,
                   "REF... HYP: one or more translations by people, then the one to judge; with a paired test REF... HYP HYP2, "
                   "HYP being the baseline. One sentence a line, plain or gzipped")
      ->type_name("")
      ->required();
  if (name == "bleu") {
    command->add_option("--tokenize", options->tokenize, "how lines become words")
        ->type_name("13a|none|intl|char")
        ->capture_default_str();
    command->add_flag("--chrf", options->chrf, "measure chrF as well");
    command->add_flag("--chrf++", options->chrf_plus_plus, "measure chrF++ as well");
  } else {
    ChrfOptions& chrf = options->chrf_options;
    command->add_option("--char-order", chrf.char_order, "longest n-gram of characters")->type_name("N")->capture_default_str();
    command->add_option("--word-order", chrf.word_order, "longest n-gram of words (2: chrF++)")
        ->type_name("N")
        ->capture_default_str();
    command->add_option("--beta", chrf.beta, "how many times as much recall counts")->type_name("N")->capture_default_str();
    command->add_flag("--whitespace", chrf.whitespace, "count whitespace among the characters");
  }
  command->add_flag("--lowercase", options->lowercase, "ignore case");
  CLI::Option* sentences = command->add_flag("--sentence-level", options->sentence_level, "a line for each sentence");
  CLI::Option* bootstrap =
      command->add_flag("--paired-bs", options->bootstrap, "compare HYP2 with HYP by paired bootstrap resampling");
  CLI::Option* randomization =
      command->add_flag("--paired-ar", options->randomization, "compare them by paired approximate randomisation");
  bootstrap->excludes(randomization)->excludes(sentences);
  randomization->excludes(sentences);
  command->add_option("--trials", options->trials, "of the paired test: 1000 of the first and 10000 of the second if not given")
      ->type_name("N");
  command->add_option("--seed", options->seed, "of the paired test")->type_name("N")->capture_default_str();
  command->add_flag("--json", options->json, "write the result as JSON");
  command->callback([options] { options->run(); });
  return options;
}

}  // namespace

void add_bleu(CLI::App& program) {
  add_scoring(program, "bleu", "BLEU of translations against references, as sacreBLEU computes it",
              "seqgrad bleu ref.en out.en");
}

void add_chrf(CLI::App& program) {
  add_scoring(program, "chrf", "chrF and chrF++ of translations, as sacreBLEU computes them",
              "seqgrad chrf ref.en out.en --word-order 2");
}

}  // namespace seqgrad::tools
