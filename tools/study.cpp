#include "seq2seq/study.h"

#include "kernels/error.h"
#include "seq2seq/text.h"
#include "tensor/file.h"
#include "tools/commands.h"
#include "tools/console.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct StudyCommand {
  const StudyEntry* entry = nullptr;
  StudyOptions options;
  std::string html;
  bool json = false;
  Machine machine;

  void run() const;
};

void StudyCommand::run() const {
  machine.start();
  const Study study = entry->run(options);
  if (!html.empty()) write_file(html, to_html(study));
  print("{}", json ? to_json(study) + "\n" : to_text(study));
  flush_results();
  if (!study.holds()) throw_failure("the study '{}' does not hold: see the rows that are too large", study.name);
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
    command->add_option("--html", one->html, "write a report with plots that opens from the file alone")->type_name("FILE");
    command->add_flag("--json", one->json, "write the result as JSON");
    one->machine.add_options(*command);
    command->callback([one] { one->run(); });
  }
}

}  // namespace seqgrad::tools
