#include "kernels/error.h"
#include "seq2seq/graph.h"
#include "seq2seq/text.h"
#include "tensor/file.h"
#include "tools/commands.h"
#include "tools/console.h"
#include "tools/graphviz.h"
#include "tools/setting_options.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

// Small, and all different, so that a shape tells what it is.
Settings small_model() {
  Settings settings;
  settings.embedding = 4;
  settings.hidden = 3;
  settings.decoder_hidden = 5;
  settings.attention_dim = 2;
  settings.dropout = 0;
  settings.min_frequency = 1;
  return settings;
}

struct ShowGraph {
  SettingOptions settings{small_model()};
  std::string sentence = "ein hund läuft", translation = "a dog runs", out;

  void run() const;
};

void ShowGraph::run() const {
  const bool svg = out.ends_with(".svg");
  if (!out.empty() && !svg && !out.ends_with(".dot"))
    throw_error("out is '{}': its name must end in .dot or .svg, which says what to write", out);
  Settings all = settings.values();
  if (!settings.given("decoder-hidden") && (all.bridge == "none" || all.attention == "luong_dot"))
    all.decoder_hidden = all.hidden * (all.bidirectional ? 2 : 1);  // they need states as wide as the encoder's
  check_settings(all);
  const SentencePair pair{split_whitespace(sentence), split_whitespace(translation)};
  if (pair.source.empty()) throw_error("sentence has no words");
  if (pair.target.empty()) throw_error("translation has no words");
  const Vocabulary both = Vocabulary::build({pair.source, pair.target});
  Run run(all, all.shared_vocabulary ? both : Vocabulary::build({pair.source}),
          all.shared_vocabulary ? both : Vocabulary::build({pair.target}));
  const std::string dot = translation_graph(run, encode_pair(pair, run.source, run.target));

  if (out.empty()) {
    write_result(dot);
    return;
  }
  if (!svg) return write_file(out, dot);
  const std::optional<std::string> picture = draw_svg(dot);
  if (picture) return write_file(out, *picture);
  write_result(dot);
  throw_failure("Graphviz's 'dot' is not installed, so {} was not drawn: the graph is on the standard output, in DOT", out);
}

}  // namespace

void add_show_graph(CLI::App& show) {
  CLI::App* command = add_command(show, "graph", "draw the computation graph of a small translator on one sentence pair",
                                  "seqgrad show graph --attention bahdanau --out graph.svg\n\n"
                                  "Without --out, DOT on the standard output, for Graphviz: seqgrad show graph | dot -Tpdf > "
                                  "graph.pdf");
  auto options = std::make_shared<ShowGraph>();
  command->add_option("--out", options->out, "file to write, its kind by its name; .svg needs Graphviz's dot")
      ->type_name("FILE.svg|FILE.dot");
  command->add_option("--sentence", options->sentence, "the source, a few words")->type_name("TEXT")->capture_default_str();
  command->add_option("--translation", options->translation, "its translation")->type_name("TEXT")->capture_default_str();
  std::set<std::string> without = settings_of_training;
  without.insert("vocabulary-size");
  options->settings.add_options(*command, without);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
