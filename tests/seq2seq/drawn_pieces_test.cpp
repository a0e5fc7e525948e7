// Pieces drawn anew for each epoch.
#include <doctest/doctest.h>

#include <algorithm>

#include "seq2seq/demo_corpus.h"
#include "seq2seq/text.h"
#include "seq2seq/train.h"
#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

TEST_CASE("with spm-alpha every epoch has pieces of its own, and a run that was stopped within one goes on with them") {
  TemporaryFolder folder;
  const auto text = [&](const char* name, const std::vector<SentencePair>& pairs, bool source) {
    std::string lines;
    for (const SentencePair& pair : pairs) lines += join(source ? pair.source : pair.target) + "\n";
    return folder.file(name, lines);
  };
  const std::vector<SentencePair> train = make_demo_corpus(1, 240, 20, 20).train, valid(train.begin(), train.begin() + 20);
  Settings settings{.attention = "sdp", .embedding = 12, .hidden = 10, .attention_dim = 6, .dropout = 0.2};
  settings.epochs = 3;
  settings.train_source = text("train.de", train, true);
  settings.train_target = text("train.en", train, false);
  settings.valid_source = text("valid.de", valid, true);
  settings.valid_target = text("valid.en", valid, false);
  settings.tokenizer = "spm";
  settings.spm_type = "bpe";
  settings.vocabulary_size = 150;
  settings.max_length = 12;
  settings.batch = 12;
  CHECK(!prepare(settings).data.draw);
  settings.spm_alpha = 0.2;
  const Prepared prepared = prepare(settings);
  const Run& run = *prepared.run;
  const auto written = [&](const std::vector<EncodedPair>& pairs) {
    std::vector<std::string> texts;
    for (const EncodedPair& pair : pairs) {
      const std::vector<i64> words(pair.source.begin(), pair.source.end() - 1);
      texts.push_back(run.tokenizers.source->join(run.source.decode(words)) + " = " + run.text(pair.target));
    }
    return texts;
  };
  const auto same = [](const EncodedPair& a, const EncodedPair& b) { return a.source == b.source && a.target == b.target; };
  const std::vector<EncodedPair>& best = prepared.data.train;
  CHECK(best.size() < train.size());  // some are too long
  std::vector<std::vector<EncodedPair>> epochs;
  for (u64 epoch : {0, 1, 0}) epochs.push_back(prepared.data.draw(epoch));
  for (const std::vector<EncodedPair>& drawn : epochs) CHECK(written(drawn) == written(best));
  CHECK(std::equal(epochs[0].begin(), epochs[0].end(), epochs[2].begin(), same));
  CHECK_FALSE(std::equal(epochs[0].begin(), epochs[0].end(), epochs[1].begin(), same));
  CHECK_FALSE(std::equal(epochs[0].begin(), epochs[0].end(), best.begin(), same));

  const std::string whole = folder / "whole", parts = folder / "parts";
  start_folder(run, whole);
  start_folder(run, parts);
  Trainer().train(*prepared.run, prepared.data, whole);
  int stops = 0;
  for (bool resume = false;; resume = true, ++stops) {
    const Prepared again = prepare_resumed(settings, parts);
    Trainer trainer;
    int left = 3;
    trainer.stop = [&] { return left-- == 0; };
    if (trainer.train(*again.run, again.data, parts, resume).reason != TrainingEnd::Reason::stopped) break;
  }
  CHECK(stops >= 4);
  for (const char* file : {"/model.safetensors", "/checkpoint.safetensors"})
    CHECK(read_file(parts + file) == read_file(whole + file));
}
