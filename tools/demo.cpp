#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "kernels/error.h"
#include "kernels/threads.h"
#include "seq2seq/bleu.h"
#include "seq2seq/demo_corpus.h"
#include "seq2seq/report.h"
#include "seq2seq/text.h"
#include "seq2seq/timing.h"
#include "tensor/file.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/progress.h"
#include "tools/run_folder.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;
namespace fs = std::filesystem;

// A perfect model of the grammar has perplexity 1 and BLEU 100.
constexpr double good_enough_perplexity = 1.01, least_bleu = 95;

struct Demo {
  std::string out = "seqgrad-demo";
  i64 seed = 1, epochs = 20;
  bool ascii = false;
  Machine machine{.threads = 1};  // its products are too small to be shared

  void run() const;
};

struct Judged {
  SentencePair pair;
  Translation translation;
  std::string text;
  Alignment alignment;

  bool right() const { return text == join(pair.target); }
};

void write_side(const std::string& path, const std::vector<SentencePair>& pairs, bool source) {
  std::string text;
  for (const SentencePair& pair : pairs) text += join(source ? pair.source : pair.target) + "\n";
  write_file(path, text);
}

// The folder holds what an earlier demo wrote, or nothing of a run. It is this process's own from here on.
std::unique_ptr<FileLock> clear_folder(const std::string& folder) {
  check_writable(folder);
  if (holds_run(folder) && !fs::exists(fs::path(folder) / "corpus" / "train.de"))
    throw_error("{} holds a run that the demo did not make: choose another --out", folder);
  std::unique_ptr<FileLock> lock = lock_run(folder);
  std::error_code error;
  for (const char* file : {"config.toml", "model.safetensors", "checkpoint.safetensors", "metrics.jsonl", "report.html"})
    fs::remove(path_in(folder, file), error);
  fs::create_directories(fs::path(folder) / "corpus", error);
  if (error) throw_failure("cannot make the folder {}: {}", folder, error.message());
  return lock;
}

Settings write_corpus(const DemoCorpus& corpus, const std::string& folder) {
  const auto file = [&](const char* name) { return (fs::path(folder) / "corpus" / name).string(); };
  write_side(file("train.de"), corpus.train, true);
  write_side(file("train.en"), corpus.train, false);
  write_side(file("valid.de"), corpus.valid, true);
  write_side(file("valid.en"), corpus.valid, false);
  write_side(file("test.de"), corpus.test, true);
  write_side(file("test.en"), corpus.test, false);
  Settings settings;
  settings.train_source = file("train.de");
  settings.train_target = file("train.en");
  settings.valid_source = file("valid.de");
  settings.valid_target = file("valid.en");
  settings.attention = "sdp";
  settings.embedding = 64;
  settings.hidden = 128;
  settings.decoder_hidden = 128;
  settings.attention_dim = 64;
  settings.dropout = 0.1;
  settings.batch = 64;
  settings.learning_rate = 2e-3;
  return settings;
}

std::vector<Judged> translate_all(const Run& run, const std::vector<SentencePair>& pairs) {
  std::vector<std::vector<std::string>> sources;
  for (const SentencePair& pair : pairs) sources.push_back(pair.source);
  std::vector<Translation> translations = Translator(run, {.batch = 64}).translate(sources);
  std::vector<Judged> all;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    Judged one{pairs[i], std::move(translations[i]), "", {}};
    one.text = join(run.target.decode(one.translation.ids));
    one.alignment = alignment_of(run, one.pair.source, one.translation);
    all.push_back(std::move(one));
  }
  return all;
}

// Right translations first; of them those that fit a terminal, with many words in another order and sure of each word.
std::vector<std::size_t> most_reordered(const std::vector<Judged>& all) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank = [&](std::size_t i) {
    const Alignment& alignment = all[i].alignment;
    double sure = 1;
    for (const auto& row : alignment.weights) sure = std::min(sure, double{*std::max_element(row.begin(), row.end())});
    const double reordered = alignment.source.size() <= 13 ? static_cast<double>(crossings(alignment)) : 0;
    return (all[i].right() ? 1 : 0) + reordered * sure * sure;
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) > rank(b); });
  return order;
}

void Demo::run() const {
  machine.start();
  if (seed < 0) throw_error("seed is {}: it must be at least 0", seed);
  if (epochs < 1) throw_error("epochs is {}: it must be at least 1", epochs);
  const std::unique_ptr<FileLock> lock = clear_folder(out);
  const DemoCorpus corpus = make_demo_corpus(static_cast<u64>(seed));
  Settings settings = write_corpus(corpus, out);
  settings.seed = seed;
  settings.epochs = epochs;
  settings.threads = machine.threads;
  const Prepared prepared = prepare(settings);
  Run& run = *prepared.run;
  start_folder(run, out);

  print("German-English captions out of a small grammar: {} sentence pairs to learn from, {} to test, none in both (seed {})\n",
        corpus.train.size(), corpus.test.size(), seed);
  print("Model: bidirectional GRU encoder, scaled dot-product attention, GRU decoder; {} parameters, {} threads\n\n",
        run.model.parameter_count(), threads());
  flush_results();
  const auto start = Clock::now();
  Progress progress(settings);
  Trainer trainer;
  i64 trained = 0;
  trainer.on_step = [&](const StepReport& report) { progress.step(report); };
  trainer.on_remark = [&](const std::string& text) { progress.remark(text); };
  trainer.on_validation = [&](const ValidationReport& report) {
    progress.validation(report);
    trained = report.epoch;
    if (report.validation_perplexity < good_enough_perplexity) run.settings.epochs = report.epoch;  // enough
  };
  trainer.train(run, prepared.data, out);
  const double seconds = seconds_since(start);
  load_weights(run, path_in(out, "model.safetensors"));

  const std::vector<Judged> all = translate_all(run, corpus.test);
  std::vector<std::string> hypotheses, references;
  std::size_t right = 0;
  for (const Judged& one : all) {
    hypotheses.push_back(one.text);
    references.push_back(join(one.pair.target));
    right += one.right();
  }
  BleuOptions options;
  options.tokenize = BleuTokenizer::none;
  const BleuScore bleu = corpus_bleu(hypotheses, {references}, options);
  const std::vector<std::size_t> order = most_reordered(all);

  print("Unseen sentences:\n\n");
  for (std::size_t i = 0; i < 5 && i < all.size(); ++i)
    print("  source       {}\n  reference    {}\n  translation  {}\n\n", join(all[i].pair.source), references[i], all[i].text);
  const Judged& shown = all[order.front()];
  print("Where the translation of \"{}\" looked\n(rows: its words; columns: words of the source):\n\n{}\n",
        join(shown.pair.source), draw_heatmap(shown.alignment, {ascii || !speaks_utf8(), terminal_width(STDOUT_FILENO)}));

  Report report;
  report.title = "seqgrad demo";
  report.introduction =
      "A translator trained from nothing on German-English captions out of a small grammar, and what it makes of sentences it "
      "has not seen.";
  report.facts = {{"BLEU", fmt::format("{:.2f}, {}", bleu.score, bleu.signature)},
                  {"unseen sentences", fmt::format("{}, {} of them translated without a fault", all.size(), right)},
                  {"training", fmt::format("{} sentence pairs, {} epochs, {:.1f} s on {} threads", corpus.train.size(), trained,
                                           seconds, threads())},
                  {"model", fmt::format("{} parameters, seed {}", run.model.parameter_count(), seed)}};
  report.validations = read_metrics(path_in(out, "metrics.jsonl"));
  for (std::size_t i = 0; i < 10 && i < order.size(); ++i) {
    const Judged& one = all[order[i]];
    report.sentences.push_back({join(one.pair.source), join(one.pair.target), one.text, one.alignment});
  }
  for (std::size_t i = 0; i < all.size() && report.sentences.size() < 15; ++i)
    if (!all[i].right()) report.sentences.push_back({join(all[i].pair.source), references[i], all[i].text, all[i].alignment});
  write_file(path_in(out, "report.html"), to_html(report));

  print("{} on {} unseen sentences, {} of them without a fault; {} epochs in {:.1f} s\n", bleu.format(), all.size(), right,
        trained, seconds);
  print("Report: {}\nMore:   echo 'der hund schläft .' | seqgrad translate --model {} --heatmap\n", path_in(out, "report.html"),
        out);
  if (bleu.score < least_bleu) throw_failure("BLEU is {:.1f}, and at least {} is expected of the demo", bleu.score, least_bleu);
}

}  // namespace

void add_demo(CLI::App& program) {
  CLI::App* command = add_command(program, "demo", "train a small translator, translate with it, draw its attention",
                                  "seqgrad demo --out runs/demo --seed 2");
  auto options = std::make_shared<Demo>();
  command->add_option("--out", options->out, "folder of the run; that of an earlier demo is replaced")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the corpus, the initial weights and the data order")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--epochs", options->epochs, "passes over the training text at most; training ends when it is good enough")
      ->type_name("N")
      ->capture_default_str();
  command->add_flag("--ascii", options->ascii, "draw with ASCII characters alone");
  options->machine.add_options(*command);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
