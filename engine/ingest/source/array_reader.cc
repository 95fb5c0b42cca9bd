#include "engine/ingest/source/array_reader.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/store/float16.h"
#include "engine/store/npy.h"
#include "engine/store/shape.h"

namespace hearth::ingest {
namespace {

// Elements converted at a time.
constexpr size_t kConvertedElements = 32 << 10;

/// A binary16 among the types below.
struct Half {
  uint16_t bits;
  explicit operator double() const { return store::Float16ToDouble(bits); }
};

std::vector<int64_t> IndexOf(const store::ArrayHeader& header,
                             int64_t position) {
  std::vector<int64_t> index(header.shape.size());
  for (size_t i = 0; i < index.size(); ++i) {
    // The dimension that varies fastest in the file comes first.
    const size_t axis = header.fortran_order ? i : index.size() - 1 - i;
    index[axis] = position % header.shape[axis];
    position /= header.shape[axis];
  }
  return index;
}

/// A bfloat16 among the types below.
struct BFloat {
  uint16_t bits;
  explicit operator double() const { return store::BFloat16ToFloat(bits); }
};

/// The byte behind the last element; nothing if it cannot be counted.
std::optional<uint64_t> EndOf(const store::ArrayHeader& header) {
  const auto bytes = store::ArrayBytes(header.shape, header.type.item_bytes);
  if (!bytes.has_value()) return std::nullopt;
  const uint64_t end = header.data_offset + static_cast<uint64_t>(*bytes);
  if (end < header.data_offset) return std::nullopt;
  return end;
}

std::string Describe(const store::ArrayHeader& header) {
  return absl::StrCat(Name(header.type), " elements of shape ",
                      store::FormatShape(header.shape));
}

}  // namespace

absl::Status CheckIsNoLink(io::FileSystem& files, const std::string& path) {
  // An entry of its folder that leads to nothing is a link.
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return absl::OkStatus();
  const absl::StatusOr<std::vector<std::string>> names =
      files.List(slash == 0 ? "/" : path.substr(0, slash));
  if (!names.ok() || std::find(names->begin(), names->end(),
                               path.substr(slash + 1)) == names->end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is a link to nothing"));
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenSourceFile(
    io::FileSystem& files, const std::string& path) {
  absl::StatusOr<std::unique_ptr<io::ReadableFile>> file =
      files.OpenForRead(path);
  if (!absl::IsNotFound(file.status())) return file;
  HEARTH_RETURN_IF_ERROR(CheckIsNoLink(files, path));
  return absl::InvalidArgumentError(absl::StrCat(path, ": is missing"));
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ArrayReader::OpenNpy(
    io::FileSystem& files, const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          OpenSourceFile(files, path));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> reader,
                          ReadNpy(std::move(file)));
  reader->has_own_file_ = true;
  return reader;
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ArrayReader::OpenRaw(
    io::FileSystem& files, const std::string& path, store::ArrayHeader header) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          OpenSourceFile(files, path));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ArrayReader> reader,
                          ReadRaw(std::move(file), std::move(header)));
  const uint64_t size = reader->info_.size_bytes;
  const uint64_t needed = *EndOf(reader->header_);
  if (needed != size) {
    return reader->Error(absl::StrCat(
        "has ", size, " bytes; ", Describe(reader->header_), " take ", needed));
  }
  reader->has_own_file_ = true;
  return reader;
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ArrayReader::ReadNpy(
    std::unique_ptr<io::ReadableFile> file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  HEARTH_ASSIGN_OR_RETURN(store::ArrayHeader header,
                          store::ReadNpyHeader(*file));
  return std::unique_ptr<ArrayReader>(
      new ArrayReader(std::move(file), std::move(header), info));
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ArrayReader::ReadRaw(
    std::unique_ptr<io::ReadableFile> file, store::ArrayHeader header) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  const std::optional<uint64_t> needed = EndOf(header);
  if (!needed.has_value() || *needed > info.size_bytes) {
    return absl::DataLossError(absl::StrCat(
        file->path(), ": has ", info.size_bytes, " bytes, too few for ",
        Describe(header), " from byte ", header.data_offset, " on"));
  }
  return std::unique_ptr<ArrayReader>(
      new ArrayReader(std::move(file), std::move(header), info));
}

absl::Status ArrayReader::ReadBytes(int64_t first, absl::Span<std::byte> out) {
  const uint64_t offset =
      header_.data_offset + static_cast<uint64_t>(first) *
                                static_cast<uint64_t>(header_.type.item_bytes);
  return file_->Read(offset, out);
}

template <typename Stored, typename Wanted>
absl::Status ArrayReader::ReadAs(int64_t first, absl::Span<Wanted> out) {
  if constexpr (std::is_integral_v<Stored> && std::is_integral_v<Wanted> &&
                sizeof(Stored) == sizeof(Wanted)) {
    return ReadBytes(first, {reinterpret_cast<std::byte*>(out.data()),
                             out.size() * sizeof(Wanted)});
  }
  while (!out.empty()) {
    const size_t count = std::min(out.size(), kConvertedElements);
    raw_.resize(count * sizeof(Stored));
    HEARTH_RETURN_IF_ERROR(ReadBytes(first, absl::MakeSpan(raw_)));
    for (size_t i = 0; i < count; ++i) {
      Stored value;
      std::memcpy(&value, raw_.data() + i * sizeof(Stored), sizeof(Stored));
      out[i] = static_cast<Wanted>(value);
    }
    first += static_cast<int64_t>(count);
    out.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status ArrayReader::ReadInts(int64_t first, absl::Span<int64_t> out) {
  const int64_t bytes = header_.type.item_bytes;
  if (header_.type.kind == store::ElementType::Kind::kInt) {
    switch (bytes) {
      case 1:
        return ReadAs<int8_t>(first, out);
      case 2:
        return ReadAs<int16_t>(first, out);
      case 4:
        return ReadAs<int32_t>(first, out);
      default:
        return ReadAs<int64_t>(first, out);
    }
  }
  switch (bytes) {
    case 1:
      return ReadAs<uint8_t>(first, out);
    case 2:
      return ReadAs<uint16_t>(first, out);
    case 4:
      return ReadAs<uint32_t>(first, out);
    default:
      break;
  }
  HEARTH_RETURN_IF_ERROR(ReadAs<uint64_t>(first, out));
  const auto negative = std::find_if(out.begin(), out.end(),
                                     [](int64_t value) { return value < 0; });
  if (negative == out.end()) return absl::OkStatus();
  return ErrorAt(first + (negative - out.begin()),
                 absl::StrCat("is ", static_cast<uint64_t>(*negative),
                              ", beyond 2^63 - 1"));
}

absl::Status ArrayReader::ReadFloats(int64_t first, absl::Span<double> out) {
  if (header_.type.kind == store::ElementType::Kind::kBFloat) {
    return ReadAs<BFloat>(first, out);
  }
  switch (header_.type.item_bytes) {
    case 2:
      return ReadAs<Half>(first, out);
    case 4:
      return ReadAs<float>(first, out);
    default:
      return ReadAs<double>(first, out);
  }
}

absl::StatusOr<std::vector<std::byte>> ArrayReader::ReadHeaderBytes() {
  std::vector<std::byte> bytes(header_.data_offset);
  HEARTH_RETURN_IF_ERROR(file_->Read(0, absl::MakeSpan(bytes)));
  return bytes;
}

absl::Status ArrayReader::CheckUnchanged() {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo now, file_->Info());
  if (now.size_bytes == info_.size_bytes && now.modified == info_.modified) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path(), ": was changed while it was read"));
}

absl::Status ArrayReader::ErrorAt(int64_t position,
                                  absl::string_view problem) const {
  return absl::InvalidArgumentError(absl::StrCat(
      path(), ": [", absl::StrJoin(IndexOf(header_, position), ", "), "] ",
      problem));
}

absl::Status ArrayReader::Error(absl::string_view problem) const {
  return absl::InvalidArgumentError(absl::StrCat(path(), ": ", problem));
}

}  // namespace hearth::ingest
