// What an experiment found, as text, as JSON and as a page.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "seq2seq/experiment.h"
#include "seq2seq/report.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {
namespace {

double valid_perplexity(const RunResult& run) { return run.valid.perplexity; }
double valid_bleu(const RunResult& run) { return run.valid.bleu.score(); }
double test_perplexity(const RunResult& run) { return run.test.perplexity; }
double test_bleu(const RunResult& run) { return run.test.bleu.score(); }
double seconds(const RunResult& run) { return run.seconds(); }

std::string list(const std::vector<i64>& numbers) {
  std::string text;
  for (const i64 number : numbers) text += fmt::format("{}{}", text.empty() ? "" : ", ", number);
  return text;
}

std::string with_deviation(const Spread& spread, int digits) {
  return std::isfinite(spread.deviation) ? fmt::format("{:.{}f} ± {:.{}f}", spread.mean, digits, spread.deviation, digits)
                                         : fmt::format("{:.{}f}", spread.mean, digits);
}

std::string probability(double p) { return !std::isfinite(p) ? "-" : p < 1e-4 ? "<0.0001" : fmt::format("{:.4f}", p); }

// The last validation whose weights were kept.
const ValidationReport* best(const RunResult& run) {
  const ValidationReport* found = nullptr;
  for (const ValidationReport& one : run.validations)
    if (one.best) found = &one;
  return found;
}

struct Captioned {
  std::string caption, note;
  Table table;
};

Captioned results(const Experiment& experiment) {
  Captioned result;
  result.caption = "Results";
  result.note =
      fmt::format("Mean{} over {}; training with its validations.", experiment.seeds.size() > 1 ? " ± standard deviation" : "",
                  experiment.seeds.size() > 1 ? fmt::format("seeds {}", list(experiment.seeds))
                                              : fmt::format("seed {}", list(experiment.seeds)));
  result.table.columns = {"attention", "parameters", "validation perplexity", "validation BLEU", "test perplexity",
                          "test BLEU", "training s"};
  for (const VariantResult& variant : experiment.variants)
    result.table.rows.push_back(
        {variant.name, fmt::format("{}", variant.runs.front().parameters),
         with_deviation(variant.over_runs(valid_perplexity), 3), with_deviation(variant.over_runs(valid_bleu), 2),
         with_deviation(variant.over_runs(test_perplexity), 3), with_deviation(variant.over_runs(test_bleu), 2),
         with_deviation(variant.over_runs(seconds), 1)});
  return result;
}

Captioned differences(const Experiment& experiment) {
  Captioned result;
  const bool seeds = experiment.seeds.size() > 1;
  result.caption = "Differences on the test text";
  result.note = fmt::format(
      "The interval and p of the sentences: paired bootstrap, {} trials, of BLEU{}. {}Every p is of its one comparison, not "
      "corrected for their number, {}.",
      experiment.plan.trials, seeds ? ", the seeds' mean" : "",
      seeds ? fmt::format("p of the seeds: Student's paired t-test over {} seeds, two-sided, of BLEU and of the logarithm of "
                          "perplexity. ",
                          experiment.seeds.size())
            : "One seed says nothing about another. ",
      experiment.differences.size());
  result.table.columns = {"", "BLEU", "95% from", "to", "p (sentences)", "p (seeds)", "perplexity", "p (seeds)"};
  for (const Difference& one : experiment.differences)
    result.table.rows.push_back(
        {fmt::format("{} - {}", one.system, one.baseline), fmt::format("{:+.2f}", one.bleu.difference()),
         fmt::format("{:+.2f}", one.bleu.difference_low), fmt::format("{:+.2f}", one.bleu.difference_high),
         probability(one.bleu.p_value), probability(one.bleu_seeds.p_value),
         fmt::format("x {:.3f}", std::exp(one.log_perplexity_seeds.mean)), probability(one.log_perplexity_seeds.p_value)});
  return result;
}

Captioned by_length(const Experiment& experiment) {
  Captioned result;
  result.caption = "Test BLEU by words of the source";
  result.table.columns = {"words", "sentences"};
  for (const VariantResult& variant : experiment.variants) result.table.columns.push_back(variant.name);
  for (const LengthBucket& bucket : experiment.lengths) {
    std::vector<std::string> row{bucket.name(), fmt::format("{}", bucket.sentences.size())};
    for (const VariantResult& variant : experiment.variants)
      row.push_back(fmt::format("{:.2f}", variant.test_bleu.score(bucket.sentences)));
    result.table.rows.push_back(std::move(row));
  }
  return result;
}

Captioned runs(const Experiment& experiment) {
  Captioned result;
  result.caption = "Runs";
  result.table.columns = {"run",       "best after epoch", "of", "validation perplexity", "validation BLEU", "test perplexity",
                          "test BLEU", "training s"};
  for (const VariantResult& variant : experiment.variants)
    for (const RunResult& run : variant.runs) {
      const ValidationReport* kept = best(run);
      result.table.rows.push_back({fmt::format("{}, seed {}", run.variant, run.seed),
                                   kept ? fmt::format("{:.4g}", kept->epochs) : "-",
                                   run.validations.empty() ? "-" : fmt::format("{:.4g}", run.validations.back().epochs),
                                   fmt::format("{:.3f}", run.valid.perplexity), fmt::format("{:.2f}", run.valid.bleu.score()),
                                   fmt::format("{:.3f}", run.test.perplexity), fmt::format("{:.2f}", run.test.bleu.score()),
                                   fmt::format("{:.1f}", run.seconds())});
    }
  return result;
}

// Validation perplexity, the mean of the seeds that have a validation there.
std::vector<Curve> learning_curves(const Experiment& experiment) {
  std::vector<Curve> curves;
  for (const VariantResult& variant : experiment.variants) {
    std::map<double, std::vector<double>> at;
    for (const RunResult& run : variant.runs)
      for (const ValidationReport& one : run.validations) at[one.epochs].push_back(one.validation_perplexity);
    Curve curve{variant.name, {}};
    for (const auto& [epochs, values] : at) curve.points.emplace_back(epochs, spread(values).mean);
    curves.push_back(std::move(curve));
  }
  return curves;
}

std::vector<Curve> length_curves(const Experiment& experiment) {
  std::vector<Curve> curves;
  for (const VariantResult& variant : experiment.variants) {
    Curve curve{variant.name, {}};
    for (std::size_t i = 0; i < experiment.lengths.size(); ++i)
      curve.points.emplace_back(experiment.mean_lengths[i], variant.test_bleu.score(experiment.lengths[i].sentences));
    curves.push_back(std::move(curve));
  }
  return curves;
}

std::string introduction(const Experiment& experiment) {
  const Settings& settings = experiment.plan.settings;
  return fmt::format(
      "Translators that differ in their attention alone: {}, {} and {} units, readout {}. Those of one seed see the same "
      "batches in the same order, and start from the same weights wherever names, shapes and ranges agree.",
      settings.cell, settings.hidden, settings.decoder_width(), settings.readout);
}

}  // namespace

std::string to_text(const Experiment& experiment) {
  const ExperimentPlan& plan = experiment.plan;
  std::string text = fmt::format("Experiment in {}: trained on {}, {}; tested on {}, {}, {} sentences\n{}\n", plan.folder,
                                 plan.settings.train_source, plan.settings.train_target, plan.test_source, plan.test_reference,
                                 experiment.variants.front().test_bleu.sentences(), introduction(experiment));
  for (const Captioned& one : {results(experiment), differences(experiment), by_length(experiment)}) {
    if (one.table.rows.empty()) continue;
    text += fmt::format("\n{}\n{}", one.caption, table_text(one.table));
    if (!one.note.empty()) text += one.note + "\n";
  }
  return text;
}

std::string to_json(const Experiment& experiment) {
  using nlohmann::ordered_json;
  const auto with_spread = [](const Spread& spread) {
    return ordered_json{{"mean", spread.mean}, {"deviation", spread.deviation}};  // not a number: null
  };
  const auto seed_test = [](const PairedTest& test) {
    return ordered_json{{"mean", test.mean}, {"deviation", test.deviation}, {"t", test.t}, {"p_value", test.p_value}};
  };
  ordered_json variants = ordered_json::array(), differences = variants, lengths = variants;
  for (const VariantResult& variant : experiment.variants) {
    ordered_json runs = ordered_json::array();
    for (const RunResult& run : variant.runs) {
      ordered_json curve = ordered_json::array();
      for (const ValidationReport& one : run.validations)
        curve.push_back({{"epochs", one.epochs},
                         {"train_perplexity", one.train_perplexity},
                         {"validation_perplexity", one.validation_perplexity},
                         {"best", one.best}});
      runs.push_back({{"seed", run.seed},
                      {"validation_perplexity", run.valid.perplexity},
                      {"validation_bleu", run.valid.bleu.score()},
                      {"test_perplexity", run.test.perplexity},
                      {"test_bleu", run.test.bleu.score()},
                      {"seconds", run.seconds()},
                      {"validations", curve}});
    }
    variants.push_back({{"attention", variant.name},
                        {"parameters", variant.runs.front().parameters},
                        {"validation_perplexity", with_spread(variant.over_runs(valid_perplexity))},
                        {"validation_bleu", with_spread(variant.over_runs(valid_bleu))},
                        {"test_perplexity", with_spread(variant.over_runs(test_perplexity))},
                        {"test_bleu", with_spread(variant.over_runs(test_bleu))},
                        {"seconds", with_spread(variant.over_runs(seconds))},
                        {"runs", runs}});
  }
  for (const Difference& one : experiment.differences)
    differences.push_back({{"baseline", one.baseline},
                           {"system", one.system},
                           {"bleu", one.bleu.difference()},
                           {"bleu_interval", {one.bleu.difference_low, one.bleu.difference_high}},
                           {"bleu_p_sentences", one.bleu.p_value},
                           {"bleu_seeds", seed_test(one.bleu_seeds)},
                           {"log_perplexity_seeds", seed_test(one.log_perplexity_seeds)}});
  for (const LengthBucket& bucket : experiment.lengths) {
    ordered_json scores = ordered_json::object();
    for (const VariantResult& variant : experiment.variants) scores[variant.name] = variant.test_bleu.score(bucket.sentences);
    lengths.push_back({{"from", bucket.from},
                       {"to", bucket.to ? ordered_json(bucket.to) : ordered_json()},
                       {"sentences", bucket.sentences.size()},
                       {"test_bleu", scores}});
  }
  const ordered_json all = {{"folder", experiment.plan.folder},
                            {"test_source", experiment.plan.test_source},
                            {"test_reference", experiment.plan.test_reference},
                            {"seeds", experiment.seeds},
                            {"variants", variants},
                            {"differences", differences},
                            {"by_source_length", lengths},
                            {"bootstrap_trials", experiment.plan.trials},
                            {"bleu_signature", experiment.variants.front().test_bleu.signature}};
  return all.dump();
}

std::string to_html(const Experiment& experiment) {
  const ExperimentPlan& plan = experiment.plan;
  const auto section = [](const Captioned& one, const std::string& before) {
    if (one.table.rows.empty()) return std::string();
    return fmt::format("<h2>{}</h2>\n{}{}{}", escape_html(one.caption), before, table_html(one.table),
                       one.note.empty() ? "" : fmt::format("<p>{}</p>\n", escape_html(one.note)));
  };
  std::string body = fmt::format("<p>{}</p>\n<table class=\"facts\">\n", escape_html(introduction(experiment)));
  for (const auto& [name, value] : {std::pair{"training text", plan.settings.train_source + ", " + plan.settings.train_target},
                                    {"validation text", plan.settings.valid_source + ", " + plan.settings.valid_target},
                                    {"test text", fmt::format("{}, {}, {} sentences", plan.test_source, plan.test_reference,
                                                              experiment.variants.front().test_bleu.sentences())},
                                    {"BLEU", experiment.variants.front().test_bleu.signature}})
    body += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", name, escape_html(value));
  body += "</table>\n" + section(results(experiment), "") + section(differences(experiment), "");
  body +=
      fmt::format("<h2>Learning curves</h2>\n{}", draw_curves(learning_curves(experiment), "epoch", "validation perplexity"));
  body +=
      section(by_length(experiment), draw_curves(length_curves(experiment), "words of the source", "test BLEU", Scale::linear));
  body += section(runs(experiment), "");
  return html_page(fmt::format("Experiment {}", plan.folder), body);
}

}  // namespace seqgrad::seq2seq
