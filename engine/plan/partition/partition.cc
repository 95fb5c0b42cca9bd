#include "engine/plan/partition/partition.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/plan/partition/node_arrays.h"
#include "engine/plan/plan_records.h"

namespace hearth::plan {

namespace {

constexpr char kMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'P', 'N'};
// Version of the index and of all files that it describes.
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  // CRC32C of all other fields, then of the parts.
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
  // Damage in transit is gone at the second reading; damage on disk is not.
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

namespace {

using store::NodeId;

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kReadBytes = 4 << 20;

/// Calls `use` with the bytes of a whole file, piece by piece, in order.
/// DATA_LOSS, naming the file, if its CRC32C differs from `crc32c` at the
/// second attempt, too.
absl::Status ReadStream(
    io::ReadableFile& file, uint64_t bytes, uint32_t crc32c,
    absl::FunctionRef<void(uint64_t offset, absl::Span<const std::byte>)> use) {
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(std::min(bytes, kReadBytes)));
  for (int attempt = 0; attempt < 2; ++attempt) {
    uint32_t crc = 0;
    for (uint64_t at = 0; at < bytes; at += kReadBytes) {
      const auto part = memory.bytes().first(std::min(kReadBytes, bytes - at));
      HEARTH_RETURN_IF_ERROR(file.Read(at, part));
      crc = Crc32c(part, crc);
      use(at, part);
    }
    if (crc == crc32c) return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(file.path(), ": is damaged (its checksum does not match)"));
}

/// Reads a whole file as an array of T.
template <typename T>
absl::StatusOr<std::vector<T>> ReadValues(io::ReadableFile& file, int64_t count,
                                          uint32_t crc32c) {
  std::vector<T> values(static_cast<size_t>(count));
  auto* const to = reinterpret_cast<std::byte*>(values.data());
  HEARTH_RETURN_IF_ERROR(
      ReadStream(file, values.size() * sizeof(T), crc32c,
                 [&](uint64_t offset, absl::Span<const std::byte> bytes) {
                   std::copy(bytes.begin(), bytes.end(), to + offset);
                 }));
  return values;
}

NodeIdSpan IdsAt(const std::byte* data, int64_t count, int id_bytes) {
  const auto size = static_cast<size_t>(count);
  if (id_bytes == 4) {
    return absl::MakeConstSpan(reinterpret_cast<const int32_t*>(data), size);
  }
  return absl::MakeConstSpan(reinterpret_cast<const int64_t*>(data), size);
}

class StoredPartition final : public Partition {
 public:
  explicit StoredPartition(PartitionIndex index)
      : index_(std::move(index)), training_begins_{0} {
    for (const PartEntry& part : index_.parts) {
      training_begins_.push_back(training_begins_.back() + part.training_nodes);
    }
  }

  absl::Status OpenFiles(io::FileSystem& files, const std::string& folder) {
    HEARTH_ASSIGN_OR_RETURN(
        lists_, files.OpenForScan(io::JoinPath(folder, kPartListsFile)));
    HEARTH_ASSIGN_OR_RETURN(
        parts_, files.OpenForScan(io::JoinPath(folder, kPartsFile)));
    HEARTH_ASSIGN_OR_RETURN(
        cross_, files.OpenForScan(io::JoinPath(folder, kCrossCountsFile)));
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<io::ReadableFile> training,
        files.OpenForScan(io::JoinPath(folder, kTrainingNodesFile)));
    return LoadTrainingNodes(*training);
  }

  const PartitionSummary& summary() const override { return index_.summary; }

  int64_t num_nodes(int part) const override { return entry(part).nodes; }

  int64_t num_neighbors(int part) const override {
    return entry(part).neighbors;
  }

  absl::Span<const NodeId> training_nodes(int part) const override {
    const auto index = static_cast<size_t>(part);
    return absl::MakeConstSpan(training_).subspan(
        static_cast<size_t>(training_begins_[index]),
        static_cast<size_t>(entry(part).training_nodes));
  }

  absl::StatusOr<std::vector<uint16_t>> LoadParts() const override {
    return ReadValues<uint16_t>(*parts_, index_.summary.nodes,
                                index_.parts_crc32c);
  }

  absl::StatusOr<std::vector<uint32_t>> LoadCrossCounts() const override {
    return ReadValues<uint32_t>(*cross_, index_.summary.nodes,
                                index_.cross_crc32c);
  }

  uint64_t part_list_bytes(int part) const override {
    return PagesOf(entry(part)).size;
  }

  absl::StatusOr<PartLists> ReadPart(int part) const override {
    const PartEntry& entry = this->entry(part);
    PartLists lists;
    if (entry.nodes == 0) {
      View(entry, nullptr, lists);
      return lists;
    }
    const Pages pages = PagesOf(entry);
    HEARTH_ASSIGN_OR_RETURN(lists.memory,
                            io::AlignedMemory::Allocate(pages.size));
    const absl::Span<const std::byte> bytes = lists.memory.bytes().subspan(
        entry.offset - pages.begin, entry.bytes(index_.id_bytes()));
    // Damage in transit is gone at the second reading; damage on disk is not.
    for (int attempt = 0; attempt < 2; ++attempt) {
      HEARTH_RETURN_IF_ERROR(lists_->Read(pages.begin, lists.memory.bytes()));
      if (Crc32c(bytes) != entry.crc32c) continue;
      View(entry, bytes.data(), lists);
      return lists;
    }
    return absl::DataLossError(
        absl::StrCat(lists_->path(), ": part ", part, " at byte ", entry.offset,
                     " is damaged (its checksum does not match)"));
  }

  uint64_t memory_bytes() const override {
    return training_.size() * sizeof(NodeId) +
           index_.parts.size() * sizeof(PartEntry) +
           training_begins_.size() * sizeof(int64_t);
  }

 private:
  /// A range of pages in the file of lists.
  struct Pages {
    uint64_t begin = 0;
    uint64_t size = 0;
  };

  const PartEntry& entry(int part) const {
    return index_.parts[static_cast<size_t>(part)];
  }

  // Pages that hold a part; the file ends with a whole page.
  Pages PagesOf(const PartEntry& entry) const {
    const uint64_t bytes = entry.bytes(index_.id_bytes());
    if (bytes == 0) return {};
    const uint64_t begin = entry.offset - entry.offset % kPageBytes;
    const uint64_t end = entry.offset + bytes + kPageBytes - 1;
    return {begin, end - end % kPageBytes - begin};
  }

  void View(const PartEntry& entry, const std::byte* data,
            PartLists& lists) const {
    const auto nodes = static_cast<size_t>(entry.nodes);
    const int id_bytes = index_.id_bytes();
    lists.ends = {reinterpret_cast<const int64_t*>(data), nodes};
    data += nodes * sizeof(int64_t);
    lists.nodes = IdsAt(data, entry.nodes, id_bytes);
    data += nodes * static_cast<size_t>(id_bytes);
    lists.neighbors = IdsAt(data, entry.neighbors, id_bytes);
  }

  absl::Status LoadTrainingNodes(io::ReadableFile& file) {
    training_.resize(static_cast<size_t>(index_.summary.training_nodes));
    const auto id_bytes = static_cast<uint64_t>(index_.id_bytes());
    return ReadStream(file, training_.size() * id_bytes, index_.training_crc32c,
                      [&](uint64_t offset, absl::Span<const std::byte> bytes) {
                        DecodeIds(bytes.data(), bytes.size() / id_bytes,
                                  index_.id_bytes(),
                                  training_.data() + offset / id_bytes);
                      });
  }

  const PartitionIndex index_;
  // [parts + 1] index of each part's first node in the training nodes.
  std::vector<int64_t> training_begins_;
  std::vector<NodeId> training_;
  std::unique_ptr<io::ReadableFile> lists_;
  std::unique_ptr<io::ReadableFile> parts_;
  std::unique_ptr<io::ReadableFile> cross_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Partition>> Partition::Open(
    io::FileSystem& files, const std::string& folder) {
  HEARTH_ASSIGN_OR_RETURN(PartitionIndex index,
                          ReadPartitionIndex(files, folder));
  auto partition = std::make_shared<StoredPartition>(std::move(index));
  HEARTH_RETURN_IF_ERROR(partition->OpenFiles(files, folder));
  return partition;
}

}  // namespace hearth::plan
