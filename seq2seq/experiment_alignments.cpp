// Where an experiment's variants looked.
#include <algorithm>

#include "kernels/error.h"
#include "seq2seq/experiment.h"
#include "seq2seq/report.h"
#include "seq2seq/search.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {

std::vector<i64> lines_of_many_lengths(const std::vector<std::string>& sources, std::size_t count) {
  constexpr std::size_t fits = 25;  // words
  std::vector<std::pair<std::size_t, i64>> by_length;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (const std::size_t words = split_whitespace(sources[i]).size(); words > 0 && words <= fits)
      by_length.emplace_back(words, static_cast<i64>(i) + 1);
  std::sort(by_length.begin(), by_length.end());
  count = std::min(count, by_length.size());
  std::vector<i64> lines;
  for (std::size_t i = 0; i < count; ++i) lines.push_back(by_length[(2 * i + 1) * by_length.size() / (2 * count)].second);
  return lines;
}

std::string alignments_html(const Experiment& experiment, const std::vector<i64>& lines) {
  const ExperimentPlan& plan = experiment.plan;
  const std::vector<std::string> all_sources = read_lines(plan.test_source), all_references = read_lines(plan.test_reference);
  std::vector<std::string> sources, references;
  for (const i64 line : lines) {
    if (line < 1 || line > static_cast<i64>(all_sources.size()))
      throw_error("the test text has no line {}: it has {}", line, all_sources.size());
    sources.push_back(all_sources[static_cast<std::size_t>(line - 1)]);
    references.push_back(all_references[static_cast<std::size_t>(line - 1)]);
  }

  std::vector<std::vector<ReportedSentence>> shown(lines.size());  // by line and variant
  for (const VariantResult& variant : experiment.variants) {
    const std::string folder = path_in(plan.folder, fmt::format("{}-seed{}", variant.name, experiment.seeds.front()).c_str());
    const std::unique_ptr<Run> run = open_run(folder);
    std::vector<std::vector<std::string>> sentences;
    for (const std::string& source : sources) sentences.push_back(run->tokenizers.source->split(source));
    const std::vector<Translation> translations = Translator(*run).translate(sentences);
    for (std::size_t i = 0; i < lines.size(); ++i)
      shown[i].push_back(
          {sources[i], references[i], run->text(translations[i].ids), alignment_of(*run, sentences[i], translations[i])});
  }

  std::string body = fmt::format(
      "<p>Greedy translations of test sentences by each variant, seed {}. Rows are the words of the translation, columns those "
      "of the source; a cell is the share of attention, in per cent, that the row's word gave to the column's.</p>\n"
      "<p><strong>A diagnostic, not a proof of grammar.</strong> A row says from which states the decoder took its context "
      "before it chose the word. It can show where a translation went wrong: words left out, or translated twice. It does not "
      "show that the word was chosen because of that place. A state holds its neighbours' words as well, so that what is "
      "used may stand elsewhere; the decoder's own state speaks too; other weights may give the same translation (Jain and "
      "Wallace, \"Attention is not explanation\", 2019; Wiegreffe and Pinter, \"Attention is not not explanation\", 2019). "
      "And a place is no structure: that a verb looks at its subject says nothing of what the model knows about "
      "either.</p>\n",
      experiment.seeds.front());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    body += fmt::format("<h2>Sentence {}</h2>\n<dl><dt>source</dt><dd>{}</dd><dt>reference</dt><dd>{}</dd></dl>\n", lines[i],
                        escape_html(shown[i].front().source), escape_html(shown[i].front().reference));
    for (std::size_t v = 0; v < experiment.variants.size(); ++v) {
      const ReportedSentence& one = shown[i][v];
      body += fmt::format("<dl><dt>{}</dt><dd>{}</dd></dl>\n", escape_html(experiment.variants[v].name),
                          escape_html(one.translation));
      body += one.alignment.weights.empty() ? "<p>No attention: the decoder knows the source by one state alone.</p>\n"
                                            : heatmap_html(one.alignment);
    }
  }
  return html_page(fmt::format("Where the variants of {} looked", plan.folder), body);
}

}  // namespace seqgrad::seq2seq
