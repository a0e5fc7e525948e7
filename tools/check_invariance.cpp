#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "seq2seq/invariance.h"
#include "seq2seq/text.h"
#include "tools/commands.h"
#include "tools/console.h"

namespace seqgrad::tools {
namespace {

using namespace seq2seq;

struct CheckInvariance {
  std::string model, source, target;
  InvarianceOptions options;
  bool json = false;
  Machine machine;

  void run() const;
};

struct Text {
  std::vector<EncodedPair> pairs;
  std::vector<i64> lines;  // where each stands in the file
  i64 empty = 0;
};

Text read_text(const Run& run, const std::string& source, const std::string& target) {
  const std::vector<std::string> source_lines = read_lines(source);
  const std::vector<std::string> target_lines = target.empty() ? std::vector<std::string>() : read_lines(target);
  if (!target.empty() && source_lines.size() != target_lines.size())
    throw_error("{} has {} lines but {} has {}: a source and its target must match line by line", source, source_lines.size(),
                target, target_lines.size());
  Text text;
  for (std::size_t i = 0; i < source_lines.size(); ++i) {
    SentencePair pair{run.tokenizers.source->split(source_lines[i]), {}};
    if (!target.empty()) pair.target = run.tokenizers.target->split(target_lines[i]);
    if (pair.source.empty()) {
      ++text.empty;
      continue;
    }
    text.pairs.push_back(encode_pair(pair, run.source, run.target));
    text.lines.push_back(static_cast<i64>(i) + 1);
  }
  if (text.pairs.empty()) throw_error("{} holds no sentence", source);
  return text;
}

void CheckInvariance::run() const {
  machine.start();
  const std::unique_ptr<Run> run = open_run(model);
  const Text text = read_text(*run, source, target);
  const bool with_losses = !target.empty();
  const std::size_t width = 35;
  const auto words = [&](const std::vector<i64>& ids) { return run->text(ids); };
  const auto line = [&](std::size_t sentence) { return text.lines[sentence]; };

  if (!json) {
    print("{} sentences of {}", text.pairs.size(), source);
    if (text.empty > 0) print(" ({} empty lines left out)", text.empty);
    print(", each compared with itself alone\n\n{:{}}  {:>15}", "variant", width, "identical");
    if (with_losses) print("  {:>14}  {:>14}", "f64 loss, off", "f32 loss, off");
    print("\n");
    flush_results();
  }
  const InvarianceReport report =
      check_invariance(*run, text.pairs, with_losses, options, [&](const InvarianceVariant& variant) {
        if (json) return;
        print("{:{}}  {:>13}", variant.name(), width, fmt::format("{} / {}", variant.identical, variant.sentences));
        if (with_losses) print("  {:>14.1e}  {:>14.1e}", variant.f64_difference, variant.f32_difference);
        print("\n");
        flush_results();
      });

  // The first sentence that the check names: by its place in the file, translations before losses.
  std::string first;
  std::size_t first_sentence = text.pairs.size();
  nlohmann::ordered_json variants = nlohmann::ordered_json::array(), changes = nlohmann::ordered_json::array();
  i64 changed = 0, ties = 0;
  std::string remarks;
  for (const InvarianceVariant& variant : report.variants) {
    variants.push_back({{"name", variant.name()},
                        {"batch", variant.batch},
                        {"shuffled", variant.shuffled},
                        {"padding", variant.padding},
                        {"identical", variant.identical},
                        {"sentences", variant.sentences}});
    if (with_losses) {
      variants.back()["f64_loss_difference"] = variant.f64_difference;
      variants.back()["f32_loss_difference"] = variant.f32_difference;
    }
    for (const ChangedTranslation& one : variant.changed) {
      ++changed;
      ties += one.tie;
      const std::string where =
          one.tie ? fmt::format("a tie: '{}' and '{}' are equal within rounding, their log-probabilities {:.1e} apart",
                                run->target.token(one.alone_word), run->target.token(one.changed_word), one.gap)
                  : fmt::format("the log-probabilities of '{}' and '{}' are {:.1e} apart", run->target.token(one.alone_word),
                                run->target.token(one.changed_word), one.gap);
      const std::string what = fmt::format("{}:{}: alone '{}', but '{}' in {} ({})", source, line(one.sentence),
                                           words(one.alone), words(one.changed), variant.name(), where);
      remarks += what + "\n";
      changes.push_back({{"line", line(one.sentence)},
                         {"variant", variant.name()},
                         {"alone", words(one.alone)},
                         {"changed", words(one.changed)},
                         {"gap", one.gap},
                         {"tie", one.tie}});
      if (one.sentence < first_sentence) {
        first_sentence = one.sentence;
        first = what;
      }
    }
  }
  if (with_losses && first.empty())
    for (const InvarianceVariant& variant : report.variants) {
      const auto too_far = [&](const char* precision, double difference, double tolerance, std::size_t sentence) {
        if (difference <= tolerance || !first.empty()) return;
        first = fmt::format("{}:{}: its loss in {} differs by {:.1e} in {}: at most {:.0e} is rounding", source, line(sentence),
                            variant.name(), difference, precision, tolerance);
      };
      too_far("f64", variant.f64_difference, options.f64_tolerance, variant.f64_worst);
      too_far("f32", variant.f32_difference, options.f32_tolerance, variant.f32_worst);
    }
  const bool ok = report.ok(options);
  if (json) {
    const nlohmann::ordered_json result = {{"ok", ok},
                                           {"sentences", text.pairs.size()},
                                           {"empty_lines", text.empty},
                                           {"precision", run->settings.precision},
                                           {"changed", changed},
                                           {"ties", ties},
                                           {"variants", variants},
                                           {"changes", changes}};
    print("{}\n", result.dump());
  } else {
    print("\n{}{}\n", remarks, ok ? "neither neighbours nor order nor padding change anything" : "");
  }
  if (!ok) throw_failure("{}", first);
}

}  // namespace

void add_check_invariance(CLI::App& check) {
  CLI::App* command = add_command(
      check, "invariance", "check that neither neighbours in a batch nor order nor padding change a sentence's result",
      "seqgrad check invariance --model runs/sdp --source test.de --target test.en\n\n"
      "Each sentence is translated greedily alone and in batches of 7 and 64, sorted and shuffled, and with 40 columns of\n"
      "padding more. With --target, its teacher-forced loss per word must agree within 1e-12 in f64 and 1e-5 in f32.\n"
      "A translation that changes because the two best words are equal within rounding is a change and is called a tie.");
  auto options = std::make_shared<CheckInvariance>();
  command->add_option("--model", options->model, "folder that 'seqgrad train' wrote")->type_name("RUN")->required();
  command->add_option("--source", options->source, "text to translate (plain or gzipped)")->type_name("FILE")->required();
  command->add_option("--target", options->target, "its translation, to compare losses as well")->type_name("FILE");
  command->add_flag("--json", options->json, "write the result as JSON");
  options->machine.add_options(*command);
  command->callback([options] { options->run(); });
}

}  // namespace seqgrad::tools
