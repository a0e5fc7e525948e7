#include <unistd.h>

#include "kernels/error.h"
#include "seq2seq/heatmap.h"
#include "seq2seq/search.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/line_queue.h"
#include "tools/search_options.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct Translate {
  std::vector<std::string> models;
  std::string alignments;
  i64 nbest = 0;
  bool heatmap = false, ascii = false, replace_unknown = false;
  SearchOptions search;
  SearchFlags flags;
  Machine machine;

  void run();

 private:
  void check(const std::vector<std::unique_ptr<Run>>& runs) const;
};

// What needs an attention, and what excludes each other.
void Translate::check(const std::vector<std::unique_ptr<Run>>& runs) const {
  if (!alignments.empty() && alignments != "soft") throw_error("alignments is '{}': it must be one of soft", alignments);
  if (nbest > 0 && (heatmap || !alignments.empty()))
    throw_error("--nbest and --{} exclude each other", heatmap ? "heatmap" : "alignments");
  for (std::size_t i = 0; i < runs.size(); ++i) {
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
  const auto text = [&](const std::vector<std::string>& source, const Translation& translation) {
    return replace_unknown ? first.tokenizers.target->join(words_with_copies(first, source, translation))
                           : first.text(translation.ids);
  };

  // Several batches at once where more input is waiting, so that sentences of a length can go together.
  const std::size_t most = 16 * static_cast<std::size_t>(search.batch);
  LineQueue input(most);
  i64 sentences = 0, cut_off = 0;
  for (std::vector<std::string> lines; input.take(lines, most);) {
    std::vector<std::vector<std::string>> sources;
    for (const std::string& line : lines) sources.push_back(first.tokenizers.source->split(line));
    const auto results = translator.nbest(sources);
    for (std::size_t i = 0; i < lines.size(); ++i, ++sentences) {
      const Translation& best = results[i][0];
      cut_off += best.cut_off;
      if (nbest > 0)
        for (const Translation& one : results[i])
          print("{} ||| {} ||| logprob= {:.6f} ||| {:.6f}\n", sentences, text(sources[i], one), one.log_probability, one.score);
      else if (!alignments.empty())
        print("{}\n", to_json(alignment_of(first, sources[i], best)));
      else
        print("{}\n", text(sources[i], best));
      if (!heatmap) continue;
      flush_results();
      write_remark(draw_heatmap(alignment_of(first, sources[i], best), drawing));
    }
    flush_results();
  }
  if (cut_off > 0)
    remark("{} of {} translations were cut off: they had not ended after {}\n", cut_off, sentences,
           flags.max_length > 0 ? fmt::format("{} words", flags.max_length) : "twice the source's words and ten");
}

}  // namespace

void add_translate(CLI::App& program) {
  CLI::App* command = add_command(program, "translate", "translate the standard input, line by line",
                                  "echo 'ein hund läuft im park .' | seqgrad translate --model runs/sdp --beam 5\n\n"
                                  "--nbest N writes N lines for each line, best first, as Moses does: the number of the line\n"
                                  "from 0 on, the translation, its log-probability, and its score, by which they are sorted:\n"
                                  "0 ||| a dog runs in the park . ||| logprob= -2.310911 ||| -1.155455\n\n"
                                  "--alignments soft writes for each line, instead of the translation, an object such as\n"
                                  "{\"source\": [\"ein\", \"hund\", \"</s>\"], \"target\": [\"a\", \"dog\", \"</s>\"],\n"
                                  " \"weights\": [[0.98, 0.02, 0], [0.01, 0.97, 0.02], [0, 0.01, 0.99]]}\n"
                                  "in one line: a row of weights for each target word, a column for each source word.");
  auto options = std::make_shared<Translate>();
  add_models(*command, options->models);
  command->add_option("--batch", options->search.batch, "sentences at a time")->type_name("N")->capture_default_str();
  options->flags.add_options(*command);
  command->add_option("--nbest", options->nbest, "write the N best translations of each line with their scores")
      ->type_name("N");
  command->add_option("--sample", options->search.temperature, "draw words at this temperature, 1 being the model's own")
      ->type_name("T");
  command->add_option("--top-k", options->search.top_k, "draw from the K likeliest words (0: from all)")
      ->type_name("K")
      ->capture_default_str();
  command->add_option("--seed", options->search.seed, "of what is drawn")->type_name("N")->capture_default_str();
  command->add_flag("--replace-unk", options->replace_unknown, "copy the source word most looked at in place of <unk>");
  command->add_option("--alignments", options->alignments, "write attention weights as JSON, not text")->type_name("soft");
  command->add_flag("--heatmap", options->heatmap, "draw each sentence's attention on the standard error");
  command->add_flag("--ascii", options->ascii, "draw with ASCII characters alone");
  options->machine.add_options(*command);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
