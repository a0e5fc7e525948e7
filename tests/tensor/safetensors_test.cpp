#include "tensor/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>

#include "tensor/file.h"
#include "tests/temporary_folder.h"

using namespace seqgrad;

namespace {

std::string assembled(std::string_view header, std::string_view data = "") {
  const u64 length = header.size();
  std::string content(sizeof(length), '\0');
  std::memcpy(content.data(), &length, sizeof(length));
  return content.append(header).append(data);
}

// What reading this content says, less "PATH: ".
std::string complaint(const TemporaryFolder& folder, std::string_view content) {
  const std::string path = folder.file("hostile", content);
  const std::string message = message_of([&] { read_safetensors(path); });
  if (message.empty()) return "";
  REQUIRE(message.starts_with(path + ": "));
  REQUIRE(message.find('\n') == message.npos);
  return message.substr(path.size() + 2);
}

std::vector<NamedTensor> examples() {
  return {{"weight", Tensor::from<float>({1, -2, 3.5f, 0, 5, 6}, {2, 3})},
          {"ids", Tensor::from<i64>({-1, i64{1} << 40}, {2})},
          {"mask", Tensor::from<bool>({true, false, true}, {3})},
          {"scalar", Tensor::from<double>({0.1}, {})},
          {"empty", Tensor({0, 4})},
          {"transposed", Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}).transpose(0, 1)},
          {"größe \"\\\n", ones({1, 1, 1, 1, 1, 1})}};
}

}  // namespace

TEST_CASE("a reader tells what is there, and fills memory of the caller's") {
  TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  write_safetensors(path, examples(), {{"format", "pt"}});
  const SafetensorsReader reader(path);
  CHECK(reader.metadata().at("format") == "pt");
  CHECK(reader.entries().size() == examples().size());
  CHECK(reader.find("weights") == nullptr);
  const SafetensorsReader::Entry* weight = reader.find("weight");
  REQUIRE(weight);
  CHECK(weight->dtype == DType::f32);
  CHECK(weight->shape == Dims{2, 3});
  const Tensor block = zeros({3, 3});
  reader.read(*weight, block.slice(0, 1, 3));
  CHECK(block.to_vector<float>() == std::vector<float>{0, 0, 0, 1, -2, 3.5f, 0, 5, 6});
  CHECK(message_of([&] {
          reader.read(*weight, zeros({3, 2}));
        }) == path + ": tensor \"weight\": f32 (2, 3) cannot be read into f32 (3, 2)");
  CHECK(message_of([&] {
          reader.read(*weight, zeros({3, 2}).transpose(0, 1));
        }) == path + ": tensor \"weight\": f32 (2, 3) cannot be read into f32 (2, 3) with gaps");
}

TEST_CASE("tensors of every dtype come back as they were written") {
  TemporaryFolder folder;
  const std::string path = folder / "a.safetensors";
  const std::map<std::string, std::string> metadata{{"format", "pt"}, {"note", "\"quoted\"\nü"}, {"", ""}};
  write_safetensors(path, examples(), metadata);
  const SafetensorsFile file = read_safetensors(path);
  CHECK(file.metadata == metadata);
  REQUIRE(file.tensors.size() == examples().size());
  for (const NamedTensor& written : examples()) {
    const std::string& name = written.name;
    const Tensor& value = written.value;
    CAPTURE(name);
    const Tensor* read = file.find(name);
    REQUIRE(read);
    CHECK(read->dtype() == value.dtype());
    CHECK(read->shape() == value.shape());
    CHECK(read->to(DType::f64).to_vector<double>() == value.to(DType::f64).to_vector<double>());
  }
  CHECK(file.find("bias") == nullptr);
  CHECK(file.tensors.front().name == "ids");  // eight bytes wide: first
  CHECK(file.tensors.back().name == "mask");
}

TEST_CASE("the same tensors give the same bytes, as the format says") {
  TemporaryFolder folder;
  const std::string path = folder / "a";
  write_safetensors(path, {{"b", Tensor::from<bool>({true}, {1})}, {"a", Tensor::from<float>({1}, {})}}, {{"k", "v"}});
  std::string header = R"({"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"BOOL","shape":[1],"data_offsets":[4,5]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  CHECK(read_file(path) == assembled(header, std::string_view("\0\0\x80\x3f\1", 5)));
  write_safetensors(path, {});
  CHECK(read_file(path) == assembled("{}      "));
  CHECK(read_safetensors(path).tensors.empty());
  write_safetensors(path, examples());
  write_safetensors(folder / "b", examples());
  CHECK(read_file(path) == read_file(folder / "b"));
}

TEST_CASE("what cannot be written says why and leaves no file") {
  TemporaryFolder folder;
  const std::string path = folder / "a";
  const Tensor x = zeros({1});
  const auto attempt = [&](const std::vector<NamedTensor>& tensors, const std::map<std::string, std::string>& metadata = {}) {
    return message_of([&] { write_safetensors(path, tensors, metadata); });
  };
  CHECK(attempt({{"x", x}, {"x", x}}) == "cannot write " + path + ": the name \"x\" is taken");
  CHECK(attempt({{"__metadata__", x}}) == "cannot write " + path + ": the name \"__metadata__\" is taken");
  CHECK(attempt({{"x", Tensor()}}) == "cannot write " + path + ": tensor \"x\" has no contents");
  CHECK(attempt({{"\xff", x}}) == "cannot write " + path + ": the name or text \"\xff\" is not UTF-8");
  CHECK(attempt({}, {{"k", "\xc3"}}) == "cannot write " + path + ": the name or text \"\xc3\" is not UTF-8");
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("files that PyTorch wrote") {
  const std::string folder = std::string(SEQGRAD_FIXTURES) + "/torch/";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    CAPTURE(file.path());
    CHECK(!read_safetensors(file.path()).tensors.empty());
  }
}

TEST_CASE("hostile files: one line that says what is wrong") {
  TemporaryFolder folder;
  const auto tensor = [](const std::string& fields) { return R"({"x":{)" + fields + "}}"; };
  const std::string f32 = R"("dtype":"F32",)", data = std::string(16, '\0');
  const std::string deep = std::string(1 << 20, '['), nested = R"({"x":)" + std::string(1 << 20, '{');
  const struct {
    std::string header, data, expected;
  } table[] = {
      {"", "", "the header is not a JSON object"},
      {"[]", "", "the header is not a JSON object"},
      {" {}", "", "the header is not a JSON object"},
      {deep, "", "the header is not a JSON object"},
      {"{", "", "the header is not JSON: error at its byte 2"},
      {"{}}", "", "the header is not JSON: error at its byte 3"},
      {std::string("{}\0x", 4), "", "the header is not JSON: error at its byte 3"},
      {"{\"\xff\":{}}", "", "the header is not JSON: error at its byte 3"},
      {R"({"x":1e999})", "", "the header is not JSON: error at its byte 10"},
      {nested, "", "the header is not JSON: error at its byte 7"},
      {R"({"x":{"dtype":)" + deep, "", R"(tensor "x": dtype is not a string)"},
      {R"({"x":3})", "", R"("x" is not described by a JSON object)"},
      {R"({"x":null})", "", R"("x" is not described by a JSON object)"},
      {R"({"a\nb":[]})", "", R"("a\x0ab" is not described by a JSON object)"},
      {"{\"" + std::string(200, 'x') + "\":[]}", "", "\"" + std::string(80, 'x') + "...\" is not described by a JSON object"},
      {R"({"__metadata__":[]})", "", R"("__metadata__" is not described by a JSON object)"},
      {R"({"__metadata__":{"k":1}})", "", R"(the metadata's "k" is not a string)"},
      {R"({"__metadata__":{"k":{}}})", "", R"(the metadata's "k" is not a string)"},
      {R"({"__metadata__":{"k":"","k":""}})", "", R"(the metadata name "k" twice)"},
      {R"({"__metadata__":{},"__metadata__":{}})", "", R"(the header names "__metadata__" twice)"},
      {tensor(""), "", R"(tensor "x" has no dtype)"},
      {tensor(R"("dtype":"F32")"), "", R"(tensor "x" has no shape)"},
      {tensor(f32 + R"("shape":[])"), "", R"(tensor "x" has no data_offsets)"},
      {tensor(R"("dtype":1)"), "", R"(tensor "x": dtype is not a string)"},
      {tensor(R"("dtype":"F32","dtype":"F32")"), "", R"(tensor "x" has dtype twice)"},
      {tensor(R"("strides":[])"), "", R"(tensor "x" has an unknown field "strides")"},
      {tensor(R"("shape":4)"), "", R"(tensor "x": shape is not a list of non-negative whole numbers)"},
      {tensor(R"("shape":[-1])"), "", R"(tensor "x": shape is not a list of non-negative whole numbers)"},
      {tensor(R"("shape":[1.0])"), "", R"(tensor "x": shape is not a list of non-negative whole numbers)"},
      {tensor(R"("shape":[[1]])"), "", R"(tensor "x": shape is not a list of non-negative whole numbers)"},
      {tensor(R"("shape":["1"])"), "", R"(tensor "x": shape is not a list of non-negative whole numbers)"},
      {tensor(R"("shape":[true])"), "", R"(tensor "x": shape is not a list of non-negative whole numbers)"},
      {tensor(R"("shape":[99999999999999999999])"), "", R"(tensor "x": shape is not a list of non-negative whole numbers)"},
      {tensor(R"("shape":[1,1,1,1,1,1,1])"), "", R"(tensor "x" has more than 6 dimensions)"},
      {tensor(R"("data_offsets":[0])"), "", R"(tensor "x": data_offsets are not two non-negative whole numbers)"},
      {tensor(R"("data_offsets":[0,4,8])"), "", R"(tensor "x": data_offsets are not two non-negative whole numbers)"},
      {tensor(R"("data_offsets":[-4,0])"), "", R"(tensor "x": data_offsets are not two non-negative whole numbers)"},
      {tensor(R"("data_offsets":{})"), "", R"(tensor "x": data_offsets are not two non-negative whole numbers)"},
      {tensor(R"("dtype":"F16","shape":[2],"data_offsets":[0,4])"), data,
       R"(tensor "x": dtype F16 is not supported: convert it to F32, F64, I64 or BOOL)"},
      {tensor(R"("dtype":"f32","shape":[1],"data_offsets":[0,4])"), data, R"(tensor "x": unknown dtype "f32")"},
      {tensor(f32 + R"("shape":[281474976710657],"data_offsets":[0,4])"), data,
       R"(tensor "x": a shape of (281474976710657) is too large)"},
      {tensor(f32 + R"("shape":[16777216,0,4294967296],"data_offsets":[0,0])"), data,
       R"(tensor "x": a shape of (16777216, 0, 4294967296) is too large)"},
      {tensor(f32 + R"("shape":[18446744073709551615],"data_offsets":[0,4])"), data,
       R"(tensor "x": a shape of (18446744073709551615) is too large)"},
      {tensor(f32 + R"("shape":[5],"data_offsets":[0,20])"), data,
       R"(tensor "x": data_offsets 0 to 20 are outside the 16 bytes of data)"},
      {tensor(f32 + R"("shape":[281474976710656],"data_offsets":[0,1125899906842624])"), data,
       R"(tensor "x": data_offsets 0 to 1125899906842624 are outside the 16 bytes of data)"},
      {tensor(f32 + R"("shape":[1],"data_offsets":[18446744073709551612,0])"), data,
       R"(tensor "x": data_offsets 18446744073709551612 to 0 are outside the 16 bytes of data)"},
      {tensor(f32 + R"("shape":[4],"data_offsets":[16,0])"), data,
       R"(tensor "x": data_offsets 16 to 0 are outside the 16 bytes of data)"},
      {tensor(f32 + R"("shape":[2,2],"data_offsets":[0,12])"), data,
       R"(tensor "x": F32 of shape (2, 2) takes 16 bytes, but its data_offsets are 0 to 12)"},
      {tensor(f32 + R"("shape":[3],"data_offsets":[0,12])"), data, "the last 4 bytes belong to no tensor"},
      {tensor(f32 + R"("shape":[3],"data_offsets":[4,16])"), data, "bytes 0 to 4 of the data belong to no tensor"},
      {"{}", "\1", "the last 1 bytes belong to no tensor"},
      {R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[4,16]},"y":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", data,
       R"(tensors "y" and "x" overlap in the data)"},
      {R"({"x":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"y":{"dtype":"F32","shape":[0],"data_offsets":[8,8]}})", data,
       R"(tensors "x" and "y" overlap in the data)"},
      {R"({"x":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[],"data_offsets":[4,8]}})", data,
       R"(the header names "x" twice)"},
      {tensor(R"("dtype":"BOOL","shape":[3],"data_offsets":[0,3])"), "\1\1\2",
       R"(tensor "x": BOOL of value 2, neither 0 nor 1)"},
      {tensor(R"("dtype":"BOOL","shape":[1],"data_offsets":[0,1])"), "\xff",
       R"(tensor "x": BOOL of value 255, neither 0 nor 1)"},
  };
  for (const auto& row : table) {
    CAPTURE(row.header.substr(0, 200));
    CHECK(complaint(folder, assembled(row.header, row.data)) == row.expected);
  }
}

TEST_CASE("hostile files: the header's length") {
  TemporaryFolder folder;
  CHECK(complaint(folder, "") == "not a safetensors file: 0 bytes, where the header's length alone takes 8");
  CHECK(complaint(folder, "1234567") == "not a safetensors file: 7 bytes, where the header's length alone takes 8");
  std::string file = assembled("{}");
  file[0] = 3;
  CHECK(complaint(folder, file) == "a header of 3 bytes does not fit into a file of 10");
  file[7] = '\xff';
  CHECK(complaint(folder, file) ==
        "not a safetensors file: a header of 18374686479671623683 bytes, where 100000000 are allowed");
  CHECK(message_of([&] { read_safetensors(folder / "none"); }) ==
        "cannot read " + (folder / "none") + ": No such file or directory");
}

TEST_CASE("a file cut anywhere is refused, and a changed byte never more than misread") {
  TemporaryFolder folder;
  const std::string path = folder / "a";
  write_safetensors(path, {{"x", ones({2})}, {"m", Tensor::from<bool>({true, false}, {2})}}, {{"k", "v"}});
  const std::string good = read_file(path);
  CHECK(complaint(folder, good).empty());
  for (std::size_t n = 0; n < good.size(); ++n) {
    CAPTURE(n);
    CHECK(!complaint(folder, good.substr(0, n)).empty());
  }
  CHECK(complaint(folder, good + '\0') == "the last 1 bytes belong to no tensor");
  int refused = 0, accepted = 0;
  for (std::size_t at = 0; at < good.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      ++(complaint(folder, bad).empty() ? accepted : refused);
    }
  CHECK(refused > accepted);
}

TEST_CASE("a checksum changes nothing for those who read, and finds every flipped bit") {
  const TemporaryFolder folder;
  const std::vector<NamedTensor> tensors{{"a \"checksum\":\"xxh64:0123456789abcdef\"", ones({3, 2})},
                                         {"flags", Tensor::from<bool>({true, false, true}, {3})},
                                         {"none", zeros({0, 4})}};
  const std::map<std::string, std::string> metadata{{"a", "\"checksum\":\"xxh64:0000000000000000\""}, {"z", "last"}};
  write_safetensors(folder / "plain", tensors, metadata);
  write_safetensors(folder / "summed", tensors, metadata, true);
  write_safetensors(folder / "again", tensors, metadata, true);
  CHECK(read_file(folder / "again") == read_file(folder / "summed"));
  SafetensorsFile plain = read_safetensors(folder / "plain"), summed = read_safetensors(folder / "summed");
  CHECK(summed.metadata.at("checksum").size() == 6 + 16);
  CHECK(summed.metadata.at("checksum") != "xxh64:0000000000000000");
  summed.metadata.erase("checksum");
  CHECK(summed.metadata == plain.metadata);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CHECK(summed.tensors[i].name == plain.tensors[i].name);
    CHECK(summed.tensors[i].value.to(DType::f64).to_vector<double>() ==
          plain.tensors[i].value.to(DType::f64).to_vector<double>());
  }
  CHECK_FALSE(SafetensorsReader(folder / "plain").has_checksum());
  const SafetensorsReader reader(folder / "summed");
  CHECK(reader.has_checksum());
  reader.verify();  // reads what nobody has read
  const Tensor a({3, 2});
  reader.read(reader.entries()[0], a);
  reader.verify();

  const std::string good = read_file(folder / "summed");
  const std::size_t key =
      good.find("\"checksum\":\"xxh64:" + SafetensorsReader(folder / "summed").metadata().at("checksum").substr(6));
  REQUIRE(key != good.npos);
  for (std::size_t i = 0; i < good.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const std::string path = folder.file("bad", bad);
      const std::string message = message_of([&] { read_safetensors(path); });
      CAPTURE(i);
      CAPTURE(bit);
      // The word "checksum" and the name of its kind are the exception: to a reader there is none then.
      if (i > key && i < key + 18) continue;
      CHECK(message.starts_with(path + ": "));
      CHECK(message.find('\n') == message.npos);
    }
  std::string bad = good;
  bad[good.size() - 8] ^= 1;
  CHECK(message_of([&] { read_safetensors(folder.file("bad", bad)); }) ==
        folder / "bad" + ": its checksum is off: the file is damaged");
}
