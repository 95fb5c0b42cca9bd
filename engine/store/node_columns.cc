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

// The file: a header, the facts, little-endian float64, and the columns, one
// after the other, little-endian float32.

namespace hearth::store {
namespace {

struct Header {
  std::array<char, 24> name = {};
  uint32_t version = 0;
  // The CRC32C of all other fields, the facts and the columns.
  uint32_t crc = 0;
  int64_t num_nodes = 0;
};
static_assert(std::is_trivially_copyable_v<Header>);
static_assert(sizeof(Header) == 40);

using Bytes = absl::Span<const std::byte>;
using Facts = absl::Span<const double>;
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

// Pieces that the file consists of.
std::vector<Bytes> PiecesOf(const Header& header, Facts facts,
                            Columns columns) {
  std::vector<Bytes> pieces = {
      {reinterpret_cast<const std::byte*>(&header), sizeof(header)},
      AsBytes(facts)};
  for (const auto& column : columns) pieces.push_back(AsBytes(column));
  return pieces;
}

uint32_t CrcOf(Header header, Facts facts, Columns columns) {
  header.crc = 0;
  uint32_t crc = 0;
  for (const Bytes piece : PiecesOf(header, facts, columns)) {
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
  NodeColumns read = {.facts = std::vector<double>(kind.num_facts),
                      .columns = std::vector<std::vector<float>>(
                          kind.num_columns,
                          std::vector<float>(static_cast<size_t>(num_nodes)))};
  uint64_t offset = sizeof(header);
  HEARTH_RETURN_IF_ERROR(file.Read(offset, AsWritableBytes(read.facts)));
  offset += kind.num_facts * sizeof(double);
  for (std::vector<float>& column : read.columns) {
    HEARTH_RETURN_IF_ERROR(file.Read(offset, AsWritableBytes(column)));
    offset += column.size() * sizeof(float);
  }
  const std::vector<absl::Span<const float>> columns(read.columns.begin(),
                                                     read.columns.end());
  if (CrcOf(header, read.facts, columns) != header.crc) {
    return absl::DataLossError(absl::StrCat(
        file.path(), ": is damaged (its checksum does not match)"));
  }
  return read;
}

}  // namespace

uint64_t NodeColumnsBytes(const NodeColumnsKind& kind, int64_t num_nodes) {
  return sizeof(Header) + kind.num_facts * sizeof(double) +
         kind.num_columns * sizeof(float) * static_cast<uint64_t>(num_nodes);
}

absl::Status WriteNodeColumns(io::FileSystem& files, const std::string& path,
                              const NodeColumnsKind& kind, Facts facts,
                              Columns columns) {
  Header header = HeaderOf(kind, static_cast<int64_t>(columns.front().size()));
  header.crc = CrcOf(header, facts, columns);
  return io::WritePiecesAtomically(files, path,
                                   PiecesOf(header, facts, columns));
}

absl::StatusOr<NodeColumns> ReadNodeColumns(io::FileSystem& files,
                                            const std::string& path,
                                            const NodeColumnsKind& kind,
                                            int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(path));
  absl::StatusOr<NodeColumns> columns = ReadOnce(*file, kind, num_nodes);
  // Damage on the way is gone at the second reading; damage on disk is not.
  if (absl::IsDataLoss(columns.status())) {
    columns = ReadOnce(*file, kind, num_nodes);
  }
  return columns;
}

}  // namespace hearth::store
