#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <deque>

#include "kernels/error.h"
#include "seq2seq/alignment_file.h"
#include "seq2seq/search.h"
#include "seq2seq/word_alignment.h"
#include "tensor/memory_purpose.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/line_queue.h"
#include "tools/search_options.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct Translate {
  std::vector<std::string> models, alignments;
  i64 nbest = 0, max_source_length = default_max_source_length;
  bool heatmap = false, ascii = false, replace_unknown = false;
  SearchOptions search;
  SearchFlags flags;
  Machine machine;

  void run();

 private:
  void check(const std::vector<std::unique_ptr<Run>>& runs) const;
  // Whether the standard output has alignments of this kind in the translations' place.
  bool instead(const char* kind) const { return std::count(alignments.begin(), alignments.end(), kind) > 0; }
};

// What needs an attention, and what excludes each other.
void Translate::check(const std::vector<std::unique_ptr<Run>>& runs) const {
  if (instead("soft") && instead("pharaoh")) throw_error("--alignments soft and pharaoh exclude each other: give one a FILE");
  if (max_source_length < 0) throw_error("max-source-length is {}: it must be at least 0", max_source_length);
  if (nbest > 0 && (heatmap || !alignments.empty()))
    throw_error("--nbest and --{} exclude each other", heatmap ? "heatmap" : "alignments");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    flags.precision_of(*runs[i]);
    const std::string& attention = runs[i]->settings.attention;
    if ((heatmap || !alignments.empty()) && attention == "none")
      throw_error("--{}: the model in {} has no attention (attention none), so it has no alignments",
                  heatmap ? "heatmap" : "alignments", models[i]);
    if (replace_unknown && (attention == "none" || attention == "mean"))
      throw_error("--replace-unk: the model in {} does not look at one word more than at another (attention {})", models[i],
                  attention);
  }
}

void Translate::run() {
  machine.start();
  flags.apply(search);
  search.nbest = std::max<i64>(1, nbest);
  if (nbest < 0) throw_error("nbest is {}: it must be at least 1", nbest);
  if (search.top_k > 0 && search.temperature == 0) throw_error("--top-k chooses among samples: add --sample 1");
  search.weights = heatmap || replace_unknown || !alignments.empty();
  check_search(search);
  const std::vector<std::unique_ptr<Run>> runs = open_ensemble(models);
  check(runs);
  std::vector<const Run*> pointers;
  for (const auto& one : runs) pointers.push_back(one.get());
  Translator translator(pointers, search);
  const Run& first = *runs[0];
  const HeatmapOptions drawing{ascii || !speaks_utf8(), terminal_width(STDERR_FILENO)};
  const auto tokens_of = [&](const std::vector<std::string>& source, const Translation& translation) {
    return replace_unknown ? words_with_copies(first, source, translation) : first.target.decode(translation.ids);
  };
  const auto text = [&](const std::vector<std::string>& tokens) { return first.tokenizers.target->join(tokens); };
  std::deque<AlignmentFile> files;
  for (const std::string& name : alignments)
    if (name != "soft" && name != "pharaoh") files.emplace_back(name, fmt::format("Alignments of {}", fmt::join(models, ", ")));
  const bool align = heatmap || !alignments.empty();

  i64 sentences = 0, cut_off = 0;
  const auto write = [&](const std::string& line, const std::vector<std::string>& source,
                         const std::vector<Translation>& found) {
    const Translation& best = found[0];
    cut_off += best.cut_off;
    if (nbest > 0) {
      for (const Translation& one : found)
        print("{} ||| {} ||| logprob= {:.6f} ||| {:.6f}\n", sentences, text(tokens_of(source, one)), one.log_probability,
              one.score);
      return;
    }
    const std::vector<std::string> tokens = tokens_of(source, best);
    const std::string translation = text(tokens);
    const Alignment alignment = align ? word_alignment(first, line, best, tokens) : Alignment();
    print("{}\n", instead("soft") ? to_json(alignment) : instead("pharaoh") ? to_pharaoh(alignment) : translation);
    for (AlignmentFile& file : files) file.add(line, translation, alignment);
    if (!heatmap) return;
    flush_results();
    write_remark(draw_heatmap(alignment, drawing));
  };

  // Several batches at once where more input is waiting, so that sentences of a length can go together.
  const std::size_t most = 16 * static_cast<std::size_t>(search.batch);
  LineQueue input(most);
  // And of long sources fewer at once, whose attention weights grow with their squares.
  constexpr double most_weights = 32e6;
  const MemoryPurpose purpose("a batch of translations", "lower --batch, --beam, --max-length or --max-source-length");
  for (std::vector<std::string> lines; input.take(lines, most);) {
    std::size_t begin = 0;
    while (begin < lines.size()) {
      std::vector<std::vector<std::string>> sources;
      for (double weights = 0; begin + sources.size() < lines.size() && weights < most_weights;) {
        const std::string& line = lines[begin + sources.size()];
        sources.push_back(first.tokenizers.source->split(line));
        cut_source(sources.back(), max_source_length, fmt::format("line {}", sentences + static_cast<i64>(sources.size())));
        weights += std::pow(static_cast<double>(sources.back().size()), 2);
      }
      const auto results = translator.nbest(sources);
      for (std::size_t i = 0; i < sources.size(); ++i, ++sentences) write(lines[begin + i], sources[i], results[i]);
      begin += sources.size();
    }
    flush_results();
  }
  for (AlignmentFile& file : files) file.commit();
  if (cut_off > 0)
    remark("{} of {} translations were cut off: they had not ended after {}\n", cut_off, sentences,
           flags.max_length > 0 ? fmt::format("{} words", flags.max_length) : "twice the source's words and ten");
}

}  // namespace

void add_translate(CLI::App& program) {
  CLI::App* command =
      add_command(program, "translate", "translate the standard input, line by line",
                  "echo 'ein hund läuft im park .' | seqgrad translate --model runs/sdp --beam 5\n\n"
                  "--nbest N writes N lines for each line, best first, as Moses does: the number of the line\n"
                  "from 0 on, the translation, its log-probability, and its score, by which they are sorted:\n"
                  "0 ||| a dog runs in the park . ||| logprob= -2.310911 ||| -1.155455\n\n"
                  "--alignments says which source words each word of the translation looked at; words are what\n"
                  "whitespace separates, however many tokens the model makes of them. FILE.html becomes a page\n"
                  "with a heat map for each line, FILE.json an object for each line, such as\n"
                  "{\"source\": [\"ein\", \"hund\", \"</s>\"], \"target\": [\"a\", \"dog\", \"</s>\"],\n"
                  " \"weights\": [[0.98, 0.02, 0], [0.01, 0.97, 0.02], [0, 0.01, 0.99]]}\n"
                  "in one line: a row of weights for each target word, a column for each source word. Any other\n"
                  "FILE has Pharaoh's pairs SOURCE-TARGET, words counted from 0: 0-0 1-1, for each target word\n"
                  "the source word that it looked at most; one that looked at </s> more has no pair. Files are\n"
                  "there when the input has ended. The words soft and pharaoh write objects and pairs on the\n"
                  "standard output instead of the translations.");
  auto options = std::make_shared<Translate>();
  add_models(*command, options->models);
  command->add_option("--batch", options->search.batch, "sentences at a time")->type_name("N")->capture_default_str();
  options->flags.add_options(*command);
  add_max_source_length(*command, options->max_source_length);
  command->add_option("--nbest", options->nbest, "write the N best translations of each line with their scores")
      ->type_name("N");
  command->add_option("--sample", options->search.temperature, "draw words at this temperature, 1 being the model's own")
      ->type_name("T");
  command->add_option("--top-k", options->search.top_k, "draw from the K likeliest words (0: from all)")
      ->type_name("K")
      ->capture_default_str();
  command->add_option("--seed", options->search.seed, "of what is drawn")->type_name("N")->capture_default_str();
  command->add_flag("--replace-unk", options->replace_unknown, "copy the source word most looked at in place of <unk>");
  command->add_option("--alignments", options->alignments, "write what each word looked at; may be given several times")
      ->type_name("FILE[.html|.json]|soft|pharaoh")
      ->allow_extra_args(false);
  command->add_flag("--heatmap", options->heatmap, "draw each sentence's attention on the standard error");
  command->add_flag("--ascii", options->ascii, "draw with ASCII characters alone");
  options->machine.add_options(*command);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
