#include "seq2seq/spm_check.h"

#include <cstring>
#include <vector>

#include "kernels/types.h"

namespace seqgrad::seq2seq {
namespace {

// The fields of a message in protobuf's wire format, one after the other, up to the first that cannot be read.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  bool next() {
    u64 key = 0, length = 0;
    if (!varint(key)) return false;
    number_ = (key & 0xFFFFFFFF) >> 3;
    bytes_ = {};
    switch (key & 7) {
      case 0:
        return varint(length);
      case 1:
        return skip(8);
      case 2:
        return varint(length) && skip(length);
      case 3:  // a group begins or ends; what is in it is looked at as if it were outside
      case 4:
        return true;
      case 5:
        return skip(4);
      default:
        return false;
    }
  }
  u64 number() const { return number_; }
  std::string_view bytes() const { return bytes_; }  // of a field that has a length

 private:
  bool varint(u64& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const u64 byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= (byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }
  bool skip(u64 length) {
    if (length > rest_.size()) return false;
    bytes_ = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }

  std::string_view rest_, bytes_;
  u64 number_ = 0;
};

// A double-array trie of Darts, as commonPrefixSearch() walks it: from a unit, whose offset and the next byte give the place of
// the unit after it, which must bear that byte as its label. Its leaves are places in the replacements, which end with zeros.
class Trie {
 public:
  Trie(std::string_view units, std::string_view replacements)
      : units_(units.size() / sizeof(u32)), replacements_(replacements.size()), leaves_(units_.size(), unseen) {
    if (!units_.empty()) std::memcpy(units_.data(), units.data(), units_.size() * sizeof(u32));
  }

  bool is_sound() { return !units_.empty() && leaves_below(0, 0) <= most_leaves; }

 private:
  // What SentencePiece has room for among the prefixes of one text, and far more bytes than a rule has.
  static constexpr int most_leaves = 32, most_depth = 1000;
  static constexpr int unseen = -1, entered = -2, unsound = most_leaves + 1;

  static std::size_t offset_of(u32 unit) { return std::size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); }

  // The most leaves on a path from here. Ways may meet again, but none may lead back to itself.
  int leaves_below(std::size_t at, int depth) {
    if (leaves_[at] == entered || depth > most_depth) return unsound;
    if (leaves_[at] != unseen) return leaves_[at];
    leaves_[at] = entered;
    const std::size_t base = at ^ offset_of(units_[at]);
    int most = 0;
    for (u32 byte = 0; byte < 256 && most <= most_leaves; ++byte) {
      const std::size_t next = base ^ byte;
      if (next >= units_.size()) return unsound;
      const u32 unit = units_[next];
      if ((unit & ((1u << 31) | 255)) != byte) continue;
      int leaves = 0;
      if (unit & (1u << 8)) {
        const std::size_t leaf = next ^ offset_of(unit);
        if (leaf >= units_.size() || (units_[leaf] & ~(1u << 31)) >= replacements_) return unsound;
        leaves = 1;
      }
      leaves += leaves_below(next, depth + 1);
      most = leaves > most ? leaves : most;
    }
    return leaves_[at] = most > most_leaves ? unsound : most;
  }

  std::vector<u32> units_;
  std::size_t replacements_;
  std::vector<int> leaves_;
};

bool is_sound(std::string_view table) {
  u32 length = 0;
  if (table.size() <= sizeof length) return true;  // none: SentencePiece says so itself
  std::memcpy(&length, table.data(), sizeof length);
  table.remove_prefix(sizeof length);
  if (length >= table.size() || length % sizeof(u32) != 0 || table.back() != 0) return false;
  return Trie(table.substr(0, length), table.substr(length)).is_sound();
}

}  // namespace

bool is_sound_model(std::string_view model) {
  // Fields of sentencepiece_model.proto.
  constexpr u64 pieces = 1, piece = 1, normalizer = 3, denormalizer = 5, table = 2;
  for (Fields outer(model); outer.next();)
    for (Fields inner(outer.bytes()); inner.next();) {
      if (outer.number() == pieces && inner.number() == piece && inner.bytes().find('\0') != std::string_view::npos)
        return false;
      if ((outer.number() == normalizer || outer.number() == denormalizer) && inner.number() == table &&
          !is_sound(inner.bytes()))
        return false;
    }
  return true;
}

}  // namespace seqgrad::seq2seq
