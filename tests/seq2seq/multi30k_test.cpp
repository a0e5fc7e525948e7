// The real data set, where it is at hand: SEQGRAD_MULTI30K names its folder, or it lies in ../shared/multi30k.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "seq2seq/train.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

// "" where there is none.
std::string data_folder() {
  const char* named = std::getenv("SEQGRAD_MULTI30K");
  const std::filesystem::path folder =
      named ? std::filesystem::path(named) : std::filesystem::path(SEQGRAD_SOURCE) / ".." / "shared" / "multi30k";
  return std::filesystem::exists(folder / "train.lc.norm.tok.de") ? folder.string() : "";
}

}  // namespace

TEST_CASE("Multi30k: sizes as published, and a loss that falls from the first steps") {
  const std::string folder = data_folder();
  if (folder.empty()) {
    fmt::print("multi30k: skipped (no data; tools/fetch_multi30k.sh fetches it, SEQGRAD_MULTI30K names its folder)\n");
    return;
  }
  Settings settings{.embedding = 16, .hidden = 16, .attention_dim = 8};
  apply_preset(settings, "multi30k", folder);
  settings.batch = 64;
  settings.learning_rate = 0.01;
  const Prepared prepared = prepare(settings);
  Run& run = *prepared.run;
  CHECK(run.source.size() == 7859);
  CHECK(run.target.size() == 5921);
  CHECK(prepared.data.train.size() == 29000);
  CHECK(prepared.data.valid.size() == 1014);
  CHECK(prepared.left_out.empty == 0);
  CHECK(prepared.left_out.too_long == 0);
  for (const EncodedPair& pair : prepared.data.train) REQUIRE((pair.source.size() > 1 && !pair.target.empty()));

  const auto batches = make_batches(pair_lengths(prepared.data.train), settings.batch, 1, 0);
  nn::Adam adam(run.block);
  Tape tape;
  double first = 0, last = 0;
  constexpr i64 steps = 30, part = 5;
  for (i64 step = 0; step < steps; ++step) {
    const Batch batch = make_batch(prepared.data.train, batches[static_cast<std::size_t>(step)]);
    const double loss = train_step(run, adam, tape, batch, step).loss;
    if (step < part) first += loss / part;
    if (step >= steps - part) last += loss / part;
  }
  CHECK(first == doctest::Approx(8.6).epsilon(0.05));  // near log 5921
  CHECK(last < 0.75 * first);
}
