#include <unistd.h>

#include "kernels/error.h"
#include "seq2seq/heatmap.h"
#include "seq2seq/search.h"
#include "seq2seq/text.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/line_queue.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct Translate {
  std::string model, alignments;
  i64 batch = 64;
  bool heatmap = false, ascii = false;
  Machine machine;

  void run() const;
};

void Translate::run() const {
  machine.start();
  if (batch < 1) throw_error("batch is {}: it must be at least 1", batch);
  if (!alignments.empty() && alignments != "soft") throw_error("alignments is '{}': it must be one of soft", alignments);
  const std::unique_ptr<Run> run = open_run(model);
  if ((heatmap || !alignments.empty()) && run->settings.attention == "none")
    throw_error("--{}: the model in {} has no attention (attention none), so it has no alignments",
                heatmap ? "heatmap" : "alignments", model);
  Translator translator(*run, {.batch = batch});
  const HeatmapOptions options{ascii || !speaks_utf8(), terminal_width(STDERR_FILENO)};

  // Several batches at once where more input is waiting, so that sentences of a length can go together.
  const std::size_t most = 16 * static_cast<std::size_t>(batch);
  LineQueue input(most);
  i64 sentences = 0, cut_off = 0;
  for (std::vector<std::string> lines; input.take(lines, most);) {
    std::vector<std::vector<std::string>> sources;
    for (const std::string& line : lines) sources.push_back(split_whitespace(line));
    const std::vector<Translation> translations = translator.translate(sources);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      ++sentences;
      cut_off += translations[i].cut_off;
      if (alignments.empty())
        print("{}\n", join(run->target.decode(translations[i].ids)));
      else
        print("{}\n", to_json(alignment_of(*run, sources[i], translations[i])));
      if (!heatmap) continue;
      flush_results();
      write_remark(draw_heatmap(alignment_of(*run, sources[i], translations[i]), options));
    }
    flush_results();
  }
  if (cut_off > 0)
    remark("{} of {} translations were cut off: they had not ended after twice the source's words and ten\n", cut_off,
           sentences);
}

}  // namespace

void add_translate(CLI::App& program) {
  CLI::App* command = add_command(program, "translate", "translate the standard input, line by line",
                                  "echo 'ein hund läuft im park .' | seqgrad translate --model runs/sdp\n\n"
                                  "--alignments soft writes for each line, instead of the translation, an object such as\n"
                                  "{\"source\": [\"ein\", \"hund\", \"</s>\"], \"target\": [\"a\", \"dog\", \"</s>\"],\n"
                                  " \"weights\": [[0.98, 0.02, 0], [0.01, 0.97, 0.02], [0, 0.01, 0.99]]}\n"
                                  "in one line: a row of weights for each target word, a column for each source word.");
  auto options = std::make_shared<Translate>();
  command->add_option("--model", options->model, "folder that 'seqgrad train' wrote")->type_name("RUN")->required();
  command->add_option("--batch", options->batch, "sentences at a time")->type_name("N")->capture_default_str();
  command->add_option("--alignments", options->alignments, "write attention weights as JSON, not text")->type_name("soft");
  command->add_flag("--heatmap", options->heatmap, "draw each sentence's attention on the standard error");
  command->add_flag("--ascii", options->ascii, "draw with ASCII characters alone");
  options->machine.add_options(*command);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
