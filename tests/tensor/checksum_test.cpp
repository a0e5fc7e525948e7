// XXH64 against the values of its reference implementation.
#include "tensor/checksum.h"

#include <doctest/doctest.h>

#include <string>

using namespace seqgrad;

namespace {

u64 sum_of(std::string_view text, std::size_t piece) {
  Checksum sum;
  for (std::size_t i = 0; i < text.size(); i += piece) sum.add(text.substr(i, piece));
  return sum.value();
}

}  // namespace

TEST_CASE("the checksum is XXH64, in pieces of any size") {
  std::string bytes;
  for (int i = 0; i < 101; ++i) bytes += static_cast<char>(i);
  const struct {
    std::string text;
    u64 sum;
  } all[] = {{"", 0xef46db3751d8e999},
             {"a", 0xd24ec4f1a98c6e5b},
             {"abc", 0x44bc2cf5ad770999},
             {"xxhash", 0x32dd38952c4bc720},
             {"Nobody inspects the spammish repetition", 0xfbcea83c8a378bf1},
             {bytes, 0xe99038495f85381e}};
  for (const auto& one : all)
    for (const std::size_t piece : {1, 3, 8, 31, 32, 33, 1000}) CHECK(sum_of(one.text, piece) == one.sum);
}

TEST_CASE("every single flipped bit changes the checksum") {
  std::string text(1000, 'x');
  const u64 before = sum_of(text, text.size());
  for (std::size_t i = 0; i < text.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      text[i] = static_cast<char>(text[i] ^ (1 << bit));
      CHECK(sum_of(text, text.size()) != before);
      text[i] = static_cast<char>(text[i] ^ (1 << bit));
    }
}
