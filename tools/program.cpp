#include "tools/program.h"

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <new>

#include "kernels/error.h"
#include "kernels/threads.h"
#include "tensor/memory_purpose.h"
#include "tensor/tensor.h"
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
  set_default_device(Device::cuda);
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

  std::string name = program.get_name();  // with the subcommands that were understood
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
  if (const std::size_t at = text.find(": is '"); at != text.npos && dynamic_cast<const CLI::ValidationError*>(&error))
    return text.erase(at, 1);
  if (const std::string start = "Could not convert: "; text.starts_with(start)) {
    const std::size_t equals = text.find(" = ");
    if (equals != text.npos) {
      const std::string option = text.substr(start.size(), equals - start.size());
      const CLI::Option* const found = command->get_option_no_throw(option);
      return fmt::format("{} is '{}': it must be a {}number", option, text.substr(equals + 3),
                         found && found->get_type_name() == "N" ? "whole " : "");
    }
  }
  return text;
}

// What CLI11 takes: the nearest number that fits for one that does not, and no name for a file or folder.
void refuse_overflow_and_no_name(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    const std::string type = option->get_type_name();
    if (type == "DIR" || type.starts_with("RUN") || type.starts_with("FILE"))
      option->check([](const std::string& text) { return text.empty() ? "is '': it must be a name" : ""; });
    if (type == "N")
      option->check([](const std::string& text) {
        errno = 0;
        std::strtoll(text.c_str(), nullptr, 10);
        return errno == ERANGE ? fmt::format("is '{}': it must fit into 64 bits", text) : "";
      });
  }
  for (CLI::App* subcommand : command.get_subcommands([](CLI::App*) { return true; })) refuse_overflow_and_no_name(*subcommand);
}

void parse_and_run(CLI::App& program, int count, char** arguments) {
  try {
    program.parse(count, arguments);
  } catch (const CLI::CallForHelp&) {
    write_result(program.help());
  } catch (const CLI::CallForVersion& asked) {
    print("{}\n", asked.what());
  } catch (const CLI::ParseError& error) {
    throw_error("{}", complaint(program, error));
  }
  flush_results();
}

}  // namespace

int run_program(const std::string& name, const std::string& description, const std::string& version, int count,
                char** arguments, const std::function<void(CLI::App& program)>& declare) {
  let_idle_threads_sleep(arguments);
  prepare_streams();
  const auto fail = [&](int exit_status, const std::string& why) {
    try {
      flush_results();  // what was found before the error
    } catch (...) {
    }
    remark("{}: {}\n", name, why);
    return exit_status;
  };
  try {
    CLI::App program(description, name);
    const auto formatter = std::make_shared<HelpFormatter>();
    formatter->column_width(40);
    formatter->label("OPTIONS", "OPTION...");
    program.formatter(formatter);  // before the subcommands, which inherit it
    program.set_version_flag("--version", version);
    program.option_defaults()->take_last();  // of an option that is given twice
    declare(program);
    refuse_overflow_and_no_name(program);
    parse_and_run(program, count, arguments);
    return 0;
  } catch (const OutputClosed&) {
    return 0;
  } catch (const Interrupted& interrupted) {
    return fail(128 + interrupted.signal, interrupted.message);
  } catch (const seqgrad::Error& error) {
    return fail(error.exit_status(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(2, out_of_memory());
  } catch (const std::exception& error) {
    return fail(1, error.what());
  }
}

}  // namespace seqgrad::tools
