#include <fcntl.h>

#include <cstdlib>
#include <vector>

#include "seq2seq/settings.h"
#include "seq2seq/text.h"
#include "tests/fuzz/target.h"
#include "tools/search_options.h"
#include "tools/setting_options.h"

using namespace seqgrad;

namespace {

// What the program says goes nowhere.
class Silence {
 public:
  Silence() {
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    for (int i : {0, 1}) {
      kept_[i] = ::dup(i + 1);
      ::dup2(nowhere, i + 1);
    }
    ::close(nowhere);
  }
  ~Silence() {
    for (int i : {0, 1}) {
      ::dup2(kept_[i], i + 1);
      ::close(kept_[i]);
    }
  }

 private:
  int kept_[2];
};

}  // namespace

// Arguments, one a line, for commands that have the options of training and of translating and do nothing with them.
FUZZ_TARGET(command_line) {
  std::vector<std::string> words{"fuzz"};
  for (std::string_view rest = input.bytes(); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    words.emplace_back(rest.substr(0, end).substr(0, rest.find('\0')));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::setenv("GOMP_SPINCOUNT", "1000", 0);  // set, or the program would start itself anew
  const Silence silence;
  const int status =
      tools::run_program("fuzz", "", "1", static_cast<int>(words.size()), arguments.data(), [](CLI::App& program) {
        CLI::App* train = tools::add_command(program, "train", "train", "train");
        const auto settings = std::make_shared<tools::SettingOptions>();
        settings->add_options(*train);
        train->callback([settings] {
          seq2seq::Settings all;
          settings->apply(all);
          seq2seq::check_settings(all);
          const std::string text = seq2seq::to_toml(all);
          if (seq2seq::find_invalid_utf8(text) != text.npos) return;  // a file name may be anything, a settings file may not
          const fuzz::Input file(text);
          fuzz::require(seq2seq::to_toml(seq2seq::settings_from_toml(file.path())) == text, "settings stay the same");
        });
        CLI::App* translate = tools::add_command(program, "translate", "translate", "translate");
        const auto flags = std::make_shared<tools::SearchFlags>();
        const auto models = std::make_shared<std::vector<std::string>>();
        flags->add_options(*translate);
        tools::add_models(*translate, *models);
        translate->callback([flags, models] {
          seq2seq::SearchOptions options;
          flags->apply(options);
          seq2seq::check_search(options);
        });
      });
  fuzz::require(status == 0 || status == 2, "an exit status is 0 or 2");
}
