// The program: finds the subcommand, and turns every error into one line and an exit status.
#include <unistd.h>

#include <exception>
#include <new>

#include "kernels/error.h"
#include "kernels/kernels.h"
#include "kernels/threads.h"
#include "tools/commands.h"
#include "tools/console.h"

namespace seqgrad::tools {

CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& description, const std::string& example) {
  CLI::App* command = parent.add_subcommand(name, description);
  command->footer(fmt::format("Example: {}", example));
  return command;
}

void Machine::add_options(CLI::App& command) {
  command.add_option("--threads", threads, "threads (0: all cores)")->type_name("N")->capture_default_str();
  command.add_option("--device", device, "where to compute")->type_name("cpu|cuda")->capture_default_str();
}

void Machine::start() const {
  require_device(device);
  if (threads < 0 || threads > 4096) throw_error("threads is {}: it must be from 0 to 4096", threads);
  set_threads(static_cast<int>(threads));
}

void require_device(const std::string& device) {
  if (device == "cpu") return;
  if (device != "cuda") throw_error("device is '{}': it must be one of cpu|cuda", device);
  throw_error("this build has no CUDA support: use --device cpu");
}

namespace {

// "--batch N    sentences at a time [64]"
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string type = option->get_type_size() > 0 ? option->get_type_name() : "";
    return type.empty() ? "" : " " + type;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string value = option->get_default_str();
    return option->get_description() + (option->get_required() ? " (required)" : value.empty() ? "" : " [" + value + "]");
  }
};

// CLI11's complaints in this program's words.
std::string complaint(const CLI::App& program, const CLI::ParseError& error) {
  std::string text = error.what();
  for (char& c : text)
    if (c == '\n') c = ' ';
  while (!text.empty() && text.back() == ' ') text.pop_back();

  std::string name = "seqgrad";  // with the subcommands that were understood
  const CLI::App* command = &program;
  for (auto next = command->get_subcommands(); !next.empty(); next = command->get_subcommands()) {
    command = next.front();
    name += " " + command->get_name();
  }
  const std::string help = fmt::format("'{} --help' lists what there is", name);
  const std::vector<std::string> extras = program.remaining(true);
  const bool lacks_command = text.find("subcommand is required") != text.npos;
  if (!extras.empty() && (lacks_command || dynamic_cast<const CLI::ExtrasError*>(&error))) {
    const std::string& first = extras.front();
    const bool wants_command = !command->get_subcommands([](const CLI::App*) { return true; }).empty();
    return fmt::format("unknown {} '{}': {}",
                       first.starts_with("-") ? "option"
                       : wants_command        ? "command"
                                              : "argument",
                       first, help);
  }
  if (lacks_command) return fmt::format("a command is missing: {}", help);
  if (const std::size_t at = text.find(": 1 required "); at != text.npos && text.ends_with(" missing"))
    return fmt::format("{} needs a value", text.substr(0, at));
  if (const std::string start = "Could not convert: "; text.starts_with(start)) {
    const std::size_t equals = text.find(" = ");
    if (equals != text.npos)
      return fmt::format("{} is '{}': it must be a number", text.substr(start.size(), equals - start.size()),
                         text.substr(equals + 3));
  }
  return text;
}

int run(int count, char** arguments) {
  CLI::App program("Trains attention translators, translates with them, and shows that the gradients are right.", "seqgrad");
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(40);
  formatter->label("OPTIONS", "OPTION...");
  program.formatter(formatter);
  program.set_version_flag("--version",
                           fmt::format("seqgrad {} (CPU routines: {}; no CUDA)", SEQGRAD_VERSION, kernels::cpu_level()));
  program.require_subcommand(1);
  program.option_defaults()->take_last();  // of an option that is given twice
  program.footer("Example: seqgrad demo\n'seqgrad COMMAND --help' lists a command's options.");
  add_demo(program);
  add_train(program);
  add_translate(program);
  add_evaluate(program);
  add_bleu(program);
  CLI::App* check = add_command(program, "check", "check that results are right", "seqgrad check gradients");
  check->require_subcommand(1);
  add_check_gradients(*check);
  add_check_parity(*check);
  CLI::App* bench = add_command(program, "bench", "measure speed", "seqgrad bench train");
  bench->require_subcommand(1);
  add_bench_train(*bench);

  try {
    program.parse(count, arguments);
  } catch (const CLI::CallForHelp&) {
    write_result(program.help());
  } catch (const CLI::CallForVersion& version) {
    print("{}\n", version.what());
  } catch (const CLI::ParseError& error) {
    throw_error("{}", complaint(program, error));
  }
  flush_results();
  return 0;
}

}  // namespace
}  // namespace seqgrad::tools

int main(int count, char** arguments) {
  using namespace seqgrad::tools;
  let_idle_threads_sleep(arguments);
  prepare_streams();
  int status = 1;
  const auto fail = [&](int exit_status, const std::string& why) {
    status = exit_status;
    try {
      flush_results();  // what was found before the error
    } catch (...) {
    }
    remark("seqgrad: {}\n", why);
  };
  try {
    status = run(count, arguments);
  } catch (const OutputClosed&) {
    status = 0;
  } catch (const seqgrad::Error& error) {
    fail(error.exit_status(), error.what());
  } catch (const std::bad_alloc&) {
    fail(1, "out of memory");
  } catch (const std::exception& error) {
    fail(1, error.what());
  }
  return status;
}
