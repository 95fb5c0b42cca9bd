#include "engine/plan/partition/partition.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/plan/partition/node_ids.h"
#include "engine/plan/partition/partition_index.h"

namespace hearth::plan {
namespace {

using store::NodeId;

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kReadBytes = 4 << 20;

/// Hands a whole file to `use`, part by part, in order. DATA_LOSS, naming it,
/// if it does not have that CRC32C at the second attempt either.
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

/// The same as values.
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
    // Damage on the way is gone at the second reading; damage on disk is not.
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
  /// Pages of the file of lists.
  struct Pages {
    uint64_t begin = 0;
    uint64_t size = 0;
  };

  const PartEntry& entry(int part) const {
    return index_.parts[static_cast<size_t>(part)];
  }

  // Those that hold a part: the file ends with a page.
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
  // Part i has those from training_begins_[i] on.
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
