// SentencePiece models: sound ones, and what SentencePiece would read beyond or end the program at.
#include "seq2seq/spm_check.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "kernels/types.h"
#include "seq2seq/spm.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;

namespace {

constexpr u32 leaf = u32{1} << 31, has_leaf = u32{1} << 8;

u32 unit(u32 label, u32 offset, u32 flags = 0) { return label | offset << 10 | flags; }

void append(std::string& to, u64 number, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(number >> 8 * i & 255);
}

// A field of a length below 2^14, in protobuf's wire format.
std::string field(int number, const std::string& bytes) {
  const std::size_t length = bytes.size();
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>((length & 127) | 128),
                     static_cast<char>(length >> 7)} +
         bytes;
}

// A model that has this table and nothing else.
std::string model(const std::map<std::size_t, u32>& units, const std::string& replacements, std::size_t size = 256) {
  std::vector<u32> all(size, leaf);
  for (const auto& [place, value] : units) all[place] = value;
  std::string table;
  append(table, size * 4, 4);
  for (const u32 value : all) append(table, value, 4);
  return field(3, field(2, table + replacements));
}

// Byte 0xc3 leads from the first unit to 0xc2 and byte 0xa4 from there to 0x64, whose leaf at 0x67 is the first replacement.
const std::map<std::size_t, u32> umlaut{
    {0, unit(0, 1)}, {0xc2, unit(0xc3, 2)}, {0x64, unit(0xa4, 3, has_leaf)}, {0x67, leaf | 0}};

std::map<std::size_t, u32> but(std::size_t place, u32 value) {
  std::map<std::size_t, u32> changed = umlaut;
  changed[place] = value;
  return changed;
}

const std::string a("a\0", 2);

}  // namespace

TEST_CASE("the tables of trained models and small ones by hand are sound") {
  const std::vector<std::string> lines{"ein hund läuft ﬁx", "zwei hunde schlafen"};
  CHECK(is_sound_model(train_spm({&lines}, "text", {})));
  CHECK(is_sound_model(model(umlaut, a)));
  CHECK(is_sound_model(model(but(0x67, leaf | 1), a)));
  // SentencePiece sees to these itself.
  CHECK(is_sound_model(""));
  CHECK(is_sound_model("no model"));
  CHECK(is_sound_model(field(3, field(2, "abcd"))));
}

TEST_CASE("a table that leads out of itself is not sound") {
  CHECK_FALSE(is_sound_model(model(but(0, unit(0, 256)), a)));
  CHECK_FALSE(is_sound_model(model(but(0xc2, unit(0xc3, 1 << 20)), a)));
  CHECK_FALSE(is_sound_model(model(but(0x64, unit(0xa4, 1 << 12, has_leaf)), a)));
  CHECK_FALSE(is_sound_model(model(but(0x67, leaf | 2), a)));    // behind the last replacement
  CHECK_FALSE(is_sound_model(model(umlaut, "ab")));              // which does not end
  CHECK_FALSE(is_sound_model(model({{0, unit(0, 1)}}, a, 16)));  // not even the bytes of one unit
  // A table of 8 bytes behind its length's 4, which SentencePiece compares with 12.
  for (const char length : {'\x08', '\x0b', '\x0c', '\xff'})
    CHECK_FALSE(is_sound_model(field(3, field(2, length + std::string(11, '\0')))));
  CHECK_FALSE(is_sound_model(model(umlaut, a) + model(but(0x67, leaf | 2), a)));
  const std::string in_denormalizer = model(but(0x67, leaf | 2), a);
  CHECK_FALSE(is_sound_model(field(5, in_denormalizer.substr(3))));
}

TEST_CASE("a table with more matches for one text than SentencePiece has room for is not sound") {
  // Byte 0xa4 leads from 0x64 to itself: as many matches as the text has of it.
  CHECK_FALSE(is_sound_model(model(but(0x64, unit(0xa4, 0xa4, has_leaf)), a)));
  // A chain of byte 1: unit i leads to unit i + 2, for base (i + 2) ^ 1. Each has a leaf, the base itself.
  const auto chain = [](std::size_t length) {
    std::map<std::size_t, u32> units{{0, unit(0, 3)}};
    for (std::size_t i = 2; i < 2 + 2 * length; i += 2) {
      units[i] = unit(1, static_cast<u32>(i ^ (i + 3)), has_leaf);
      units[i + 3] = leaf | 0;
    }
    return model(units, a);
  };
  CHECK(is_sound_model(chain(32)));
  CHECK_FALSE(is_sound_model(chain(33)));
}

TEST_CASE("a piece with a zero byte is not sound, wherever it stands") {
  const auto piece = [](const std::string& text) { return field(1, field(1, text)); };
  CHECK(is_sound_model(piece("a") + piece("b")));
  const std::string zero = piece(std::string("a\0b", 3));
  CHECK_FALSE(is_sound_model(piece("a") + zero));
  CHECK_FALSE(is_sound_model(std::string("\x10\x05\x19") + std::string(8, 'x') + "\x15" + "abcd" + zero));  // behind numbers
  CHECK_FALSE(is_sound_model("\x7b" + zero + "\x7c"));                                                      // in a group
  CHECK(is_sound_model("\x7f" + zero));  // which no message begins with
}
