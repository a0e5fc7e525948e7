#include "seq2seq/text.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "kernels/error.h"

namespace seqgrad::seq2seq {

// Bytes of a file with read(2) and, if it starts as gzip does, through inflate. Not through zlib's gzread, which waits
// for a full buffer and so would hold back the lines of a pipe.
struct LineReader::Source {
  enum class Form { unknown, plain, gzip };

  int descriptor = -1;
  bool owned = false;
  std::string name;
  Form form = Form::unknown;
  bool raw_end = false;
  bool member_open = false;  // within a gzip member; a file may hold several, one after the other
  z_stream inflater{};
  std::vector<char> raw = std::vector<char>(1 << 16);  // as read
  std::size_t raw_begin = 0, raw_size = 0;
  std::vector<char> text;  // unzipped; empty for a plain file, whose text is `raw`
  const char* at = nullptr;
  const char* end = nullptr;

  ~Source() {
    if (form == Form::gzip) inflateEnd(&inflater);
    if (owned) ::close(descriptor);
  }

  void read_raw() {
    for (;;) {
      const ssize_t got = ::read(descriptor, raw.data() + raw_size, raw.size() - raw_size);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_error("cannot read {}: {}", name, std::generic_category().message(errno));
      if (got == 0) raw_end = true;
      raw_size += static_cast<std::size_t>(got);
      return;
    }
  }

  void recognise() {
    // The second byte is waited for only if the first is gzip's: a terminal may send a single '\n'.
    while (!raw_end && (raw_size == 0 || (raw_size == 1 && raw[0] == '\x1f'))) read_raw();
    if (raw_size < 2 || raw[0] != '\x1f' || raw[1] != '\x8b') {
      form = Form::plain;
      return;
    }
    if (inflateInit2(&inflater, 15 + 16) != Z_OK) throw_failure("{}: no memory to unzip it", name);
    form = Form::gzip;
    member_open = true;
    text.resize(1 << 16);
  }

  // Makes [at, end) the next bytes of text; false at the end.
  bool refill() {
    if (form == Form::unknown) recognise();
    if (form == Form::gzip) return inflate_some();
    if (raw_begin == raw_size) {
      raw_begin = raw_size = 0;
      if (!raw_end) read_raw();
    }
    at = raw.data() + raw_begin;
    end = raw.data() + raw_size;
    raw_begin = raw_size;
    return at != end;
  }

  bool inflate_some() {
    for (;;) {
      if (raw_begin == raw_size && !raw_end) {
        raw_begin = raw_size = 0;
        read_raw();
      }
      if (raw_begin == raw_size && raw_end) {
        if (member_open) throw_error("{}: the gzip data ends too early: the file is incomplete", name);
        return false;
      }
      if (!member_open) {
        inflateReset(&inflater);
        member_open = true;
      }
      inflater.next_in = reinterpret_cast<Bytef*>(raw.data() + raw_begin);
      inflater.avail_in = static_cast<uInt>(raw_size - raw_begin);
      inflater.next_out = reinterpret_cast<Bytef*>(text.data());
      inflater.avail_out = static_cast<uInt>(text.size());
      const int result = inflate(&inflater, Z_NO_FLUSH);
      raw_begin = raw_size - inflater.avail_in;
      if (result == Z_STREAM_END) {
        member_open = false;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        throw_error("{}: damaged gzip data ({})", name, inflater.msg ? inflater.msg : "unknown format");
      }
      at = text.data();
      end = at + (text.size() - inflater.avail_out);
      if (at != end) return true;
    }
  }
};

LineReader::LineReader(const std::string& path) : LineReader(-1, path == "-" ? "<stdin>" : path) {
  if (path == "-") {
    source_->descriptor = STDIN_FILENO;
    return;
  }
  source_->descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (source_->descriptor < 0) throw_error("cannot read {}: {}", path, std::generic_category().message(errno));
  source_->owned = true;
}

LineReader::LineReader(int descriptor, std::string name) : source_(std::make_unique<Source>()), name_(std::move(name)) {
  source_->descriptor = descriptor;
  source_->name = name_;
}

LineReader::~LineReader() = default;

bool LineReader::next(std::string& line) {
  line.clear();
  Source& source = *source_;
  bool ended = false;
  bool any = false;
  while (!ended && (source.at != source.end || source.refill())) {
    any = true;
    const auto available = static_cast<std::size_t>(source.end - source.at);
    const auto* newline = static_cast<const char*>(std::memchr(source.at, '\n', available));
    line.append(source.at, newline ? static_cast<std::size_t>(newline - source.at) : available);
    source.at = newline ? newline + 1 : source.end;
    ended = newline != nullptr;
  }
  if (!any) return false;
  ++line_number_;
  if (ended && !line.empty() && line.back() == '\r') line.pop_back();
  const std::size_t invalid = find_invalid_utf8(line);
  if (invalid != std::string::npos) throw_error("{}:{}: invalid UTF-8 at byte {}", name_, line_number_, invalid + 1);
  if (line_number_ == 1 && line.starts_with("\xef\xbb\xbf")) {
    line.erase(0, 3);
    if (line.empty() && !ended) return false;  // nothing but the mark: an empty file
  }
  return true;
}

std::vector<std::string> read_lines(const std::string& path) {
  LineReader reader(path);
  std::vector<std::string> lines;
  for (std::string line; reader.next(line);) lines.push_back(line);
  return lines;
}

namespace {

// The length of the well-formed sequence at `position` and its code point, or length 0. Unicode, table 3-7.
struct Sequence {
  std::size_t length;
  char32_t code_point;
};

Sequence decode(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t offset) -> unsigned {
    return position + offset < text.size() ? static_cast<unsigned char>(text[position + offset]) : 0;
  };
  const auto continues = [&](std::size_t offset) { return (byte(offset) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, first};
  if (first >= 0xC2 && first <= 0xDF && continues(1)) return {2, (first & 0x1F) << 6 | (byte(1) & 0x3F)};
  if (first >= 0xE0 && first <= 0xEF && continues(1) && continues(2)) {
    const char32_t code_point = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    const bool surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
    if (code_point >= 0x800 && !surrogate) return {3, code_point};
  }
  if (first >= 0xF0 && first <= 0xF4 && continues(1) && continues(2) && continues(3)) {
    const char32_t code_point = (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    if (code_point >= 0x10000 && code_point <= 0x10FFFF) return {4, code_point};
  }
  return {0, 0xFFFD};
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t position = 0; position < text.size();) {
    if (static_cast<unsigned char>(text[position]) < 0x80) {
      ++position;
      continue;
    }
    const std::size_t length = decode(text, position).length;
    if (length == 0) return position;
    position += length;
  }
  return std::string_view::npos;
}

char32_t next_code_point(std::string_view text, std::size_t& position) {
  const Sequence sequence = decode(text, position);
  position += sequence.length == 0 ? 1 : sequence.length;
  return sequence.code_point;
}

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

bool is_whitespace(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::vector<std::string> split_whitespace(std::string_view text) {
  std::vector<std::string> words;
  std::size_t begin = 0;
  for (std::size_t position = 0; position <= text.size();) {
    const std::size_t here = position;
    const bool at_end = here == text.size();
    if (at_end) {
      ++position;
    } else if (!is_whitespace(next_code_point(text, position))) {
      continue;
    }
    if (here > begin) words.emplace_back(text.substr(begin, here - begin));
    begin = position;
  }
  return words;
}

std::string_view without_trailing_whitespace(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t position = 0; position < text.size();)
    if (!is_whitespace(next_code_point(text, position))) end = position;
  return text.substr(0, end);
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += separator;
    text += words[i];
  }
  return text;
}

}  // namespace seqgrad::seq2seq
