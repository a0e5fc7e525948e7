// A toy translator, trained by a loop of one's own: German captions out of a small grammar.
#include <fmt/format.h>
#include <seqgrad/nn/optimizer.h>
#include <seqgrad/seq2seq/demo_corpus.h>
#include <seqgrad/seq2seq/heatmap.h>
#include <seqgrad/seq2seq/text.h>
#include <seqgrad/seq2seq/train.h>

using namespace seqgrad;
using namespace seqgrad::seq2seq;

int main() {
  const DemoCorpus corpus = make_demo_corpus(1, 2000);
  std::vector<std::vector<std::string>> german, english;
  for (const SentencePair& pair : corpus.train) {
    german.push_back(pair.source);
    english.push_back(pair.target);
  }

  Settings settings{.attention = "sdp"};
  settings.embedding = 32;
  settings.hidden = 64;
  settings.dropout = 0.1;
  Run run(settings, Vocabulary::build(german), Vocabulary::build(english));
  const std::vector<EncodedPair> train = encode_pairs(corpus.train, run.source, run.target),
                                 test = encode_pairs(corpus.test, run.source, run.target);
  fmt::print("{} pairs, {} German words, {} English words, {} parameters\n", train.size(), run.source.size(), run.target.size(),
             run.model.parameter_count());

  nn::Adam adam(run.block);
  Tape tape;
  u64 step = 0;
  for (u64 epoch = 0; epoch < 12; ++epoch) {
    for (const auto& rows : make_batches(pair_lengths(train), 32, 1, epoch)) {
      tape.clear();
      run.block.zero_grad();
      nn::Mode mode = nn::Mode::training_step(1, step++);  // which masks dropout draws
      tape.backward(run.model.loss(tape, make_batch(train, rows), mode, 0));
      adam.step(4e-3, run.block.clip(1).scale);
    }
    if (epoch % 3 == 2)
      fmt::print("epoch {:2}  perplexity of unseen text {:.3f}\n", epoch + 1, perplexity(run, test, 64).value());
  }

  Translator translator(run);
  const std::vector<std::string> sentence = split_whitespace("heute hebt der junge den ball auf .");
  const Translation translation = translator.translate({sentence})[0];
  fmt::print("\n{}\n{}\n\n{}", join(sentence), run.text(translation.ids),
             draw_heatmap(alignment_of(run, sentence, translation)));
}
