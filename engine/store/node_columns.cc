#include "engine/store/node_columns.h"

#include <array>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"

// The file: a header, the scalars, little-endian float64, and the columns, one
// after the other, little-endian float32.

namespace hearth::store {
namespace {

struct Header {
  std::array<char, 24> name = {};
  uint32_t version = 0;
  // The CRC32C of all other fields, the scalars and the columns.
  uint32_t crc = 0;
  int64_t num_nodes = 0;
};
static_assert(std::is_trivially_copyable_v<Header>);
static_assert(sizeof(Header) == 40);

using Bytes = absl::Span<const std::byte>;
using Scalars = absl::Span<const double>;
using Columns = absl::Span<const absl::Span<const float>>;

template <typename T>
Bytes AsBytes(absl::Span<const T> values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(T)};
}

template <typename T>
absl::Span<std::byte> AsWritableBytes(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()),
          values.size() * sizeof(T)};
}

Header HeaderOf(const NodeColumnsKind& kind, int64_t num_nodes) {
  Header header;
  kind.name.copy(header.name.data(), header.name.size());
  header.version = kind.version;
  header.num_nodes = num_nodes;
  return header;
}

// The pieces of the file, in order.
std::vector<Bytes> PiecesOf(const Header& header, Scalars scalars,
                            Columns columns) {
  std::vector<Bytes> pieces = {
      {reinterpret_cast<const std::byte*>(&header), sizeof(header)},
      AsBytes(scalars)};
  for (const auto& column : columns) pieces.push_back(AsBytes(column));
  return pieces;
}

uint32_t CrcOf(Header header, Scalars scalars, Columns columns) {
  header.crc = 0;
  uint32_t crc = 0;
  for (const Bytes piece : PiecesOf(header, scalars, columns)) {
    crc = Crc32c(piece, crc);
  }
  return crc;
}

absl::StatusOr<NodeColumns> ReadOnce(io::ReadableFile& file,
                                     const NodeColumnsKind& kind,
                                     int64_t num_nodes) {
  const Header expected = HeaderOf(kind, num_nodes);
  Header header;
  HEARTH_RETURN_IF_ERROR(
      file.Read(0, {reinterpret_cast<std::byte*>(&header), sizeof(header)}));
  if (header.name != expected.name) {
    return absl::DataLossError(
        absl::StrCat(file.path(), ": is no ", kind.name));
  }
  if (header.version != kind.version) {
    return absl::FailedPreconditionError(
        absl::StrCat(file.path(), ": has format version ", header.version,
                     "; this version of Hearth reads ", kind.version));
  }
  if (header.num_nodes != num_nodes) {
    return absl::DataLossError(absl::StrCat(
        file.path(), ": is of ", header.num_nodes, " nodes, not ", num_nodes));
  }
  NodeColumns read = {.scalars = std::vector<double>(kind.num_scalars),
                      .columns = std::vector<std::vector<float>>(
                          kind.num_columns,
                          std::vector<float>(static_cast<size_t>(num_nodes)))};
  uint64_t offset = sizeof(header);
  HEARTH_RETURN_IF_ERROR(file.Read(offset, AsWritableBytes(read.scalars)));
  offset += kind.num_scalars * sizeof(double);
  for (std::vector<float>& column : read.columns) {
    HEARTH_RETURN_IF_ERROR(file.Read(offset, AsWritableBytes(column)));
    offset += column.size() * sizeof(float);
  }
  const std::vector<absl::Span<const float>> columns(read.columns.begin(),
                                                     read.columns.end());
  if (CrcOf(header, read.scalars, columns) != header.crc) {
    return absl::DataLossError(absl::StrCat(
        file.path(), ": is damaged (its checksum does not match)"));
  }
  return read;
}

}  // namespace

uint64_t NodeColumnsBytes(const NodeColumnsKind& kind, int64_t num_nodes) {
  return sizeof(Header) + kind.num_scalars * sizeof(double) +
         kind.num_columns * sizeof(float) * static_cast<uint64_t>(num_nodes);
}

absl::Status WriteNodeColumns(io::FileSystem& files, const std::string& path,
                              const NodeColumnsKind& kind, Scalars scalars,
                              Columns columns) {
  Header header = HeaderOf(kind, static_cast<int64_t>(columns.front().size()));
  header.crc = CrcOf(header, scalars, columns);
  return io::WritePiecesAtomically(files, path,
                                   PiecesOf(header, scalars, columns));
}

absl::StatusOr<NodeColumns> ReadNodeColumns(io::FileSystem& files,
                                            const std::string& path,
                                            const NodeColumnsKind& kind,
                                            int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(path));
  absl::StatusOr<NodeColumns> columns = ReadOnce(*file, kind, num_nodes);
  // Reads once more: damage on the way is gone then, damage on disk is not.
  if (absl::IsDataLoss(columns.status())) {
    columns = ReadOnce(*file, kind, num_nodes);
  }
  return columns;
}

}  // namespace hearth::store
