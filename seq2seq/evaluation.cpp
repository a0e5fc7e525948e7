#include "seq2seq/evaluation.h"

#include "kernels/error.h"
#include "seq2seq/search.h"
#include "seq2seq/text.h"
#include "tensor/launch.h"

namespace seqgrad::seq2seq {

FreeRunning free_running(const Run& run, const std::vector<EncodedPair>& pairs, i64 batch_size) {
  NoGrad values_only;
  FreeRunning sum;
  for (const auto& rows : make_batches(pair_lengths(pairs), batch_size)) {
    const Batch batch = make_batch(pairs, rows);
    Tape tape;
    nn::Mode mode = nn::Mode::evaluation();
    const Encoded encoded = run.model.encode(tape, Source::from(batch), mode);
    std::vector<Tensor> state = encoded.state.values();
    std::vector<i64> words(static_cast<std::size_t>(batch.size), Vocabulary::start);
    const std::size_t mark = tape.size();
    for (i64 step = 0; step < batch.target_length; ++step) {
      tape.rewind(mark);
      const DecoderStep out =
          run.model.decoder.step(encoded, Tensor::from<i64>(words, {batch.size}), nn::RecurrentState::constants(tape, state));
      state = out.state.values();
      std::vector<i64> expected;
      for (i64 b = 0; b < batch.size; ++b)
        expected.push_back(batch.target_out[static_cast<std::size_t>(b * batch.target_length + step)]);
      const CrossEntropyOptions options{.ignore_index = Vocabulary::pad, .reduction = Reduction::sum};
      sum.negative_log_likelihood +=
          cross_entropy(out.logits, Tensor::from<i64>(expected, {batch.size}), options).value().item();
      const Tensor logits = out.logits.value();
      const Tensor best({batch.size}, logits.dtype(), logits.device()), index({batch.size}, DType::i64, logits.device());
      launch(kernels::max_reduce, logits, best, index, batch.size, logits.size(1), i64{1});
      words = index.to_vector<i64>();
    }
    sum.tokens += batch.target_tokens;
  }
  return sum;
}

Evaluation evaluate(const Run& run, const std::vector<std::string>& sources, const std::vector<std::string>& references,
                    const EvaluationOptions& options) {
  if (sources.size() != references.size())
    throw_error("[evaluate] {} sources but {} references: they must match line by line", sources.size(), references.size());
  if (sources.empty()) throw_error("[evaluate] there are no sentences");
  Evaluation result;
  std::vector<SentencePair> pairs;
  std::vector<std::vector<std::string>> sentences;
  std::vector<i64> lengths;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    SentencePair pair{run.tokenizers.source->split(sources[i]), run.tokenizers.target->split(references[i])};
    const auto too_long = [&](const std::vector<std::string>& tokens) {
      return options.max_length > 0 && static_cast<i64>(tokens.size()) > options.max_length;
    };
    sentences.push_back(pair.source);
    if (too_long(pair.source)) {
      result.cut_sources.push_back(i);
      sentences.back().resize(static_cast<std::size_t>(options.max_length));
    }
    lengths.push_back(static_cast<i64>(split_whitespace(sources[i]).size()));
    for (const i64 id : run.target.encode(pair.target)) {
      ++result.reference_words;
      result.unknown_reference_words += id == Vocabulary::unknown;
    }
    if (pair.source.empty() || pair.target.empty() || too_long(pair.source) || too_long(pair.target)) continue;
    pairs.push_back(std::move(pair));
  }
  result.pairs = static_cast<i64>(pairs.size());
  const std::vector<EncodedPair> encoded = encode_pairs(pairs, run.source, run.target);
  result.teacher_forced = perplexity(run, encoded, options.search.batch);
  if (options.free_running) result.free_running = free_running(run, encoded, options.search.batch);

  for (const Translation& translation : Translator(run, options.search).translate(sentences)) {
    result.hypotheses.push_back(run.text(translation.ids));
    result.cut_off += translation.cut_off;
  }
  result.bleu = corpus_bleu(result.hypotheses, {references}, options.bleu);
  result.measures.push_back(measure_bleu(result.hypotheses, {references}, options.bleu));
  for (const int words : {0, 2})
    result.measures.push_back(
        measure_chrf(result.hypotheses, {references}, {.word_order = words, .lowercase = options.bleu.lowercase}));
  result.by_length = length_buckets(lengths, options.length_edges);
  return result;
}

}  // namespace seqgrad::seq2seq
