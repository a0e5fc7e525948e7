#include "seq2seq/text.h"

#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/temporary_folder.h"

using namespace seqgrad;
using namespace seqgrad::seq2seq;
using Strings = std::vector<std::string>;

namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string zipped(deflateBound(&stream, text.size()) + 32, '\0');
  std::string input = text;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(zipped.data());
  stream.avail_out = static_cast<uInt>(zipped.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  zipped.resize(stream.total_out);
  deflateEnd(&stream);
  return zipped;
}

Strings lines_of(std::string_view content) {
  TemporaryFolder folder;
  return read_lines(folder.file("text", content));
}

}  // namespace

TEST_CASE("only line feeds separate lines") {
  CHECK(lines_of("") == Strings{});
  CHECK(lines_of("\n") == Strings{""});
  CHECK(lines_of("a\nb\n") == Strings{"a", "b"});
  CHECK(lines_of("a\n\nb") == Strings{"a", "", "b"});
  CHECK(lines_of("a\r\nb\r\n") == Strings{"a", "b"});
  CHECK(lines_of("a\r\r\nb\rc\n") == Strings{"a\r", "b\rc"});
  CHECK(lines_of("a\u2028b\u0085c\u2029d\fe\n") == Strings{"a\u2028b\u0085c\u2029d\fe"});
  CHECK(lines_of(std::string_view("a\0b\nc", 5)) == Strings{std::string("a\0b", 3), "c"});
}

TEST_CASE("a byte-order mark is dropped at the start of a file and nowhere else") {
  CHECK(lines_of("\ufeffa\nb\n") == Strings{"a", "b"});
  CHECK(lines_of("a\n\ufeffb\n") == Strings{"a", "\ufeffb"});
  CHECK(lines_of("\ufeff\na\n") == Strings{"", "a"});
  CHECK(lines_of("\ufeff") == Strings{});
}

TEST_CASE("lines longer than a buffer come whole") {
  const std::string long_line(200001, 'x');
  CHECK(lines_of(long_line + "\n" + long_line) == Strings{long_line, long_line});
  const std::string edge((1 << 16) - 1, 'x');  // its '\n' is the last byte of the first buffer
  CHECK(lines_of(edge + "\r\n\n") == Strings{edge, ""});
}

TEST_CASE("invalid UTF-8 names file, line and byte") {
  TemporaryFolder folder;
  std::string content;
  for (int i = 0; i < 16; ++i) content += "ein hund \u00fc\n";
  const std::string path = folder.file("train.de", content + "ein\xfcz\nok\n");
  LineReader reader(path);
  std::string line;
  for (int i = 0; i < 16; ++i) REQUIRE(reader.next(line));
  CHECK(message_of([&] { reader.next(line); }) == path + ":17: invalid UTF-8 at byte 4");
  CHECK(message_of([&] { read_lines(folder.file("cut", "\ufeffab\xc3\n")); }) ==
        (folder / "cut") + ":1: invalid UTF-8 at byte 6");
}

TEST_CASE("UTF-8 is strict") {
  for (const char* good : {"", "a", "\u00e4\u00df", "\u20ac", "\U0001F600", "\uD7FF\uE000", "\U0010FFFF", "\uFFFD", "\u0080"}) {
    CHECK_MESSAGE(find_invalid_utf8(good) == std::string::npos, good);
  }
  for (const char* bad : {"\x80", "\xbf", "\xc3", "\xc0\x80", "\xc1\xbf", "\xe0\x80\x80", "\xe0\x9f\xbf", "\xed\xa0\x80",
                          "\xed\xbf\xbf", "\xe2\x82", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
                          "\xfe", "\xc3(", "\xe2\x28\xa1", "\xf0\x9f\x98"}) {
    CHECK(find_invalid_utf8(bad) == 0);
    CHECK(find_invalid_utf8(std::string("\u00e4") + bad) == 2);
  }
}

TEST_CASE("code points go out as they came in") {
  for (const char32_t c : {0x0u, 0x41u, 0x7fu, 0x80u, 0x7ffu, 0x800u, 0xd7ffu, 0xe000u, 0xffffu, 0x10000u, 0x10ffffu}) {
    std::string text;
    append_utf8(text, c);
    std::size_t position = 0;
    CHECK(next_code_point(text, position) == c);
    CHECK(position == text.size());
  }
}

TEST_CASE("gzip is recognised by its content") {
  CHECK(lines_of(gzip("a\nb\u00e4\r\n\n")) == Strings{"a", "b\u00e4", ""});
  CHECK(lines_of(gzip("")) == Strings{});
  CHECK(lines_of(gzip("a\nb") + gzip("c\n") + gzip("") + gzip("d")) == Strings{"a", "bc", "d"});
  CHECK(lines_of(gzip("\ufeffa\n")) == Strings{"a"});
  std::string text;
  Strings expected;
  for (int i = 0; i < 50000; ++i) text += (expected.emplace_back(std::to_string(i * 7919)) + "\n");
  CHECK(lines_of(gzip(text)) == expected);
}

TEST_CASE("incomplete and damaged gzip files are errors") {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i * 7919) + "\n";
  const std::string zipped = gzip(text);
  for (const std::size_t size : {std::size_t{2}, std::size_t{9}, zipped.size() / 2, zipped.size() - 1}) {
    const std::string path = folder.file("cut.gz", zipped.substr(0, size));
    CHECK(message_of([&] { read_lines(path); }) == path + ": the gzip data ends too early: the file is incomplete");
  }
  std::string damaged = zipped;
  for (std::size_t i = zipped.size() / 2; i < zipped.size() / 2 + 40; ++i) damaged[i] = '\xff';
  const std::string path = folder.file("bad.gz", damaged);
  CHECK(message_of([&] { read_lines(path); }).starts_with(path + ": damaged gzip data ("));
  const std::string tail = folder.file("tail.gz", gzip("a\n") + "rubbish");
  CHECK(message_of([&] { read_lines(tail); }) == tail + ": damaged gzip data (incorrect header check)");
  damaged = zipped;
  damaged[zipped.size() - 6] ^= 1;
  CHECK(message_of([&] { read_lines(folder.file("sum.gz", damaged)); }) ==
        (folder / "sum.gz") + ": damaged gzip data (incorrect data check)");
}

TEST_CASE("a line of a pipe is there as soon as it is complete") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  LineReader reader(ends[0], "<pipe>");
  std::string line;
  // Were the reader to wait for more, this test would hang.
  REQUIRE(::write(ends[1], "\n", 1) == 1);
  CHECK(reader.next(line));
  CHECK(line == "");
  REQUIRE(::write(ends[1], "one\ntw", 6) == 6);
  CHECK(reader.next(line));
  CHECK(line == "one");
  REQUIRE(::write(ends[1], "o", 1) == 1);
  ::close(ends[1]);
  CHECK(reader.next(line));
  CHECK(line == "two");
  CHECK(reader.line_number() == 3);
  CHECK(!reader.next(line));
  CHECK(!reader.next(line));
  ::close(ends[0]);
}

TEST_CASE("files that cannot be read say why") {
  TemporaryFolder folder;
  CHECK(message_of([&] { LineReader reader(folder / "none"); }) ==
        "cannot read " + (folder / "none") + ": No such file or directory");
  CHECK(message_of([&] { read_lines(folder.path.string()); }) == "cannot read " + folder.path.string() + ": Is a directory");
}

TEST_CASE("words are split as Python splits them") {
  CHECK(split_whitespace("") == Strings{});
  CHECK(split_whitespace(" \t ") == Strings{});
  CHECK(split_whitespace("  ein \t hund ") == Strings{"ein", "hund"});
  CHECK(split_whitespace("ein") == Strings{"ein"});
  CHECK(split_whitespace("a\u00a0b\u3000c\u2009d\u2028e\u0085f\vg\x1fh\ri") ==
        Strings{"a", "b", "c", "d", "e", "f", "g", "h", "i"});
  CHECK(split_whitespace("a\u200bb \ufeffc \u180ed") == Strings{"a\u200bb", "\ufeffc", "\u180ed"});
  CHECK(split_whitespace("\u00e4\u00a0") == Strings{"\u00e4"});
  CHECK(join({"a", "b"}) == "a b");
  CHECK(join({}) == "");
  CHECK(join({"a", "b", "c"}, ", ") == "a, b, c");
}

TEST_CASE("a line of blanks has no words") { CHECK(split_whitespace("\u00a0 \u3000").empty()); }

TEST_CASE("lower case works in all scripts") {
  CHECK(lowercase("ÄÖÜ ẞ ÉÀ Ł Ş Ÿ abc 123 日本") == "äöü ß éà ł ş ÿ abc 123 日本");
  CHECK(lowercase("ΑΒΓ Ώ ЖЩЁ Ӂ ԱՖ Ⴀ ᾈ Ⅷ Ａ 𐐀") == "αβγ ώ жщё ӂ աֆ ⴀ ᾀ ⅷ ａ 𐐨");
  CHECK(lowercase("İ") == "i\u0307");
  CHECK(lowercase("ΟΔΟΣ, ΟΔΟΣ ΣΑΣ Σ ΣΑ Α.Σ") == "οδος, οδος σας σ σα α.ς");
  CHECK(lowercase("1Σ ΑΣ\u0345 ΑΣ\u05b0Α \u2160Σ ⓐΣ") == "1σ ας\u0345 ασ\u05b0α \u2170ς ⓐς");
  CHECK(lowercase("A\xff"
                  "B") ==
        "a\xff"
        "b");
  CHECK(lowercase("") == "");
}
