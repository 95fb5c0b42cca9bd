#include "engine/strategy/diskgnn/packing/pack_memory.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/io/stream_writer.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/packing/feature_scan.h"
#include "engine/strategy/diskgnn/packing/region_writer.h"

namespace hearth::strategy {
namespace {

constexpr auto kPartitionsHeld =
    static_cast<uint64_t>(FeatureScan::kPartitionsHeld);

constexpr uint64_t kMinPartitionBytes = 64 << 10;
// Partitions are no larger than this, unless a region has less than kPieceBytes
// in one: memory that is used for the first time costs more than short writes.
constexpr uint64_t kEnoughPartitionBytes = 64 << 20;
constexpr uint64_t kPieceBytes = 128 << 10;
constexpr uint64_t kMinBlockBytes = kPageBytes;
constexpr uint64_t kMaxBlockBytes = 1 << 20;
// Bytes for each node of a batch while its address table is made.
constexpr uint64_t kBytesPerBatchNode = 112;
// Each worker but the first: a block of the dispatch spool, and rows for packs
// and for the disk cache on their way.
constexpr uint64_t kBytesPerWorker =
    kMaxBlockBytes + 2 * RegionWriter::kStagingBytes;
constexpr int kMaxWorkers = 16;
// The buffers of all workers but one take up to this part of the limit, 1 in so
// many.
constexpr uint64_t kWorkersShare = 8;
// The part of the rows, 1 in so many, that is packed as a rule: the others are
// in memory.
constexpr uint64_t kPackedShare = 8;

/// The parts that the memory is divided among.
struct Needs {
  uint64_t row_bytes = 0;
  uint64_t num_nodes = 0;
  uint64_t num_regions = 0;
  // Rows that are dispatched: packed ones and those of the disk cache.
  uint64_t num_entries = 0;
  // Without the partition, and without the blocks of the dispatch spool.
  uint64_t scan_bytes = 0;
  uint64_t planning_bytes = 0;
};

// Distinct nodes below the memory levels in the segment with the most.
uint64_t MostSegmentNodes(const PackedLayout& layout, int64_t num_nodes) {
  int64_t most = 0;
  int64_t accesses = 0;
  for (int64_t batch = 0; batch < layout.num_batches(); ++batch) {
    if (batch % layout.segment_size == 0) accesses = 0;
    const LevelCounts& counts = layout.chunks[batch].counts;
    accesses += counts.disk + counts.packed;
    most = std::max(most, accesses);
  }
  return static_cast<uint64_t>(std::min(most, num_nodes));
}

// Packs, rows of the disk cache, images; one block of the dispatch spool; what
// the rows of the disk cache are read into to be ordered.
uint64_t ScanBytes(uint64_t num_regions, uint64_t row_bytes) {
  return num_regions * RegionWriter::kBytesPerRegion +
         2 * RegionWriter::kStagingBytes + 3 * io::StreamWriter::kBufferBytes +
         kMaxBlockBytes + 2 * RoundUpToPage(row_bytes) + (512 << 10);
}

// Partitions that a divided memory has at least.
uint64_t LeastPartitionsBytes(uint64_t row_bytes) {
  return kPartitionsHeld *
         (std::max(row_bytes, kMinPartitionBytes) + 2 * kPageBytes);
}

Needs NeedsOf(const PackedLayout& layout, int64_t num_nodes) {
  Needs needs;
  needs.row_bytes = static_cast<uint64_t>(layout.row_bytes);
  needs.num_nodes = static_cast<uint64_t>(num_nodes);
  const auto num_batches = static_cast<uint64_t>(layout.num_batches());
  const auto segment_size =
      static_cast<uint64_t>(std::max<int64_t>(1, layout.segment_size));
  needs.num_regions =
      num_batches + (num_batches + segment_size - 1) / segment_size;
  needs.num_entries = static_cast<uint64_t>(layout.rows.disk);
  uint64_t largest_head = 0;
  int64_t largest_batch = 0;
  for (int64_t batch = 0; batch < layout.num_batches(); ++batch) {
    const LevelCounts& counts = layout.chunks[batch].counts;
    needs.num_entries += static_cast<uint64_t>(counts.packed);
    largest_batch = std::max(largest_batch, counts.total());
    largest_head = std::max(largest_head, layout.FeaturesRange(batch).offset -
                                              layout.SampleRange(batch).offset);
  }
  needs.scan_bytes = ScanBytes(needs.num_regions, needs.row_bytes);
  needs.planning_bytes =
      needs.num_nodes * sizeof(uint32_t) +
      MostSegmentNodes(layout, num_nodes) * SegmentPlanner::kBytesPerRow +
      static_cast<uint64_t>(largest_batch) * kBytesPerBatchNode + largest_head;
  return needs;
}

// Memory of planning, without blocks, whatever the layout.
uint64_t MostPlanningBytes(const PackBound& bound) {
  return static_cast<uint64_t>(bound.num_nodes) *
             (sizeof(uint32_t) + SegmentPlanner::kBytesPerRow) +
         2 * static_cast<uint64_t>(bound.batch_nodes) * kBytesPerBatchNode +
         bound.sample_bytes;
}

// More than that is of no use to a partition.
uint64_t EnoughPartitionBytes(const Needs& needs) {
  const uint64_t written = needs.num_entries * needs.row_bytes;
  if (written == 0) return kEnoughPartitionBytes;
  // As many partitions as leave a region kPieceBytes in each.
  const double partitions =
      static_cast<double>(written) /
      static_cast<double>(needs.num_regions * kPieceBytes);
  const double bytes =
      static_cast<double>(needs.num_nodes * needs.row_bytes) / partitions;
  return std::max(kEnoughPartitionBytes,
                  static_cast<uint64_t>(std::min(bytes, 1e18)));
}

std::optional<PackMemory> Divide(const Needs& needs, uint64_t limit_bytes,
                                 int workers) {
  const uint64_t least = LeastPartitionsBytes(needs.row_bytes);
  const auto others = static_cast<uint64_t>(workers - 1);
  const uint64_t scan_bytes = needs.scan_bytes + others * kBytesPerWorker;
  if (limit_bytes < scan_bytes + least) return std::nullopt;
  PackMemory memory;
  memory.workers = workers;
  const uint64_t partition_bytes =
      std::min((limit_bytes - scan_bytes) / kPartitionsHeld,
               EnoughPartitionBytes(needs)) -
      2 * kPageBytes;
  const uint64_t nodes = std::clamp<uint64_t>(
      partition_bytes / needs.row_bytes, 1,
      std::min<uint64_t>(std::max<uint64_t>(needs.num_nodes, 1), UINT32_MAX));
  const uint64_t partitions = (needs.num_nodes + nodes - 1) / nodes;
  memory.partition_nodes = static_cast<int64_t>(nodes);
  memory.num_partitions = static_cast<int64_t>(partitions);
  if (limit_bytes < needs.planning_bytes) return std::nullopt;
  const uint64_t for_blocks = limit_bytes - needs.planning_bytes;
  const uint64_t blocks = partitions + 1 + others;
  memory.block_bytes =
      std::min(kMaxBlockBytes, for_blocks / blocks / kPageBytes * kPageBytes);
  if (memory.block_bytes < kMinBlockBytes) return std::nullopt;
  memory.scan_bytes =
      scan_bytes + kPartitionsHeld * (nodes * needs.row_bytes + 2 * kPageBytes);
  memory.planning_bytes = needs.planning_bytes + blocks * memory.block_bytes;
  // Every record of the dispatch spool has two words more than nodes; a block
  // has two words of its own, and may leave two unused.
  const uint64_t words = needs.num_entries + 2 * needs.num_regions * partitions;
  const uint64_t block_words = memory.block_bytes / sizeof(uint32_t) - 6;
  memory.scratch_disk_bytes =
      (words / block_words + 1 + partitions) * memory.block_bytes;
  return memory;
}

// As many as are asked for whose buffers take up to their share of the limit.
int WorkersWithin(uint64_t limit_bytes, int threads) {
  const uint64_t others = std::min<uint64_t>(
      limit_bytes / kWorkersShare / kBytesPerWorker, kMaxWorkers - 1);
  return std::clamp(threads, 1, 1 + static_cast<int>(others));
}

// The least limit that can be divided.
uint64_t LeastLimit(const Needs& needs) {
  uint64_t too_little = 0;
  uint64_t enough = uint64_t{1} << 62;
  while (enough - too_little > 1) {
    const uint64_t middle = too_little + (enough - too_little) / 2;
    (Divide(needs, middle, 1) ? enough : too_little) = middle;
  }
  return enough;
}

}  // namespace

uint64_t UsefulPackMemory(const PackBound& bound, int threads) {
  const auto batches = static_cast<uint64_t>(bound.num_batches);
  const auto row_bytes = static_cast<uint64_t>(bound.row_bytes);
  const Needs needs = {
      .row_bytes = row_bytes,
      .num_nodes = static_cast<uint64_t>(bound.num_nodes),
      .num_regions = 2 * batches,
      .num_entries =
          batches * static_cast<uint64_t>(bound.batch_nodes) / kPackedShare,
      .scan_bytes = ScanBytes(2 * batches, row_bytes),
      .planning_bytes = MostPlanningBytes(bound)};
  const auto others =
      static_cast<uint64_t>(std::clamp(threads, 1, kMaxWorkers) - 1);
  const uint64_t features = needs.num_nodes * needs.row_bytes;
  const uint64_t partition = std::min(features, EnoughPartitionBytes(needs));
  const uint64_t partitions = 1 + features / std::max<uint64_t>(partition, 1);
  return std::max(
      {needs.scan_bytes + others * kBytesPerWorker +
           kPartitionsHeld * (partition + 2 * kPageBytes) +
           LeastPartitionsBytes(row_bytes),
       needs.planning_bytes + (partitions + 1 + others) * kMaxBlockBytes,
       kWorkersShare * others * kBytesPerWorker});
}

// Smaller partitions mean more of them, each with a block: `balance` bytes for
// each of both are enough, as their product is the features' bytes times those
// of a block.
uint64_t EnoughPackMemory(const PackBound& bound) {
  const auto nodes = static_cast<uint64_t>(bound.num_nodes);
  const auto row_bytes = static_cast<uint64_t>(bound.row_bytes);
  const auto batches = static_cast<uint64_t>(bound.num_batches);
  const auto balance = static_cast<uint64_t>(
      std::sqrt(static_cast<double>(kPartitionsHeld * kMinBlockBytes) *
                static_cast<double>(nodes * row_bytes)));
  return ScanBytes(2 * batches, row_bytes) + LeastPartitionsBytes(row_bytes) +
         MostPlanningBytes(bound) + 2 * balance + kMaxBlockBytes;
}

absl::StatusOr<PackMemory> PlanPackMemory(const PackedLayout& layout,
                                          int64_t num_nodes,
                                          uint64_t limit_bytes, int threads) {
  if (layout.row_bytes <= 0 || layout.row_bytes > kMaxRowBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows of ", layout.row_bytes,
                     " bytes cannot be packed: the limit is ", kMaxRowBytes));
  }
  const Needs needs = NeedsOf(layout, num_nodes);
  std::optional<PackMemory> memory =
      Divide(needs, limit_bytes, WorkersWithin(limit_bytes, threads));
  // One worker needs the least.
  if (!memory) memory = Divide(needs, limit_bytes, 1);
  if (!memory) {
    const uint64_t least = LeastLimit(needs);
    return absl::ResourceExhaustedError(
        absl::StrCat("packing needs ", least, " bytes of memory (",
                     FormatByteSize(least), "); the limit is ", limit_bytes,
                     " (", FormatByteSize(limit_bytes), ")"));
  }
  // The rows of the disk cache before they are ordered, and their order.
  const auto num_segments =
      needs.num_regions - static_cast<uint64_t>(layout.num_batches());
  memory->scratch_disk_bytes +=
      layout.disk_cache_bytes() + num_segments * kPageBytes +
      static_cast<uint64_t>(layout.rows.disk) * sizeof(uint32_t);
  return *memory;
}

}  // namespace hearth::strategy
