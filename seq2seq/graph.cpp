#include "seq2seq/graph.h"

#include "autograd/graph.h"
#include "seq2seq/text.h"

namespace seqgrad::seq2seq {

std::string translation_graph(Run& run, const EncodedPair& pair) {
  run.block.zero_grad();
  Tape tape;
  nn::Mode mode = nn::Mode::evaluation();
  GraphOptions options;
  std::size_t begin = 0;
  const auto close_group = [&](const std::string& name) {
    if (tape.size() > begin) options.groups.push_back({name, begin, tape.size()});
    begin = tape.size();
  };

  const Batch batch = make_batch({pair}, {0});
  const Source source = Source::from(batch);
  std::vector<std::string> words;
  for (const i64 id : pair.source) words.push_back(run.source.token(id));
  Encoded encoded = run.model.encoder(tape, source, mode);
  close_group(fmt::format("encoder: {}", join(words)));
  run.model.decoder.prepare(encoded, source.mask);
  close_group("attention: what it needs of the source");

  auto state = encoded.state;
  std::vector<Var> logits;
  for (i64 t = 0; t < batch.target_length; ++t) {
    const std::size_t at = static_cast<std::size_t>(t);
    const DecoderStep out = run.model.decoder.step(encoded, Tensor::from<i64>({batch.target_in[at]}, {1}), state);
    state = out.state;
    logits.push_back(out.logits);
    close_group(fmt::format("decoder, step {}: after {}, expects {}", t + 1, run.target.token(batch.target_in[at]),
                            run.target.token(batch.target_out[at])));
  }
  const Tensor target = Tensor::from<i64>(batch.target_out, {batch.target_length});
  const Var loss = cross_entropy(cat(logits, 0), target);
  close_group("loss");
  tape.backward(loss, {.keep_gradients = true});
  options.title = fmt::format(
      "attention {}, loss {:.4f}\nEach node: its shape and the norm of its gradient (a parameter's: over all its uses).",
      run.settings.attention, loss.value().item());
  return to_dot(tape, options);
}

}  // namespace seqgrad::seq2seq
