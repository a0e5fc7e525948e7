#include "tensor/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "tensor/checksum.h"
#include "tensor/file.h"

namespace seqgrad {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using nlohmann::json;
constexpr u64 largest_header = 100'000'000;
constexpr i64 largest_tensor = i64{1} << 48;  // elements, as in Tensor

struct FormatType {
  const char* name;
  DType dtype;
};
constexpr FormatType supported[] = {{"F64", DType::f64}, {"I64", DType::i64}, {"F32", DType::f32}, {"BOOL", DType::boolean}};
constexpr const char* unsupported[] = {"F16", "BF16", "F8_E4M3", "F8_E5M2", "I8",  "I16", "I32",
                                       "U8",  "U16",  "U32",     "U64",     "C64", "F4",  "F8_E8M0"};

// A name from the file, fit for one line of an error message.
std::string in_quotes(std::string_view name) {
  constexpr std::size_t longest = 80;
  std::string text = "\"";
  for (std::size_t i = 0; i < name.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(name[i]);
    if (i >= longest && (c & 0xC0) != 0x80) return text + "...\"";
    if (c < 0x20 || c == 0x7F)
      text += fmt::format("\\x{:02x}", c);
    else
      text += name[i];
  }
  return text + "\"";
}

struct HeaderEntry {
  std::string name;
  std::string dtype;
  std::vector<u64> shape, offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
};

// Takes the header apart while it is parsed: no tree is built, anything out of place ends the parsing.
class HeaderParser : public nlohmann::json_sax<json> {
 public:
  std::vector<HeaderEntry> entries;
  std::map<std::string, std::string> metadata;
  std::string problem;

  bool start_object(std::size_t) override {
    if (where_ == Where::outside) return enter(Where::header);
    if (where_ == Where::tensor) {
      if (name_ == "__metadata__") return enter(Where::metadata);
      entries.push_back({name_, {}, {}, {}, false, false, false});
      return enter(Where::fields);
    }
    return misplaced();
  }
  bool end_object() override {
    if (where_ == Where::fields) {
      const HeaderEntry& e = entries.back();
      for (const auto& [given, field] :
           {std::pair{e.has_dtype, "dtype"}, {e.has_shape, "shape"}, {e.has_offsets, "data_offsets"}})
        if (!given) return stop(fmt::format("tensor {} has no {}", in_quotes(e.name), field));
    }
    return enter(where_ == Where::header ? Where::outside : Where::header);
  }
  bool key(std::string& name) override {
    if (where_ == Where::header) {
      name_ = name;
      if (!names_.insert(name).second) return stop(fmt::format("the header names {} twice", in_quotes(name)));
      return enter(Where::tensor);
    }
    if (where_ == Where::metadata) {
      key_ = name;
      if (metadata.contains(name)) return stop(fmt::format("the metadata name {} twice", in_quotes(name)));
      return enter(Where::metadata_value);
    }
    HeaderEntry& e = entries.back();
    bool* given = name == "dtype"          ? &e.has_dtype
                  : name == "shape"        ? &e.has_shape
                  : name == "data_offsets" ? &e.has_offsets
                                           : nullptr;
    if (!given) return stop(fmt::format("tensor {} has an unknown field {}", in_quotes(e.name), in_quotes(name)));
    if (*given) return stop(fmt::format("tensor {} has {} twice", in_quotes(e.name), name));
    *given = true;
    return enter(given == &e.has_dtype ? Where::dtype : given == &e.has_shape ? Where::shape : Where::offsets);
  }
  bool string(std::string& text) override {
    if (where_ == Where::dtype) {
      entries.back().dtype = text;
      return enter(Where::fields);
    }
    if (where_ == Where::metadata_value) {
      metadata[key_] = text;
      return enter(Where::metadata);
    }
    return misplaced();
  }
  bool start_array(std::size_t) override {
    if (where_ == Where::shape) return enter(Where::extents);
    if (where_ == Where::offsets) return enter(Where::two_offsets);
    return misplaced();
  }
  bool number_unsigned(std::uint64_t number) override {
    if (where_ == Where::extents) {
      if (entries.back().shape.size() == Dims::max)
        return stop(fmt::format("tensor {} has more than {} dimensions", in_quotes(entries.back().name), Dims::max));
      entries.back().shape.push_back(number);
      return true;
    }
    if (where_ == Where::two_offsets && entries.back().offsets.size() < 2) {
      entries.back().offsets.push_back(number);
      return true;
    }
    return misplaced();
  }
  bool end_array() override {
    if (where_ == Where::two_offsets && entries.back().offsets.size() != 2) return misplaced();
    return enter(Where::fields);
  }
  bool null() override { return misplaced(); }
  bool boolean(bool) override { return misplaced(); }
  bool number_integer(std::int64_t) override { return misplaced(); }
  bool number_float(double, const std::string&) override { return misplaced(); }
  bool binary(json::binary_t&) override { return misplaced(); }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    return stop(fmt::format("the header is not JSON: error at its byte {}", position));
  }

 private:
  enum class Where { outside, header, tensor, metadata, metadata_value, fields, dtype, shape, extents, offsets, two_offsets };

  bool enter(Where where) {
    where_ = where;
    return true;
  }
  bool stop(std::string text) {
    problem = std::move(text);
    return false;
  }
  // A value of the wrong kind: which one was expected follows from the place.
  bool misplaced() {
    switch (where_) {
      case Where::outside:
      case Where::header:
        return stop("the header is not a JSON object");
      case Where::tensor:
        return stop(fmt::format("{} is not described by a JSON object", in_quotes(name_)));
      case Where::metadata:
      case Where::metadata_value:
        return stop(fmt::format("the metadata's {} is not a string", in_quotes(key_)));
      case Where::fields:
      case Where::dtype:
        return stop(fmt::format("tensor {}: dtype is not a string", in_quotes(name_)));
      case Where::shape:
      case Where::extents:
        return stop(fmt::format("tensor {}: shape is not a list of non-negative whole numbers", in_quotes(name_)));
      case Where::offsets:
      case Where::two_offsets:
        break;
    }
    return stop(fmt::format("tensor {}: data_offsets are not two non-negative whole numbers", in_quotes(name_)));
  }

  Where where_ = Where::outside;
  std::string name_, key_;
  std::set<std::string> names_;
};

DType dtype_of_entry(const std::string& path, const HeaderEntry& entry) {
  for (const FormatType& type : supported)
    if (entry.dtype == type.name) return type.dtype;
  if (std::find(std::begin(unsupported), std::end(unsupported), entry.dtype) != std::end(unsupported))
    throw_error("{}: tensor {}: dtype {} is not supported: convert it to F32, F64, I64 or BOOL", path, in_quotes(entry.name),
                entry.dtype);
  throw_error("{}: tensor {}: unknown dtype {}", path, in_quotes(entry.name), in_quotes(entry.dtype));
}

// The extents, when they, the dtype and the offsets agree.
Dims shape_of_entry(const std::string& path, const HeaderEntry& entry, std::size_t data_bytes) {
  Dims shape;
  i64 count = 1;  // of the extents that are not 0
  bool empty = false;
  for (u64 extent : entry.shape) {
    if (extent > static_cast<u64>(largest_tensor / count))
      throw_error("{}: tensor {}: a shape of ({}) is too large", path, in_quotes(entry.name), fmt::join(entry.shape, ", "));
    shape.push_back(static_cast<i64>(extent));
    empty |= extent == 0;
    if (extent != 0) count *= static_cast<i64>(extent);
  }
  const u64 bytes = empty ? 0 : static_cast<u64>(count) * size_of(dtype_of_entry(path, entry));
  const u64 begin = entry.offsets[0], end = entry.offsets[1];
  if (begin > end || end > data_bytes)
    throw_error("{}: tensor {}: data_offsets {} to {} are outside the {} bytes of data", path, in_quotes(entry.name), begin,
                end, data_bytes);
  if (end - begin != bytes)
    throw_error("{}: tensor {}: {} of shape {} takes {} bytes, but its data_offsets are {} to {}", path, in_quotes(entry.name),
                entry.dtype, shape, bytes, begin, end);
  return shape;
}

const char* bytes_of(const Tensor& x) {
  switch (x.dtype()) {
    case DType::f32:
      return reinterpret_cast<const char*>(x.data<float>());
    case DType::f64:
      return reinterpret_cast<const char*>(x.data<double>());
    case DType::i64:
      return reinterpret_cast<const char*>(x.data<i64>());
    case DType::boolean:
      break;
  }
  return reinterpret_cast<const char*>(x.data<bool>());
}

std::string json_text(const std::string& path, const std::string& text) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    throw_error("cannot write {}: the name or text {} is not UTF-8", path, in_quotes(text));
  }
}

// The checksum counts the length of the header, the header with these digits as zeros, and each tensor's own checksum.
constexpr std::string_view checksum_key = "checksum", checksum_kind = "xxh64:";
constexpr std::size_t checksum_digits = 16;

std::string no_checksum() { return std::string(checksum_kind) + std::string(checksum_digits, '0'); }

// Where the digits are in a header of our own writing; npos: nowhere. Quotes in names and texts are escaped, so that nothing
// else can look like this.
std::size_t find_checksum(const std::string& header) {
  const std::string before = fmt::format(R"("{}":"{})", checksum_key, checksum_kind);
  const std::size_t at = header.find(before);
  return at == header.npos || at + before.size() + checksum_digits > header.size() ? header.npos : at + before.size();
}

Checksum checksum_of_header(const std::string& header) {
  const u64 length = header.size();
  Checksum sum;
  sum.add(&length, sizeof length);
  sum.add(header);
  return sum;
}

u64 checksum_of(const void* data, std::size_t bytes) {
  Checksum sum;
  sum.add(data, bytes);
  return sum.value();
}

}  // namespace

const Tensor* SafetensorsFile::find(const std::string& name) const {
  for (const NamedTensor& tensor : tensors)
    if (tensor.name == name) return &tensor.value;
  return nullptr;
}

SafetensorsReader::SafetensorsReader(const std::string& path) : path_(path), file_(path) {
  u64 length = 0;
  if (file_.size() < sizeof(length))
    throw_error("{}: not a safetensors file: {} bytes, where the header's length alone takes 8", path, file_.size());
  file_.read(0, &length, sizeof(length));
  if (length > largest_header)
    throw_error("{}: not a safetensors file: a header of {} bytes, where {} are allowed", path, length, largest_header);
  if (length > file_.size() - sizeof(length))
    throw_error("{}: a header of {} bytes does not fit into a file of {}", path, length, file_.size());
  std::string header(length, '\0');
  file_.read(sizeof(length), header.data(), length);
  const std::size_t data = sizeof(length) + length, data_bytes = file_.size() - data;

  if (!header.starts_with('{')) throw_error("{}: the header is not a JSON object", path);
  // The parser would take a zero byte for the end.
  if (const std::size_t zero = header.find('\0'); zero != header.npos)
    throw_error("{}: the header is not JSON: error at its byte {}", path, zero + 1);
  HeaderParser parser;
  if (!json::sax_parse(header.begin(), header.end(), &parser)) throw_error("{}: {}", path, parser.problem);

  std::vector<HeaderEntry>& described = parser.entries;
  std::stable_sort(described.begin(), described.end(),
                   [](const HeaderEntry& a, const HeaderEntry& b) { return a.offsets < b.offsets; });
  metadata_ = std::move(parser.metadata);
  u64 covered = 0;
  for (const HeaderEntry& entry : described) {
    const DType dtype = dtype_of_entry(path, entry);
    const Dims shape = shape_of_entry(path, entry, data_bytes);
    const u64 begin = entry.offsets[0], end = entry.offsets[1];
    if (begin < covered)
      throw_error("{}: tensors {} and {} overlap in the data", path, in_quotes(entries_.back().name), in_quotes(entry.name));
    if (begin > covered) throw_error("{}: bytes {} to {} of the data belong to no tensor", path, covered, begin);
    covered = end;
    entries_.push_back({entry.name, dtype, shape, data + begin});
  }
  if (covered != data_bytes) throw_error("{}: the last {} bytes belong to no tensor", path, data_bytes - covered);

  const auto found = metadata_.find(std::string(checksum_key));
  if (found == metadata_.end() || !found->second.starts_with(checksum_kind)) return;
  checksum_ = found->second;
  const std::size_t digits = find_checksum(header);
  if (digits != header.npos) header.replace(digits, checksum_digits, checksum_digits, '0');
  header_ = std::move(header);
  sums_.resize(entries_.size());
}

const SafetensorsReader::Entry* SafetensorsReader::find(const std::string& name) const {
  for (const Entry& entry : entries_)
    if (entry.name == name) return &entry;
  return nullptr;
}

void SafetensorsReader::read(const Entry& entry, const Tensor& to) const {
  if (to.dtype() != entry.dtype || !(to.shape() == entry.shape) || !to.is_contiguous())
    throw_error("{}: tensor {}: {} {} cannot be read into {} {}{}", path_, in_quotes(entry.name), name_of(entry.dtype),
                entry.shape, name_of(to.dtype()), to.shape(), to.is_contiguous() ? "" : " with gaps");
  const std::size_t bytes = static_cast<std::size_t>(to.numel()) * size_of(entry.dtype);
  const auto note_sum = [&](const void* data) {
    if (checksum_) sums_[static_cast<std::size_t>(&entry - entries_.data())] = checksum_of(data, bytes);
  };
  if (bytes == 0) return note_sum("");
  char* const memory = const_cast<char*>(bytes_of(to));
  if (entry.dtype != DType::boolean) {
    file_.read(entry.offset, memory, bytes);
    return note_sum(memory);
  }
  std::string values(bytes, '\0');
  file_.read(entry.offset, values.data(), bytes);
  for (char c : values)
    if (c != 0 && c != 1)
      throw_error("{}: tensor {}: BOOL of value {}, neither 0 nor 1", path_, in_quotes(entry.name),
                  static_cast<unsigned char>(c));
  std::memcpy(memory, values.data(), bytes);
  note_sum(memory);
}

void SafetensorsReader::verify() const {
  if (!checksum_) return;
  Checksum sum = checksum_of_header(header_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!sums_[i]) read(entries_[i], Tensor(entries_[i].shape, entries_[i].dtype));
    sum.add(&*sums_[i], sizeof(u64));
  }
  if (*checksum_ != fmt::format("{}{:016x}", checksum_kind, sum.value()))
    throw_error("{}: its checksum is off: the file is damaged", path_);
}

SafetensorsFile read_safetensors(const std::string& path) {
  const SafetensorsReader reader(path);
  SafetensorsFile file;
  file.metadata = reader.metadata();
  for (const SafetensorsReader::Entry& entry : reader.entries()) {
    const Tensor tensor(entry.shape, entry.dtype);
    reader.read(entry, tensor);
    file.tensors.push_back({entry.name, tensor});
  }
  reader.verify();
  return file;
}

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                       const std::map<std::string, std::string>& metadata_in, bool with_checksum) {
  std::map<std::string, std::string> metadata = metadata_in;
  if (with_checksum) metadata[std::string(checksum_key)] = no_checksum();
  std::vector<NamedTensor> sorted = tensors;
  std::set<std::string> names{"__metadata__"};
  for (NamedTensor& tensor : sorted) {
    if (!tensor.value.defined()) throw_error("cannot write {}: tensor {} has no contents", path, in_quotes(tensor.name));
    if (!names.insert(tensor.name).second) throw_error("cannot write {}: the name {} is taken", path, in_quotes(tensor.name));
    tensor.value = tensor.value.contiguous().to(Device::cpu);
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return size_of(a.value.dtype()) > size_of(b.value.dtype());
  });

  const auto bytes = [](const Tensor& x) { return static_cast<std::size_t>(x.numel()) * size_of(x.dtype()); };
  std::string header;
  const auto entry = [&](const std::string& name, const std::string& value) {
    header += fmt::format("{}{}:{}", header.empty() ? "{" : ",", json_text(path, name), value);
  };
  if (!metadata.empty()) {
    std::string values;
    for (const auto& [key, text] : metadata)
      values += fmt::format("{}{}:{}", values.empty() ? "{" : ",", json_text(path, key), json_text(path, text));
    entry("__metadata__", values + "}");
  }
  std::size_t offset = 0;
  for (const auto& [name, value] : sorted) {
    const auto type = std::find_if(std::begin(supported), std::end(supported),
                                   [dtype = value.dtype()](const FormatType& t) { return t.dtype == dtype; });
    const std::size_t begin = offset;
    offset += bytes(value);
    entry(name, fmt::format(R"({{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", type->name,
                            fmt::join(value.shape(), ","), begin, offset));
  }
  header += header.empty() ? "{}" : "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > largest_header)
    throw_error("cannot write {}: its header of {} bytes is over the {} allowed", path, header.size(), largest_header);

  if (with_checksum) {
    Checksum sum = checksum_of_header(header);
    for (const NamedTensor& tensor : sorted) {
      const u64 part = checksum_of(bytes_of(tensor.value), bytes(tensor.value));
      sum.add(&part, sizeof part);
    }
    header.replace(find_checksum(header), checksum_digits, fmt::format("{:016x}", sum.value()));
  }
  AtomicFile file(path);
  const u64 length = header.size();
  file.write(&length, sizeof(length));
  file.write(header);
  for (const NamedTensor& tensor : sorted) file.write(bytes_of(tensor.value), bytes(tensor.value));
  file.commit();
}

}  // namespace seqgrad
