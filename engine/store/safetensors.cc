#include "engine/store/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"
#include "engine/store/strict_json.h"

// The format: the header's length (8 bytes, little-endian), the header (JSON:
// per tensor its dtype, shape and data_offsets, the latter relative to the end
// of the header; "__metadata__" maps strings to strings), the tensors.

namespace hearth::store {
namespace {

using nlohmann::json;

constexpr char kMetadataKey[] = "__metadata__";
// Enough for some 40,000 tensors. The format allows 100 MB, which a parser
// turns into gigabytes.
constexpr uint64_t kMaxHeaderBytes = 4 << 20;
constexpr uint64_t kAlignment = 8;
// Bytes that a scan holds at a time.
constexpr uint64_t kPieceBytes = 1 << 20;

struct DTypeCode {
  DType dtype;
  const char* code;
};

constexpr std::array<DTypeCode, 6> kCodes = {{
    {DType::kFloat32, "F32"},
    {DType::kFloat16, "F16"},
    {DType::kBFloat16, "BF16"},
    {DType::kInt32, "I32"},
    {DType::kInt64, "I64"},
    {DType::kUint8, "U8"},
}};

const char* CodeOf(DType dtype) {
  return std::find_if(kCodes.begin(), kCodes.end(),
                      [&](const DTypeCode& c) { return c.dtype == dtype; })
      ->code;
}

absl::StatusOr<DType> ParseCode(const std::string& code) {
  for (const DTypeCode& known : kCodes) {
    if (code == known.code) return known.dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype \"", absl::CEscape(code), "\" is not supported"));
}

// ---- Writing

using NamedTensor = TensorMap::value_type;

absl::Status CheckWritable(const SafeTensors& contents) {
  for (const auto& [name, tensor] : contents.tensors) {
    if (name == kMetadataKey || !IsUtf8(name)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", absl::CEscape(name), "\" cannot be a tensor's name"));
    }
    const auto bytes = ArrayBytes(tensor.shape, SizeOf(tensor.dtype));
    if (bytes != static_cast<int64_t>(tensor.data.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", name, "\" of shape ", FormatShape(tensor.shape), " has ",
          tensor.data.size(), " bytes"));
    }
  }
  for (const auto& [key, value] : contents.metadata) {
    if (!IsUtf8(key) || !IsUtf8(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("metadata \"", absl::CEscape(key), "\" is not UTF-8"));
    }
  }
  return absl::OkStatus();
}

/// The order in the file: wide elements first, so that each tensor is aligned
/// for its type; then by name.
std::vector<const NamedTensor*> FileOrder(const TensorMap& tensors) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& named : tensors) order.push_back(&named);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) {
                     return SizeOf(a->second.dtype) > SizeOf(b->second.dtype);
                   });
  return order;
}

std::string FormatHeader(const std::vector<const NamedTensor*>& order,
                         const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  uint64_t offset = 0;
  for (const NamedTensor* named : order) {
    const Tensor& tensor = named->second;
    header[named->first] = {
        {"dtype", CodeOf(tensor.dtype)},
        {"shape", tensor.shape},
        {"data_offsets", {offset, offset + tensor.data.size()}}};
    offset += tensor.data.size();
  }
  std::string text = header.dump();
  // The format allows spaces at the end, for alignment.
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

absl::Span<const std::byte> BytesOf(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// ---- Reading

/// A tensor's place, read from the header.
struct Entry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

absl::StatusOr<Entry> ParseEntry(const std::string& name, const json& value) {
  const std::string where = absl::StrCat("\"", absl::CEscape(name), "\"");
  JsonFields fields(value, where);
  const std::string code = fields.String("dtype");
  Entry entry;
  entry.name = name;
  entry.shape = fields.NonNegativeInts("shape");
  const std::vector<int64_t> range = fields.NonNegativeInts("data_offsets");
  HEARTH_RETURN_IF_ERROR(fields.status());
  if (value.size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " has unknown fields"));
  }
  absl::StatusOr<DType> dtype = ParseCode(code);
  if (!dtype.ok()) return Annotate(dtype.status(), where);
  entry.dtype = *dtype;
  if (range.size() != 2 || range[0] > range[1]) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ".data_offsets is not a range"));
  }
  entry.begin = static_cast<uint64_t>(range[0]);
  entry.end = static_cast<uint64_t>(range[1]);
  const auto bytes = ArrayBytes(entry.shape, SizeOf(entry.dtype));
  if (bytes != range[1] - range[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, " of shape ", FormatShape(entry.shape),
                     " does not fit its ", entry.end - entry.begin, " bytes"));
  }
  return entry;
}

/// The entries tile [0, data_bytes) exactly.
absl::Status CheckTiling(std::vector<Entry>& entries, uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t next = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != next) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", absl::CEscape(entry.name), "\" begins at data byte ",
          entry.begin, ", not at ", next));
    }
    if (entry.end > data_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", absl::CEscape(entry.name), "\" ends at data byte ",
                       entry.end, ", but there are ", data_bytes));
    }
    next = entry.end;
  }
  if (next != data_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the tensors end at data byte ", next, ", the file at ", data_bytes));
  }
  return absl::OkStatus();
}

absl::Status ParseMetadata(const json& value,
                           std::map<std::string, std::string>& metadata) {
  if (!value.is_object()) {
    return absl::InvalidArgumentError("__metadata__ is not an object");
  }
  for (const auto& [key, item] : value.items()) {
    const auto* text = item.get_ptr<const json::string_t*>();
    if (text == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "__metadata__.", absl::CEscape(key), " is not a string"));
    }
    metadata[key] = *text;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Entry>> ParseHeader(
    const std::string& text, uint64_t data_bytes,
    std::map<std::string, std::string>& metadata) {
  HEARTH_ASSIGN_OR_RETURN(const json header, ParseStrictJson(text));
  if (!header.is_object()) {
    return absl::InvalidArgumentError("the header is not a JSON object");
  }
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadataKey) {
      HEARTH_RETURN_IF_ERROR(ParseMetadata(value, metadata));
      continue;
    }
    HEARTH_ASSIGN_OR_RETURN(Entry entry, ParseEntry(name, value));
    entries.push_back(std::move(entry));
  }
  HEARTH_RETURN_IF_ERROR(CheckTiling(entries, data_bytes));
  return entries;
}

absl::StatusOr<std::string> ReadHeader(io::ReadableFile& file,
                                       uint64_t file_bytes) {
  uint64_t length = 0;
  if (file_bytes < sizeof(length)) {
    return absl::InvalidArgumentError("is too short for a header");
  }
  HEARTH_RETURN_IF_ERROR(
      file.Read(0, {reinterpret_cast<std::byte*>(&length), sizeof(length)}));
  if (length > file_bytes - sizeof(length) || length > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has a header of ", length, " bytes in a file of ",
                     file_bytes, "; at most ", kMaxHeaderBytes, " are read"));
  }
  std::string text(length, '\0');
  HEARTH_RETURN_IF_ERROR(file.Read(
      sizeof(length), {reinterpret_cast<std::byte*>(text.data()), length}));
  return text;
}

/// The header's contents.
struct Header {
  std::map<std::string, std::string> metadata;
  std::vector<Entry> entries;
  /// Offset of the tensors in the file.
  uint64_t data_offset = 0;
};

/// Reads and parses the header. Errors about the contents are INVALID_ARGUMENT,
/// here and in the functions below.
absl::StatusOr<Header> ReadParsedHeader(io::ReadableFile& file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  HEARTH_ASSIGN_OR_RETURN(const std::string text,
                          ReadHeader(file, info.size_bytes));
  Header header;
  header.data_offset = sizeof(uint64_t) + text.size();
  HEARTH_ASSIGN_OR_RETURN(
      header.entries,
      ParseHeader(text, info.size_bytes - header.data_offset, header.metadata));
  return header;
}

absl::StatusOr<SafeTensors> ReadContents(io::ReadableFile& file) {
  HEARTH_ASSIGN_OR_RETURN(Header header, ReadParsedHeader(file));
  SafeTensors contents;
  contents.metadata = std::move(header.metadata);
  for (Entry& entry : header.entries) {
    Tensor& tensor = contents.tensors[entry.name];
    tensor.dtype = entry.dtype;
    tensor.shape = std::move(entry.shape);
    tensor.data.resize(entry.end - entry.begin);
    HEARTH_RETURN_IF_ERROR(file.Read(header.data_offset + entry.begin,
                                     absl::MakeSpan(tensor.data)));
  }
  return contents;
}

absl::StatusOr<std::map<std::string, std::string>> ScanContents(
    io::ReadableFile& file, SafeTensorsVisitor& visitor) {
  HEARTH_ASSIGN_OR_RETURN(Header header, ReadParsedHeader(file));
  std::sort(header.entries.begin(), header.entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  std::vector<std::byte> buffer;
  for (Entry& entry : header.entries) {
    visitor.OnTensor(
        entry.name,
        {.dtype = entry.dtype, .shape = std::move(entry.shape), .data = {}});
    for (uint64_t at = entry.begin; at < entry.end; at += buffer.size()) {
      buffer.resize(std::min(kPieceBytes, entry.end - at));
      HEARTH_RETURN_IF_ERROR(
          file.Read(header.data_offset + at, absl::MakeSpan(buffer)));
      visitor.OnData(buffer);
    }
  }
  return std::move(header.metadata);
}

/// Opens the file for `read`, whose errors about the contents become DATA_LOSS
/// that names it.
template <typename Read>
auto ReadFrom(io::FileSystem& files, const std::string& path, const Read& read)
    -> decltype(read(std::declval<io::ReadableFile&>())) {
  absl::StatusOr<std::unique_ptr<io::ReadableFile>> file =
      files.OpenForRead(path);
  HEARTH_RETURN_IF_ERROR(file.status());
  auto result = read(**file);
  if (absl::IsInvalidArgument(result.status())) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", result.status().message()));
  }
  return result;
}

}  // namespace

absl::Status WriteSafeTensors(io::FileSystem& files, const std::string& path,
                              const SafeTensors& contents) {
  if (absl::Status status = CheckWritable(contents); !status.ok()) {
    return Annotate(status, path);
  }
  const std::vector<const NamedTensor*> order = FileOrder(contents.tensors);
  const std::string header = FormatHeader(order, contents.metadata);
  if (header.size() > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": has a header of ", header.size(),
                     " bytes; at most ", kMaxHeaderBytes, " can be read back"));
  }
  const uint64_t length = header.size();
  std::vector<absl::Span<const std::byte>> pieces = {
      {reinterpret_cast<const std::byte*>(&length), sizeof(length)},
      BytesOf(header)};
  for (const NamedTensor* named : order) pieces.push_back(named->second.data);
  return io::WritePiecesAtomically(files, path, pieces);
}

absl::StatusOr<SafeTensors> ReadSafeTensors(io::FileSystem& files,
                                            const std::string& path) {
  return ReadFrom(files, path, ReadContents);
}

absl::StatusOr<std::map<std::string, std::string>> ScanSafeTensors(
    io::FileSystem& files, const std::string& path,
    SafeTensorsVisitor& visitor) {
  return ReadFrom(files, path, [&](io::ReadableFile& file) {
    return ScanContents(file, visitor);
  });
}

absl::StatusOr<std::map<std::string, std::string>> ReadSafeTensorsMetadata(
    io::FileSystem& files, const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(Header header,
                          ReadFrom(files, path, ReadParsedHeader));
  return std::move(header.metadata);
}

}  // namespace hearth::store
