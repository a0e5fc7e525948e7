#include "seq2seq/study.h"

#include "kernels/error.h"
#include "seq2seq/text.h"
#include "tensor/file.h"
#include "tools/commands.h"
#include "tools/console.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

// How a study's result is asked for.
struct Output {
  std::string html;
  bool json = false;
  Machine machine;

  void add_options(CLI::App& command);
  void write(const Study& study) const;
};

void Output::add_options(CLI::App& command) {
  command.add_option("--html", html, "write a report with plots that opens from the file alone")->type_name("FILE");
  command.add_flag("--json", json, "write the result as JSON");
  machine.add_options(command);
}

void Output::write(const Study& study) const {
  if (!html.empty()) write_file(html, to_html(study));
  print("{}", json ? to_json(study) + "\n" : to_text(study));
  flush_results();
  if (!study.holds()) throw_failure("the study '{}' does not hold: see the rows that are too large", study.name);
}

struct StudyCommand {
  const StudyEntry* entry = nullptr;
  StudyOptions options;
  Output output;

  void run() const {
    output.machine.start();
    output.write(entry->run(options));
  }
};

struct BottleneckCommand {
  BottleneckOptions options;
  Output output;

  void run() {
    output.machine.start();
    options.progress = [](const std::string& line) { remark("{}\n", line); };
    output.write(bottleneck_study(options));
  }
};

void add_bottleneck(CLI::App& study) {
  CLI::App* command = add_command(study, "bottleneck", "what one state holds of a sentence, and what attention gives back",
                                  "seqgrad study bottleneck --cells gru --longest 16 --html bottleneck.html");
  auto one = std::make_shared<BottleneckCommand>();
  BottleneckOptions& options = one->options;
  command->add_option("--attentions", options.attentions, "to compare, separated by commas")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->default_str("none,mean,sdp,bahdanau");
  command->add_option("--cells", options.cells, "likewise")->type_name("NAME,...")->delimiter(',')->default_str("rnn,lstm,gru");
  command->add_option("--longest", options.longest, "symbols of the longest sentences")->type_name("N")->capture_default_str();
  command->add_option("--symbols", options.symbols, "how many different ones")->type_name("N")->capture_default_str();
  command->add_option("--hidden", options.hidden, "width of the state")->type_name("N")->capture_default_str();
  command->add_option("--steps", options.steps, "of each training")->type_name("N")->capture_default_str();
  command->add_option("--sentences", options.sentences, "of each length, to test on")->type_name("N")->capture_default_str();
  command->add_option("--seed", options.seed, "of text and weights")->type_name("N")->capture_default_str();
  one->output.add_options(*command);
  command->callback([one] { one->run(); });
}

}  // namespace

void add_study(CLI::App& program) {
  CLI::App* study = add_command(program, "study", "what attention can do and cannot: closed form beside measurement",
                                "seqgrad study averaging --sweep 0,1,10,40 --html averaging.html");
  study->require_subcommand(1);
  for (const StudyEntry& entry : studies()) {
    CLI::App* command =
        add_command(*study, entry.name, entry.summary, fmt::format("seqgrad study {} --html {}.html", entry.name, entry.name));
    auto one = std::make_shared<StudyCommand>();
    one->entry = &entry;
    StudyOptions& options = one->options;
    command->add_option("--m", options.m, "number of keys")->type_name("N")->capture_default_str();
    command->add_option("--d", options.d, "their dimensions, at least as many")->type_name("N")->capture_default_str();
    command->add_option("--c", options.c, "length of the query, in units of a key")->type_name("X")->capture_default_str();
    command->add_option("--beta", options.beta, "variance of noisy keys' lengths")->type_name("X")->capture_default_str();
    command->add_option("--samples", options.samples, "of Monte-Carlo means")->type_name("N")->capture_default_str();
    command->add_option("--sweep", options.sweep, "values of c, separated by commas")
        ->type_name("X,...")
        ->delimiter(',')
        ->capture_default_str();
    command->add_option("--seed", options.seed, "of keys, values and samples")->type_name("N")->capture_default_str();
    one->output.add_options(*command);
    command->callback([one] { one->run(); });
  }
  add_bottleneck(*study);
}

}  // namespace seqgrad::tools
