#include "seq2seq/corpus.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "seq2seq/random.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Strings = std::vector<std::string>;
using Ids = std::vector<i64>;
using Batches = std::vector<std::vector<std::size_t>>;

namespace {

std::vector<PairLength> random_lengths(std::size_t count) {
  SplitMix64 generator(7);
  std::vector<PairLength> lengths;
  for (std::size_t i = 0; i < count; ++i) {
    const i64 source = 2 + static_cast<i64>(generator.below(40));
    lengths.push_back({source, source - 1 + static_cast<i64>(generator.below(3))});
  }
  return lengths;
}

void check_each_index_once(const Batches& batches, std::size_t count) {
  std::vector<std::size_t> seen;
  for (const auto& batch : batches) seen.insert(seen.end(), batch.begin(), batch.end());
  std::sort(seen.begin(), seen.end());
  REQUIRE(seen.size() == count);
  for (std::size_t i = 0; i < count; ++i) REQUIRE(seen[i] == i);
}

double padding(const Batches& batches, const std::vector<PairLength>& lengths) {
  double used = 0, total = 0;
  for (const auto& batch : batches) {
    i64 longest = 0;
    for (const std::size_t row : batch) {
      longest = std::max(longest, lengths[row].source);
      used += static_cast<double>(lengths[row].source);
    }
    total += static_cast<double>(longest) * static_cast<double>(batch.size());
  }
  return 1 - used / total;
}

}  // namespace

TEST_CASE("parallel files are read line by line, empty pairs skipped and counted") {
  TemporaryFolder folder;
  const std::string de = folder.file("train.de", "ein hund\r\n\nein ball\n \u00a0\neine frau\n");
  const std::string en = folder.file("train.en", "a dog\na cat\n  \n\na woman\n");
  const ParallelCorpus corpus = read_parallel(de, en);
  REQUIRE(corpus.pairs.size() == 2);
  CHECK(corpus.pairs[0].source == Strings{"ein", "hund"});
  CHECK(corpus.pairs[1].target == Strings{"a", "woman"});
  CHECK(corpus.left_out.empty == 3);
  CHECK(corpus.left_out.too_long == 0);
  CHECK(source_sentences(corpus) == std::vector<Strings>{{"ein", "hund"}, {"eine", "frau"}});
  CHECK(target_sentences(corpus) == std::vector<Strings>{{"a", "dog"}, {"a", "woman"}});
}

TEST_CASE("long pairs are skipped and counted") {
  TemporaryFolder folder;
  const std::string de = folder.file("train.de", "a b c\na b\na b\n");
  const std::string en = folder.file("train.en", "x\ny\nx y z\n");
  const ParallelCorpus corpus = read_parallel(de, en, 2);
  CHECK(corpus.pairs.size() == 1);
  CHECK(corpus.left_out.too_long == 2);
  CHECK(message_of([&] { read_parallel(de, en, 1); }) ==
        de + " and " + en + " hold no usable sentence pair (0 empty, 3 longer than 1 tokens)");
}

TEST_CASE("line counts that differ are an error that names both") {
  TemporaryFolder folder;
  const std::string two = folder.file("train.de", "a\nb\n");
  const std::string one = folder.file("train.en", "a");
  const std::string rule = ": a source and its target must match line by line";
  CHECK(message_of([&] { read_parallel(two, one); }) == two + " has 2 lines but " + one + " has 1" + rule);
  CHECK(message_of([&] { read_parallel(one, two); }) == one + " has 1 line but " + two + " has 2" + rule);
  const std::string none = folder.file("none.en", "");
  CHECK(message_of([&] { read_parallel(two, none); }) == two + " has 2 lines but " + none + " has 0" + rule);
}

TEST_CASE("files without a usable pair are an error") {
  TemporaryFolder folder;
  const std::string de = folder.file("train.de", "a\n\n");
  const std::string en = folder.file("train.en", " \nb\n");
  CHECK(message_of([&] { read_parallel(de, en); }) == de + " and " + en + " hold no usable sentence pair (2 empty)");
  const std::string empty = folder.file("empty", "");
  CHECK(message_of([&] { read_parallel(empty, empty); }) ==
        empty + " and " + empty + " hold no usable sentence pair (0 empty)");
}

TEST_CASE("pairs become numbers") {
  const Vocabulary source = Vocabulary::build({{"ein", "hund"}}), target = Vocabulary::build({{"a", "dog"}});
  const auto pairs = encode_pairs({{{"ein", "</s>", "hund"}, {"a", "dog"}}}, source, target);
  REQUIRE(pairs.size() == 1);
  CHECK(pairs[0].source == Ids{4, 1, 5, 3});
  CHECK(pairs[0].target == Ids{4, 5});
}

TEST_CASE("batches of an epoch hold each pair exactly once") {
  for (const std::size_t count : {0, 1, 2, 7, 64, 1000, 13000}) {
    const auto lengths = random_lengths(count);
    for (const i64 size : {1, 2, 7, 64, 20000}) {
      check_each_index_once(make_batches(lengths, size, 1, 0), count);
      check_each_index_once(make_batches(lengths, size), count);
    }
  }
}

TEST_CASE("batches are full but for one, and their rows fall in length") {
  const auto lengths = random_lengths(13001);
  for (const Batches& batches : {make_batches(lengths, 64, 1, 0), make_batches(lengths, 64)}) {
    CHECK(batches.size() == (13001 + 63) / 64);
    int small = 0;
    for (const auto& batch : batches) {
      small += batch.size() != 64;
      CHECK(batch.size() <= 64);
      for (std::size_t i = 1; i < batch.size(); ++i) CHECK(lengths[batch[i - 1]].source >= lengths[batch[i]].source);
    }
    CHECK(small == 1);
  }
}

TEST_CASE("batches depend on seed and epoch and on nothing else") {
  const auto lengths = random_lengths(500);
  const Batches batches = make_batches(lengths, 16, 1, 0);
  CHECK(batches == make_batches(lengths, 16, 1, 0));
  CHECK(batches != make_batches(lengths, 16, 1, 1));
  CHECK(batches != make_batches(lengths, 16, 2, 0));
  CHECK(make_batches(lengths, 16, 2, 1) != make_batches(lengths, 16, 1, 2));
}

TEST_CASE("the generator gives the same numbers everywhere") {
  // The published test vector of SplitMix64 for the seed 1234567.
  SplitMix64 generator(1234567);
  CHECK(generator.next() == 6457827717110365317u);
  CHECK(generator.next() == 3203168211198807973u);
  CHECK(generator.next() == 9817491932198370423u);
  std::map<u64, int> counts;
  for (int i = 0; i < 30000; ++i) ++counts[generator.below(3)];
  CHECK(counts.size() == 3);
  for (const auto& [value, count] : counts) CHECK(std::abs(count - 10000) < 400);  // five standard deviations
  std::map<std::vector<int>, int> orders;
  for (int i = 0; i < 24000; ++i) {
    std::vector<int> items = {0, 1, 2, 3};
    shuffle(items, generator);
    ++orders[items];
  }
  CHECK(orders.size() == 24);
  for (const auto& [order, count] : orders) CHECK(std::abs(count - 1000) < 160);
}

TEST_CASE("batches waste little on padding") {
  const auto lengths = random_lengths(13000);
  CHECK(padding(make_batches(lengths, 64, 1, 0), lengths) < 0.03);
  CHECK(padding(make_batches(lengths, 64), lengths) < 0.01);
}

TEST_CASE("batches of tokens hold as many as fit, padding counted, and one pair at least") {
  const auto lengths = random_lengths(5000);
  const auto tokens = [&](const std::vector<std::size_t>& batch) {
    i64 longest = 0;
    for (const std::size_t row : batch) longest = std::max({longest, lengths[row].source, lengths[row].target + 1});
    return static_cast<i64>(batch.size()) * longest;
  };
  for (const i64 most : {1, 40, 500, 100000}) {
    CAPTURE(most);
    const Batches batches = make_batches(lengths, {64, most}, 1, 0);
    check_each_index_once(batches, lengths.size());
    CHECK(batches == make_batches(lengths, {1, most}, 1, 0));  // pairs do not count
    i64 all = 0;
    for (const auto& batch : batches) {
      CHECK((batch.size() == 1 || tokens(batch) <= most));
      all += tokens(batch);
    }
    if (most == 500) CHECK(all > 450 * static_cast<i64>(batches.size()));
    if (most == 500) CHECK(padding(batches, lengths) < 0.05);
  }
  CHECK(make_batches(lengths, {64, 500}, 1, 0) != make_batches(lengths, {64, 500}, 1, 1));
  CHECK(make_batches({}, {1, 5}, 1, 0).empty());
}

TEST_CASE("a batch is split into its rows in order") {
  const auto lengths = random_lengths(300);
  for (const auto& batch : make_batches(lengths, 64, 1, 0)) {
    const Batches parts = split_batch(batch, 10, lengths);
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK((parts[i].size() == 10 || i + 1 == parts.size()));
      rows.insert(rows.end(), parts[i].begin(), parts[i].end());
    }
    CHECK(rows == batch);
    CHECK(split_batch(batch, 64, lengths) == Batches{batch});
  }
  CHECK(BatchSize(3, 5).times(4).pairs == 12);
  CHECK(BatchSize(3, 5).times(4).tokens == 20);
  CHECK(BatchSize(3).times(std::numeric_limits<i64>::max()).pairs == std::numeric_limits<i64>::max());
}

TEST_CASE("word dropout makes its share of the words unknown, and never what is to be predicted or a special") {
  std::vector<EncodedPair> pairs(200, {Ids(50, 9), Ids(49, 8)});
  for (EncodedPair& pair : pairs) pair.source.push_back(Vocabulary::end);
  std::vector<std::size_t> rows(pairs.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  const Batch whole = make_batch(pairs, rows);
  Batch batch = whole, again = whole, other = whole;
  drop_words(batch, 0.2, 1, 7);
  drop_words(again, 0.2, 1, 7);
  drop_words(other, 0.2, 1, 8);
  CHECK(batch.source == again.source);
  CHECK(batch.source != other.source);
  CHECK(batch.target_out == whole.target_out);
  for (const auto& [dropped, kept] : {std::pair{&batch.source, &whole.source}, {&batch.target_in, &whole.target_in}}) {
    i64 words = 0, unknown = 0;
    for (std::size_t i = 0; i < kept->size(); ++i) {
      const bool word = (*kept)[i] >= Vocabulary::specials, same = (*dropped)[i] == (*kept)[i];
      words += word;
      unknown += !same;
      CHECK((same || (word && (*dropped)[i] == Vocabulary::unknown)));
    }
    CHECK(std::abs(static_cast<double>(unknown) / static_cast<double>(words) - 0.2) < 0.02);  // five standard deviations
  }
  drop_words(batch, 0, 1, 7);
  CHECK(batch.source == again.source);
}

TEST_CASE("a batch is padded and shifted") {
  const std::vector<EncodedPair> pairs = {{{9, 9, 3}, {8}}, {{5, 3}, {6, 7}}, {{3}, {}}};
  const Batch batch = make_batch(pairs, {0, 2, 1});
  CHECK(batch.size == 3);
  CHECK(batch.source_length == 3);
  CHECK(batch.target_length == 3);
  CHECK(batch.target_tokens == 6);
  CHECK(batch.source == Ids{9, 9, 3, 3, 0, 0, 5, 3, 0});
  CHECK(batch.source_lengths == Ids{3, 1, 2});
  CHECK(batch.target_in == Ids{2, 8, 0, 2, 0, 0, 2, 6, 7});
  CHECK(batch.target_out == Ids{8, 3, 0, 3, 0, 0, 6, 7, 3});
  CHECK(batch.rows == std::vector<std::size_t>{0, 2, 1});
}

TEST_CASE("batches that cannot be are errors") {
  CHECK(message_of([] { make_batch({}, {}); }) == "[batch] a batch needs at least one row");
  CHECK(message_of([] { make_batch({{{3}, {}}}, {0, 1}); }) == "[batch] there is no row 1: the corpus has 1 pairs");
  CHECK(message_of([] { make_batches({}, 0); }) == "[batches] the batch size must be at least 1, not 0");
  CHECK(message_of([] { make_batches({}, -3, 1, 1); }) == "[batches] the batch size must be at least 1, not -3");
  CHECK(message_of([] { make_batches({}, {1, -3}, 1, 1); }) == "[batches] the tokens of a batch must be at least 0, not -3");
}
