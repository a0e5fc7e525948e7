#include "tools/setting_options.h"

#include <type_traits>

#include "kernels/error.h"

namespace seqgrad::tools {

using seq2seq::for_each_setting;
using seq2seq::Settings;

void SettingOptions::add_options(CLI::App& command, const std::set<std::string>& without) {
  for_each_setting(values_, [&](const std::string& name, auto& value, const char* help, const std::string& allowed) {
    if (without.contains(name)) return;
    using T = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<T, bool>) {
      options_[name] = command.add_flag(fmt::format("--{0},!--no-{0}", name), value, help);
    } else {
      CLI::Option* option = command.add_option("--" + name, value, help);
      option->type_name(!allowed.empty()                 ? allowed
                        : std::is_same_v<T, std::string> ? "FILE"
                        : std::is_same_v<T, i64>         ? "N"
                                                         : "X");
      if (fmt::format("{}", value) != "") option->default_str(fmt::format("{}", value));
      options_[name] = option;
    }
  });
}

bool SettingOptions::given(const std::string& name) const {
  const auto option = options_.find(name);
  return option != options_.end() && option->second->count() > 0;
}

namespace {

// f(name, ours, theirs) for each setting of the two.
template <class A, class B, class F>
void for_each_in_both(A& a, B& b, F&& f) {
  for_each_setting(a, [&](std::string_view name, auto& ours, const char*, const char*) {
    for_each_setting(b, [&](std::string_view other, auto& theirs, const char*, const char*) {
      if constexpr (std::is_same_v<std::decay_t<decltype(ours)>, std::decay_t<decltype(theirs)>>)
        if (name == other) f(std::string(name), ours, theirs);
    });
  });
}

}  // namespace

void SettingOptions::apply(Settings& settings) const {
  for_each_in_both(settings, values_, [&](const std::string& name, auto& target, const auto& value) {
    if (given(name)) target = value;
  });
}

void SettingOptions::check_same(const Settings& settings, const std::string& file) const {
  for_each_in_both(settings, values_, [&](const std::string& name, const auto& kept, const auto& value) {
    if (given(name) && !seq2seq::may_change(name) && kept != value)
      throw_error("--{} is {}, but {} says {}: a resumed run keeps its settings", name, value, file, kept);
  });
}

}  // namespace seqgrad::tools
