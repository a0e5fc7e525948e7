#include "seq2seq/alignment_file.h"

#include "seq2seq/report.h"
#include "seq2seq/word_alignment.h"

namespace seqgrad::seq2seq {

AlignmentFile::AlignmentFile(const std::string& path, const std::string& title)
    : format_(path.ends_with(".html")                               ? Format::html
              : path.ends_with(".json") || path.ends_with(".jsonl") ? Format::json
                                                                    : Format::pharaoh),
      file_(path) {
  if (format_ != Format::html) return;
  file_.write(html_head(title));
  file_.write(
      "<p>Rows are the words of the translation, columns those of the source; a cell is the share of attention, in per cent, "
      "that the row's word gave to the column's. A word of several tokens has the sum of their columns, or the mean of their "
      "rows.</p>\n");
}

void AlignmentFile::add(const std::string& line, const std::string& translation, const Alignment& alignment) {
  ++lines_;
  switch (format_) {
    case Format::pharaoh:
      file_.write(to_pharaoh(alignment) + "\n");
      return;
    case Format::json:
      file_.write(to_json(alignment) + "\n");
      return;
    case Format::html:
      break;
  }
  const auto text = [](const std::string& words) {
    return words.empty() ? std::string("<dd class=\"empty\">empty</dd>")
                         : fmt::format("<dd dir=\"auto\">{}</dd>", escape_html(words));
  };
  file_.write(fmt::format("<h2 id=\"line-{0}\">Line {0}</h2>\n<dl><dt>source</dt>{1}<dt>translation</dt>{2}</dl>\n", lines_,
                          text(line), text(translation)));
  const std::size_t rows = alignment.target.size(), columns = alignment.source.size();
  if (rows * columns > 200 * 200)
    file_.write(fmt::format("<p>{} x {} words: too many to draw.</p>\n", rows, columns));
  else
    file_.write(heatmap_html(alignment));
}

void AlignmentFile::commit() {
  if (format_ == Format::html) file_.write(html_end);
  file_.commit();
}

}  // namespace seqgrad::seq2seq
