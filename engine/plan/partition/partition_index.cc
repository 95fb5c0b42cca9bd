#include "engine/plan/partition/partition_index.h"

#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"
#include "engine/plan/file_sizes.h"
#include "engine/plan/partition/node_ids.h"

namespace hearth::plan {
namespace {

constexpr char kMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'P', 'N'};
// The version of the index and of all files that it is the index of.
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  // The CRC32C of the parts, all other fields first.
  uint32_t crc;
  int64_t nodes;
  int64_t training_nodes;
  int64_t edges;
  int64_t inner_edges;
  int64_t cut_edges;
  int64_t min_part_nodes;
  int64_t max_part_nodes;
  int64_t min_part_training_nodes;
  int64_t max_part_training_nodes;
  double seconds;
  uint64_t lists_bytes;
  int32_t parts;
  int32_t asked_rounds;
  int32_t membership;
  int32_t rounds;
  uint32_t training_crc32c;
  uint32_t parts_crc32c;
  uint32_t cross_crc32c;
  uint32_t unused;
};
static_assert(std::is_trivially_copyable_v<Header>);
static_assert(std::is_trivially_copyable_v<PartEntry>);

uint32_t IndexCrc(Header header, absl::Span<const std::byte> parts) {
  header.crc = 0;
  return Crc32c(parts, Crc32c({reinterpret_cast<const std::byte*>(&header),
                               sizeof(header)}));
}

Header HeaderOf(const PartitionIndex& index) {
  const PartitionSummary& summary = index.summary;
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.nodes = summary.nodes;
  header.training_nodes = summary.training_nodes;
  header.edges = summary.edges;
  header.inner_edges = summary.inner_edges;
  header.cut_edges = summary.cut_edges;
  header.min_part_nodes = summary.min_part_nodes;
  header.max_part_nodes = summary.max_part_nodes;
  header.min_part_training_nodes = summary.min_part_training_nodes;
  header.max_part_training_nodes = summary.max_part_training_nodes;
  header.seconds = summary.seconds;
  header.lists_bytes = index.lists_bytes;
  header.parts = summary.options.parts;
  header.asked_rounds = summary.options.rounds;
  header.membership = static_cast<int32_t>(summary.options.membership);
  header.rounds = summary.rounds;
  header.training_crc32c = index.training_crc32c;
  header.parts_crc32c = index.parts_crc32c;
  header.cross_crc32c = index.cross_crc32c;
  return header;
}

PartitionIndex IndexOf(const Header& header) {
  PartitionIndex index;
  index.summary = {
      .options = {.parts = header.parts,
                  .rounds = header.asked_rounds,
                  .membership = static_cast<Membership>(header.membership)},
      .nodes = header.nodes,
      .training_nodes = header.training_nodes,
      .edges = header.edges,
      .inner_edges = header.inner_edges,
      .cut_edges = header.cut_edges,
      .min_part_nodes = header.min_part_nodes,
      .max_part_nodes = header.max_part_nodes,
      .min_part_training_nodes = header.min_part_training_nodes,
      .max_part_training_nodes = header.max_part_training_nodes,
      .rounds = header.rounds,
      .seconds = header.seconds};
  index.lists_bytes = header.lists_bytes;
  index.training_crc32c = header.training_crc32c;
  index.parts_crc32c = header.parts_crc32c;
  index.cross_crc32c = header.cross_crc32c;
  return index;
}

absl::StatusOr<PartitionIndex> Decode(const std::string& path,
                                      absl::Span<const std::byte> bytes) {
  const auto damaged = [&](absl::string_view problem) {
    return absl::DataLossError(absl::StrCat(path, ": ", problem));
  };
  Header header;
  if (bytes.size() < sizeof(header)) return damaged("is cut off");
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes.remove_prefix(sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return damaged("is no index of a partition");
  }
  if (header.version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": has format version ", header.version,
                     "; this version of Hearth reads ", kVersion));
  }
  if (header.crc != IndexCrc(header, bytes) || header.parts < 0 ||
      bytes.size() != static_cast<size_t>(header.parts) * sizeof(PartEntry)) {
    return damaged("is damaged (its checksum does not match)");
  }
  PartitionIndex index = IndexOf(header);
  index.parts.resize(static_cast<size_t>(header.parts));
  if (!bytes.empty()) {
    std::memcpy(index.parts.data(), bytes.data(), bytes.size());
  }
  return index;
}

absl::Status CheckSizes(io::FileSystem& files, const std::string& folder,
                        const PartitionIndex& index) {
  const auto nodes = static_cast<uint64_t>(index.summary.nodes);
  const std::pair<const char*, uint64_t> expected[] = {
      {kPartListsFile, index.lists_bytes},
      {kTrainingNodesFile, static_cast<uint64_t>(index.summary.training_nodes) *
                               static_cast<uint64_t>(index.id_bytes())},
      {kPartsFile, nodes * sizeof(uint16_t)},
      {kCrossCountsFile, nodes * sizeof(uint32_t)}};
  return CheckFileSizes(files, folder, expected);
}

}  // namespace

int PartitionIndex::id_bytes() const { return IdBytes(summary.nodes); }

uint64_t PartitionIndexBytes(int parts) {
  return sizeof(Header) + static_cast<uint64_t>(parts) * sizeof(PartEntry);
}

absl::Status WritePartitionIndex(io::FileSystem& files,
                                 const std::string& folder,
                                 const PartitionIndex& index) {
  Header header = HeaderOf(index);
  const absl::Span<const std::byte> parts = {
      reinterpret_cast<const std::byte*>(index.parts.data()),
      index.parts.size() * sizeof(PartEntry)};
  header.crc = IndexCrc(header, parts);
  return io::WritePiecesAtomically(
      files, io::JoinPath(folder, kPartitionIndexFile),
      {{reinterpret_cast<const std::byte*>(&header), sizeof(header)}, parts});
}

absl::StatusOr<PartitionIndex> ReadPartitionIndex(io::FileSystem& files,
                                                  const std::string& folder) {
  const std::string path = io::JoinPath(folder, kPartitionIndexFile);
  absl::StatusOr<PartitionIndex> index = absl::UnknownError("not read");
  // Damage on the way is gone at the second reading; damage on disk is not.
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_ASSIGN_OR_RETURN(
        const std::string text,
        io::ReadWholeFile(files, path,
                          PartitionIndexBytes(PartitionOptions::kMaxParts)));
    index = Decode(
        path, {reinterpret_cast<const std::byte*>(text.data()), text.size()});
    if (index.ok()) break;
  }
  HEARTH_RETURN_IF_ERROR(index.status());
  HEARTH_RETURN_IF_ERROR(CheckSizes(files, folder, *index));
  return index;
}

}  // namespace hearth::plan
