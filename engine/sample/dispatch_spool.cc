#include "engine/sample/dispatch_spool.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"

namespace hearth::sample {

using store::NodeId;

// A block of the dispatch spool: its CRC32C, the number of words that follow,
// and the words: records of a target, a count, and `count` nodes. A record
// never crosses blocks: the rest of its nodes becomes another record.

namespace {

constexpr uint32_t kHeaderWords = 2;
// Words of a record with one node.
constexpr uint32_t kLeastRecordWords = 3;

uint32_t BlockCrc(absl::Span<const uint32_t> block) {
  return Crc32c({reinterpret_cast<const std::byte*>(block.data() + 1),
                 (block.size() - 1) * sizeof(uint32_t)});
}

}  // namespace

DispatchSpool::DispatchSpool(io::FileSystem& files, std::string path,
                             const DispatchOptions& options,
                             std::unique_ptr<io::WritableFile> file,
                             io::AlignedMemory buffers)
    : files_(files),
      path_(std::move(path)),
      options_(options),
      file_(std::move(file)),
      buffers_(std::move(buffers)),
      filled_(static_cast<size_t>(options.num_partitions), kHeaderWords),
      blocks_(static_cast<size_t>(options.num_partitions)) {}

absl::StatusOr<std::unique_ptr<DispatchSpool>> DispatchSpool::Create(
    io::FileSystem& files, std::string path, const DispatchOptions& options) {
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory buffers,
      io::AlignedMemory::Allocate(
          static_cast<uint64_t>(options.num_partitions) * options.block_bytes));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          files.Create(path));
  return std::unique_ptr<DispatchSpool>(new DispatchSpool(
      files, std::move(path), options, std::move(file), std::move(buffers)));
}

DispatchSpool::~DispatchSpool() {
  // A leftover is overwritten by the next run.
  files_.RemoveTree(path_).IgnoreError();
}

absl::Span<uint32_t> DispatchSpool::Block(int64_t number) {
  const uint64_t words = options_.block_bytes / sizeof(uint32_t);
  return {reinterpret_cast<uint32_t*>(buffers_.bytes().data()) +
              static_cast<uint64_t>(number) * words,
          words};
}

absl::Status DispatchSpool::Add(uint32_t target,
                                absl::Span<const NodeId> nodes) {
  while (!nodes.empty()) {
    const int64_t partition = nodes.front() / options_.partition_nodes;
    const NodeId end = (partition + 1) * options_.partition_nodes;
    const auto count = static_cast<size_t>(
        std::lower_bound(nodes.begin(), nodes.end(), end) - nodes.begin());
    HEARTH_RETURN_IF_ERROR(
        AddToPartition<NodeId>(partition, target, nodes.first(count),
                               partition * options_.partition_nodes));
    nodes.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status DispatchSpool::AddTo(int64_t partition, uint32_t target,
                                  absl::Span<const uint32_t> nodes) {
  return AddToPartition<uint32_t>(partition, target, nodes, 0);
}

// Adds nodes of one partition, whose first node is `first`.
template <typename Node>
absl::Status DispatchSpool::AddToPartition(int64_t partition, uint32_t target,
                                           absl::Span<const Node> nodes,
                                           Node first) {
  const absl::Span<uint32_t> block = Block(partition);
  uint32_t& filled = filled_[partition];
  while (!nodes.empty()) {
    if (filled + kLeastRecordWords > block.size()) {
      HEARTH_RETURN_IF_ERROR(Flush(partition));
    }
    const size_t count = std::min(nodes.size(), block.size() - filled - 2);
    block[filled++] = target;
    block[filled++] = static_cast<uint32_t>(count);
    for (size_t i = 0; i < count; ++i) {
      block[filled++] = static_cast<uint32_t>(nodes[i] - first);
    }
    nodes.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status DispatchSpool::Flush(int64_t partition) {
  uint32_t& filled = filled_[partition];
  if (filled == kHeaderWords) return absl::OkStatus();
  const absl::Span<uint32_t> block = Block(partition);
  // All blocks have the same size on disk, so that one read fetches each.
  std::fill(block.begin() + filled, block.end(), 0);
  block[1] = filled;
  block[0] = BlockCrc(block);
  HEARTH_RETURN_IF_ERROR(
      file_->Append({reinterpret_cast<const std::byte*>(block.data()),
                     options_.block_bytes}));
  blocks_[partition].push_back(end_);
  end_ += options_.block_bytes;
  filled = kHeaderWords;
  return absl::OkStatus();
}

absl::Status DispatchSpool::EndAdding(int readers) {
  for (int64_t i = 0; i < options_.num_partitions; ++i) {
    HEARTH_RETURN_IF_ERROR(Flush(i));
  }
  HEARTH_RETURN_IF_ERROR(file_->Close());
  HEARTH_ASSIGN_OR_RETURN(
      buffers_, io::AlignedMemory::Allocate(static_cast<uint64_t>(readers) *
                                            options_.block_bytes));
  HEARTH_ASSIGN_OR_RETURN(reader_, files_.OpenForRead(path_));
  return absl::OkStatus();
}

absl::Status DispatchSpool::ReadBlock(uint64_t offset,
                                      absl::Span<uint32_t> block) {
  // A second read heals damage in transit; damage on disk stays.
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(reader_->Read(
        offset,
        {reinterpret_cast<std::byte*>(block.data()), options_.block_bytes}));
    if (block[0] == BlockCrc(block)) return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat(path_, ": the block at byte ", offset,
                   " is damaged (its checksum does not match)"));
}

absl::Status DispatchSpool::ForEach(int64_t partition, Visit visit,
                                    int reader) {
  for (int64_t block = 0; block < num_blocks(partition); ++block) {
    HEARTH_RETURN_IF_ERROR(ForEachInBlock(partition, block, visit, reader));
  }
  return absl::OkStatus();
}

absl::Status DispatchSpool::ForEachInBlock(int64_t partition, int64_t block,
                                           Visit visit, int reader) {
  const absl::Span<uint32_t> words = Block(reader);
  HEARTH_RETURN_IF_ERROR(ReadBlock(blocks_[partition][block], words));
  for (uint32_t at = kHeaderWords; at < words[1];) {
    const uint32_t target = words[at];
    const uint32_t count = words[at + 1];
    HEARTH_RETURN_IF_ERROR(visit(target, words.subspan(at + 2, count)));
    at += 2 + count;
  }
  return absl::OkStatus();
}

}  // namespace hearth::sample
