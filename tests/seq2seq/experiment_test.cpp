#include "seq2seq/experiment.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "seq2seq/demo_corpus.h"
#include "seq2seq/report.h"
#include "seq2seq/text.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

// A small corpus in files, and an experiment on it that takes a second.
struct Small {
  TemporaryFolder folder;
  ExperimentPlan plan;

  Small() {
    const DemoCorpus corpus = make_demo_corpus(1, 300, 30, 30);
    const auto write = [&](const std::string& name, const std::vector<SentencePair>& pairs, bool source) {
      std::string text;
      for (const SentencePair& pair : pairs) text += join(source ? pair.source : pair.target) + "\n";
      return folder.file(name, text);
    };
    Settings& s = plan.settings;
    s.train_source = write("train.de", corpus.train, true);
    s.train_target = write("train.en", corpus.train, false);
    s.valid_source = write("valid.de", corpus.valid, true);
    s.valid_target = write("valid.en", corpus.valid, false);
    plan.test_source = write("test.de", corpus.test, true);
    plan.test_reference = write("test.en", corpus.test, false);
    s.embedding = s.hidden = s.attention_dim = 12;
    s.batch = 16;
    s.learning_rate = 0.01;
    s.dropout = 0.1;
    s.epochs = 2;
    s.seed = 5;
    plan.variants = {"none", "sdp"};
    plan.seeds = 2;
    plan.folder = folder / "experiment";
    plan.trials = 50;
  }

  void run() const {
    for (const PlannedRun& planned : planned_runs(plan)) {
      train_run(planned, {});
      measure_run(plan, planned);
    }
  }
};

}  // namespace

TEST_CASE("runs are planned seed by seed, equal but for the attention") {
  const Small small;
  const std::vector<PlannedRun> runs = planned_runs(small.plan);
  REQUIRE(runs.size() == 4);
  CHECK(runs[1].variant == "sdp");
  CHECK(runs[1].seed == 5);
  CHECK(runs[1].folder == small.plan.folder + "/sdp-seed5");
  CHECK(runs[2].seed == 6);
  Settings as_first = runs[1].settings;
  as_first.attention = "none";
  CHECK(to_toml(as_first) == to_toml(runs[0].settings));
}

TEST_CASE("variants of one seed start from the same weights wherever names, shapes and ranges agree") {
  const Small small;
  const Vocabulary words = Vocabulary::build({{"a", "b", "c"}});
  std::map<std::string, Tensor> first;
  std::size_t same = 0, other_shape = 0, other_range = 0;
  for (const char* variant : {"none", "mean", "sdp", "bahdanau", "luong_general"}) {
    Settings settings = small.plan.settings;
    settings.attention = variant;
    const Run run(settings, words, words);
    for (const Parameter* parameter : run.block.parameters()) {
      const std::string name = parameter->name;
      CAPTURE(name);
      const auto known = first.find(name);
      if (known == first.end() || !(known->second.shape() == parameter->value.shape())) {
        other_shape += known != first.end();
        first[name] = parameter->value.clone();
        continue;
      }
      const std::vector<float> theirs = known->second.to_vector<float>(), ours = parameter->value.to_vector<float>();
      if (name == "decoder.out.bias" && std::string_view(variant) == "mean") {  // 24 inputs with none, 48 with all others
        ++other_range;
        for (std::size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == doctest::Approx(theirs[i] * std::sqrt(0.5)));
        known->second = parameter->value.clone();
        continue;
      }
      ++same;
      CHECK(theirs == ours);
    }
  }
  CHECK(other_range == 1);
  CHECK(other_shape == 2);  // none's decoder reads no context, and its readout has none
  CHECK(same > 60);
  Settings other = small.plan.settings;
  other.seed = 6;
  const Run run(other, words, words);
  CHECK(run.block.parameters()[0]->value.to_vector<float>() != first[run.block.parameters()[0]->name].to_vector<float>());
}

TEST_CASE("an experiment goes on where it was, and measures anew only what is new") {
  Small small;
  const ExperimentPlan& plan = small.plan;
  const std::vector<PlannedRun> runs = planned_runs(plan);
  CHECK(message_of([&] { compare_variants(plan); }) == plan.folder + " holds no seed of which every variant is trained");
  CHECK_FALSE(read_result(plan, runs[0]));

  // Interrupted after the first epoch: the run ends as an uninterrupted one does.
  struct Interrupted {};
  Trainer interrupting;
  interrupting.on_validation = [](const ValidationReport&) { throw Interrupted(); };
  CHECK_THROWS_AS(train_run(runs[0], interrupting), Interrupted);
  CHECK_FALSE(read_result(plan, runs[0]));
  small.run();
  PlannedRun whole = runs[0];
  whole.folder = small.folder / "whole";
  train_run(whole, {});
  CHECK(read_file(whole.folder + "/model.safetensors") == read_file(runs[0].folder + "/model.safetensors"));

  const std::optional<RunResult> result = read_result(plan, runs[0]);
  REQUIRE(result);
  CHECK(result->validations.size() == 2);
  CHECK(result->parameters > 1000);
  CHECK(result->test.translations.size() == 30);
  // What the result says is what the model says.
  const Evaluation evaluation = evaluate(*open_run(runs[0].folder), read_lines(plan.test_source),
                                         read_lines(plan.test_reference), {.bleu = {.tokenize = BleuTokenizer::none}});
  CHECK(result->test.perplexity == evaluation.teacher_forced.value());
  CHECK(result->test.bleu.score() == evaluation.bleu.score);
  CHECK(result->test.translations == evaluation.hypotheses);

  ExperimentPlan other_text = plan;
  other_text.test_source = plan.settings.valid_source;
  CHECK_FALSE(read_result(other_text, runs[0]));
  ExperimentPlan longer = plan;
  longer.settings.epochs = 3;
  const PlannedRun other = planned_runs(longer)[1];
  const std::string complaint = other.folder +
                                " was trained with 'epochs = 2', not 'epochs = 3': give the same options, or choose another "
                                "--out";
  CHECK(message_of([&] { check_folder(other); }) == complaint);
  CHECK(message_of([&] { train_run(other, {}); }) == complaint);
  write_file(runs[3].folder + "/result.json", "{}");
  CHECK(message_of([&] { read_result(plan, runs[3]); }) ==
        runs[3].folder + "/result.json is damaged: remove it, and the run is measured anew");
  std::filesystem::remove(runs[3].folder + "/result.json");
  CHECK(compare_variants(plan).seeds == std::vector<i64>{5});  // the second seed lacks a variant
}

TEST_CASE("the comparison is made of the runs' numbers") {
  const Small small;
  small.run();
  const Experiment experiment = compare_variants(small.plan);
  CHECK(experiment.seeds == std::vector<i64>{5, 6});
  REQUIRE(experiment.variants.size() == 2);
  REQUIRE(experiment.differences.size() == 1);
  const VariantResult &none = experiment.variants[0], &sdp = experiment.variants[1];
  REQUIRE(none.runs.size() == 2);
  const double a = none.runs[0].test.bleu.score(), b = none.runs[1].test.bleu.score();
  const Spread bleu = none.over_runs([](const RunResult& run) { return run.test.bleu.score(); });
  CHECK(bleu.mean == doctest::Approx((a + b) / 2));
  CHECK(bleu.deviation == doctest::Approx(std::fabs(a - b) / std::sqrt(2.0)));
  const Difference& difference = experiment.differences[0];
  CHECK(difference.baseline == "none");
  CHECK(difference.system == "sdp");
  CHECK(difference.bleu.difference() == doctest::Approx(sdp.test_bleu.score() - none.test_bleu.score()));
  CHECK(difference.bleu_seeds.mean == doctest::Approx(difference.bleu.difference()));
  CHECK(difference.log_perplexity_seeds.mean ==
        doctest::Approx((std::log(sdp.runs[0].test.perplexity / none.runs[0].test.perplexity) +
                         std::log(sdp.runs[1].test.perplexity / none.runs[1].test.perplexity)) /
                        2));
  std::size_t sentences = 0;
  for (const LengthBucket& bucket : experiment.lengths) sentences += bucket.sentences.size();
  CHECK(sentences == 30);

  const std::string text = to_text(experiment);
  CHECK(text.find("\nMean ± standard deviation over seeds 5, 6;") != std::string::npos);
  CHECK(text.find("\nsdp - none  ") != std::string::npos);
  const auto json = nlohmann::json::parse(to_json(experiment));
  CHECK(json["variants"][1]["runs"][0]["test_bleu"] == sdp.runs[0].test.bleu.score());
  CHECK(json["variants"][0]["test_bleu"]["deviation"] == doctest::Approx(bleu.deviation));
  CHECK(json["differences"][0]["bleu_seeds"]["p_value"].is_number());
  CHECK(json["by_source_length"].size() == experiment.lengths.size());
  const std::string html = to_html(experiment);
  CHECK(html.starts_with("<!DOCTYPE html>"));
  CHECK(html.ends_with("</html>\n"));
  for (const char* from_elsewhere : {"src=", "href=", "url(", "<script"}) CHECK(html.find(from_elsewhere) == std::string::npos);

  const std::string alignments = alignments_html(experiment, {3, 1});
  CHECK(alignments.find("<h2>Sentence 3</h2>") < alignments.find("<h2>Sentence 1</h2>"));
  CHECK(alignments.find("not a proof of grammar") != std::string::npos);
  CHECK(message_of([&] { alignments_html(experiment, {31}); }) == "the test text has no line 31: it has 30");

  ExperimentPlan one_seed = small.plan;
  one_seed.seeds = 1;
  const Experiment single = compare_variants(one_seed);
  CHECK(to_text(single).find("±") == std::string::npos);
  CHECK(nlohmann::json::parse(to_json(single))["differences"][0]["bleu_seeds"]["p_value"].is_null());
}

TEST_CASE("sentences to look at are of many lengths, and none is empty or too long for a page") {
  std::vector<std::string> sources{"", "a b c", std::string(60, 'a')};
  for (int words = 1; words <= 30; ++words) {
    std::string line;
    for (int i = 0; i < words; ++i) line += "w ";
    sources.push_back(line);
  }
  const std::vector<i64> lines = lines_of_many_lengths(sources, 3);
  REQUIRE(lines.size() == 3);
  std::vector<std::size_t> words;
  for (const i64 line : lines) words.push_back(split_whitespace(sources[static_cast<std::size_t>(line - 1)]).size());
  CHECK(words[0] < 6);
  CHECK(words[0] > 0);
  CHECK(words[1] > 10);
  CHECK(words[2] > 19);
  CHECK(words[2] <= 25);
  CHECK(lines_of_many_lengths({"a", ""}, 3) == std::vector<i64>{1});
  CHECK(lines_of_many_lengths({}, 3).empty());
}

TEST_CASE("plans that make no sense are refused") {
  const auto refused = [](auto change) {
    ExperimentPlan plan;
    plan.variants = {"none", "sdp"};
    change(plan);
    return message_of([&] { planned_runs(plan); });
  };
  CHECK(refused([](auto&) {}) == "");
  CHECK(refused([](auto& plan) { plan.variants = {}; }) ==
        "variants is empty: name attentions, such as none,mean,sdp,bahdanau");
  CHECK(refused([](auto& plan) {
          plan.variants = {"none", "dot"};
        }) == "attention is 'dot': it must be one of none|mean|sdp|bahdanau|luong_dot|luong_general");
  CHECK(refused([](auto& plan) { plan.variants = {"sdp", "none", "sdp"}; }) == "variants names sdp twice: once is enough");
  CHECK(refused([](auto& plan) { plan.seeds = 0; }) == "seeds is 0: it must be at least 1");
  CHECK(refused([](auto& plan) { plan.trials = 0; }) == "trials is 0: it must be at least 1");
}
