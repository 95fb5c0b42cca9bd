#include "engine/strategy/diskgnn/packing/pack_batches.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/io/whole_file.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/layout_search.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/packing/disk_cache_writer.h"
#include "engine/strategy/diskgnn/packing/pack_files.h"
#include "engine/strategy/diskgnn/packing/pack_heads.h"
#include "engine/strategy/packing/append_rows.h"
#include "engine/strategy/packing/feature_scan.h"
#include "engine/strategy/packing/file_range.h"
#include "engine/strategy/packing/region_writer.h"

namespace hearth::strategy {

namespace {

constexpr auto kPartitionsHeld =
    static_cast<uint64_t>(FeatureScan::kPartitionsHeld);

constexpr uint64_t kMinPartitionBytes = 64 << 10;
// Bytes of a partition at most, unless a region would get less than kPieceBytes
// of one: getting fresh memory costs more than short writes.
constexpr uint64_t kEnoughPartitionBytes = 64 << 20;
constexpr uint64_t kPieceBytes = 128 << 10;
constexpr uint64_t kMinBlockBytes = kPageBytes;
constexpr uint64_t kMaxBlockBytes = 1 << 20;
// Bytes for each node of a batch while its address table is made.
constexpr uint64_t kBytesPerBatchNode = 112;
// Buffers of each worker but the first: a block of the dispatch spool, and rows
// on their way to packs and disk cache.
constexpr uint64_t kBytesPerWorker =
    kMaxBlockBytes + 2 * RegionWriter::kStagingBytes;
constexpr int kMaxWorkers = 16;
// The buffers of all workers but one take at most 1 in so many of the limit.
constexpr uint64_t kWorkersShare = 8;
// UsefulPackMemory assumes that 1 in so many rows is packed; the others are in
// memory.
constexpr uint64_t kPackedShare = 8;

/// The sizes that the memory is divided by.
struct Needs {
  uint64_t row_bytes = 0;
  uint64_t num_nodes = 0;
  uint64_t num_regions = 0;
  // Rows that are dispatched: packed rows and rows of the disk cache.
  uint64_t num_entries = 0;
  // Memory without partitions and without blocks of the dispatch spool.
  uint64_t scan_bytes = 0;
  uint64_t planning_bytes = 0;
};

// The most distinct nodes below the memory levels in one segment.
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

// Buffers of one worker: of packs, rows of the disk cache and images; one block
// of the dispatch spool; and the buffer of ordering the disk cache.
uint64_t ScanBytes(uint64_t num_regions, uint64_t row_bytes) {
  return num_regions * RegionWriter::BytesPerRegion() +
         2 * RegionWriter::kStagingBytes + 3 * io::StreamWriter::kBufferBytes +
         kMaxBlockBytes + 2 * RoundUpToPage(row_bytes) + (512 << 10);
}

// The least memory for partitions.
uint64_t LeastPartitionsBytes(uint64_t row_bytes) {
  return kPartitionsHeld *
         (std::max(row_bytes, kMinPartitionBytes) + 2 * kPageBytes);
}

// The needs of a layout with `disk_rows` rows in the disk cache.
Needs NeedsOf(const PackedLayout& layout, int64_t num_nodes,
              int64_t disk_rows) {
  Needs needs;
  needs.row_bytes = static_cast<uint64_t>(layout.row_bytes);
  needs.num_nodes = static_cast<uint64_t>(num_nodes);
  const auto num_batches = static_cast<uint64_t>(layout.num_batches());
  const auto segment_size =
      static_cast<uint64_t>(std::max<int64_t>(1, layout.segment_size));
  needs.num_regions =
      num_batches + (num_batches + segment_size - 1) / segment_size;
  needs.num_entries = static_cast<uint64_t>(disk_rows);
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

// Memory of planning without blocks, for any layout.
uint64_t MostPlanningBytes(const PackBound& bound) {
  return static_cast<uint64_t>(bound.num_nodes) *
             (sizeof(uint32_t) + SegmentPlanner::kBytesPerRow) +
         2 * static_cast<uint64_t>(bound.batch_nodes) * kBytesPerBatchNode +
         bound.sample_bytes;
}

// The largest useful size of a partition.
uint64_t EnoughPartitionBytes(const Needs& needs) {
  const uint64_t written = needs.num_entries * needs.row_bytes;
  if (written == 0) return kEnoughPartitionBytes;
  // So few partitions that a region gets kPieceBytes of each.
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
  // A record of the dispatch spool has two words more than nodes; a block has
  // two words of its own, and up to two unused.
  const uint64_t words = needs.num_entries + 2 * needs.num_regions * partitions;
  const uint64_t block_words = memory.block_bytes / sizeof(uint32_t) - 6;
  memory.scratch_disk_bytes =
      (words / block_words + 1 + partitions) * memory.block_bytes;
  return memory;
}

// As many workers, at most `threads`, as have their buffers in their share of
// the limit.
int WorkersWithin(uint64_t limit_bytes, int threads) {
  const uint64_t others = std::min<uint64_t>(
      limit_bytes / kWorkersShare / kBytesPerWorker, kMaxWorkers - 1);
  return std::clamp(threads, 1, 1 + static_cast<int>(others));
}

// The least sufficient limit.
uint64_t LeastLimit(const Needs& needs) {
  uint64_t too_little = 0;
  uint64_t enough = uint64_t{1} << 62;
  while (enough - too_little > 1) {
    const uint64_t middle = too_little + (enough - too_little) / 2;
    (Divide(needs, middle, 1) ? enough : too_little) = middle;
  }
  return enough;
}

absl::StatusOr<PackMemory> PlanMemory(const PackedLayout& layout,
                                      int64_t num_nodes, int64_t disk_rows,
                                      uint64_t limit_bytes, int threads) {
  if (layout.row_bytes <= 0 || layout.row_bytes > kMaxRowBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows of ", layout.row_bytes,
                     " bytes cannot be packed: the limit is ", kMaxRowBytes));
  }
  const Needs needs = NeedsOf(layout, num_nodes, disk_rows);
  std::optional<PackMemory> memory =
      Divide(needs, limit_bytes, WorkersWithin(limit_bytes, threads));
  // The least limit is that of one worker.
  if (!memory) memory = Divide(needs, limit_bytes, 1);
  if (!memory) {
    const uint64_t least = LeastLimit(needs);
    return absl::ResourceExhaustedError(
        absl::StrCat("packing needs ", least, " bytes of memory (",
                     FormatByteSize(least), "); the limit is ", limit_bytes,
                     " (", FormatByteSize(limit_bytes), ")"));
  }
  // The rows of the disk cache before they are ordered, and the order.
  const auto num_segments =
      needs.num_regions - static_cast<uint64_t>(layout.num_batches());
  const auto rows = static_cast<uint64_t>(disk_rows);
  memory->scratch_disk_bytes += RoundUpToPage(rows * needs.row_bytes) +
                                num_segments * kPageBytes +
                                rows * sizeof(uint32_t);
  return *memory;
}

}  // namespace

PackedLayout LayoutOfPart(const PackPart& part, const PackedLayout& layout,
                          int64_t num_batches) {
  PackedLayout own;
  own.plan_id = layout.plan_id;
  own.row_bytes = layout.row_bytes;
  own.segment_size = layout.segment_size;
  own.rows = layout.rows;
  const auto first = layout.chunks.begin() + part.first_batch;
  own.chunks.assign(first, first + num_batches);
  own.PlaceChunks();
  return own;
}

Segment PackContext::SegmentOfPart(int64_t index) const {
  Segment segment = SegmentAt(segmentation, part.first_segment + index);
  segment.begin -= part.first_batch;
  segment.end -= part.first_batch;
  return segment;
}

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

// Smaller partitions mean more of them, each with a block. `balance` bytes for
// partitions and as many for blocks suffice, since the product of the two is
// the features' bytes times a block's bytes.
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
  return PlanMemory(layout, num_nodes, layout.rows.disk, limit_bytes, threads);
}

// 1. Compute memory and disk; remove leftovers of an earlier attempt.
// 2. Planning (pack_heads.h): write the beginning of every chunk; spool the
//    destinations of rows by partition of the feature file.
// 3. Scanning: read each partition, while a team of workers appends the rows of
//    the partition before to the packs, to the disk caches in the order of the
//    nodes, and to the images. Each pack, and each segment's disk cache,
//    belongs to one worker.
// 4. Ordering (disk_cache_writer.h): write each segment's disk cache in its own
//    order.
// 5. Sync all files, rename them, write the index.
//
// The place of a row in the disk cache is unrelated to its node, so that
// writing it directly would be a small random write: steps 3 and 4 write and
// read it once more instead, in large pieces.

namespace {

using store::NodeId;

/// Appends the rows of a memory level while the scan passes them.
class LevelImage {
 public:
  static absl::StatusOr<LevelImage> Create(io::FileSystem& files,
                                           const std::string& path,
                                           absl::Span<const NodeId> nodes,
                                           int64_t row_bytes) {
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<io::StreamWriter> writer,
        io::StreamWriter::Create(
            files, path, static_cast<uint64_t>(std::ssize(nodes) * row_bytes)));
    return LevelImage(std::move(writer), nodes, row_bytes);
  }

  absl::Status Append(const FeatureScan::Partition& partition) {
    while (!nodes_.empty() &&
           nodes_.front() < partition.first + partition.num_rows) {
      const int64_t row = nodes_.front() - partition.first;
      HEARTH_RETURN_IF_ERROR(
          writer_->Append({partition.rows + row * row_bytes_,
                           static_cast<size_t>(row_bytes_)}));
      nodes_.remove_prefix(1);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> Finish() {
    HEARTH_RETURN_IF_ERROR(writer_->Finish());
    return writer_->crc();
  }

 private:
  LevelImage(std::unique_ptr<io::StreamWriter> writer,
             absl::Span<const NodeId> nodes, int64_t row_bytes)
      : writer_(std::move(writer)), nodes_(nodes), row_bytes_(row_bytes) {}

  std::unique_ptr<io::StreamWriter> writer_;
  // Nodes of the level that are still to come.
  absl::Span<const NodeId> nodes_;
  int64_t row_bytes_;
};

class Packer {
 public:
  Packer(const PackContext& context, const PackMemory& memory,
         PackFiles& pack_files, PackedLayout& layout)
      : context_(context),
        memory_(memory),
        pack_files_(pack_files),
        layout_(layout),
        disk_rows_(context.files,
                   io::JoinPath(context.options.folder, kDiskRowsFile)) {}

  absl::Status Pack() {
    HEARTH_ASSIGN_OR_RETURN(team_, ThreadTeam::Create(memory_.workers));
    HEARTH_ASSIGN_OR_RETURN(packs_, context_.files.CreateUncached(
                                        pack_files_.Temporary(kPacksFile)));
    HEARTH_RETURN_IF_ERROR(packs_->Allocate(layout_.packs_bytes()));
    HEARTH_ASSIGN_OR_RETURN(
        heads_, WritePackHeads(context_,
                               {.num_partitions = memory_.num_partitions,
                                .partition_nodes = memory_.partition_nodes,
                                .block_bytes = memory_.block_bytes},
                               *team_, *packs_, layout_));
    HEARTH_ASSIGN_OR_RETURN(
        FeatureScan scan,
        FeatureScan::Make(*context_.input.features, context_.input.rows,
                          memory_.partition_nodes));
    HEARTH_ASSIGN_OR_RETURN(std::vector<CollectedRows> collected, Scan(scan));
    HEARTH_RETURN_IF_ERROR(packs_->Sync());
    HEARTH_RETURN_IF_ERROR(packs_->Close());
    HEARTH_RETURN_IF_ERROR(Order(std::move(collected), scan.memory()));
    return pack_files_.Commit(layout_);
  }

 private:
  auto ProgressOf(absl::string_view stage) const {
    return [this, stage](uint64_t done, uint64_t total) {
      if (!context_.options.progress) return;
      context_.options.progress(
          {.stage = stage, .done_bytes = done, .total_bytes = total});
    };
  }

  std::vector<FileRange> PackRegions() const {
    std::vector<FileRange> regions;
    for (int64_t batch = 0; batch < layout_.num_batches(); ++batch) {
      regions.push_back(layout_.FeaturesRange(batch));
    }
    return regions;
  }

  std::vector<FileRange> DiskRegions() const {
    std::vector<FileRange> regions;
    for (int64_t i = 0; i < heads_.order->num_segments(); ++i) {
      regions.push_back({.offset = regions.empty() ? 0 : regions.back().end(),
                         .bytes = static_cast<uint64_t>(
                             heads_.order->num_rows(i) * layout_.row_bytes)});
    }
    return regions;
  }

  /// Step 3 of the comment above.
  absl::StatusOr<std::vector<CollectedRows>> Scan(FeatureScan& scan) {
    const std::vector<FileRange> disk_regions = DiskRegions();
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> disk_rows,
                            context_.files.CreateUncached(disk_rows_.path()));
    HEARTH_ASSIGN_OR_RETURN(
        RegionWriter packs,
        RegionWriter::Make(*packs_, PackRegions(), team_->size()));
    HEARTH_ASSIGN_OR_RETURN(
        RegionWriter disk,
        RegionWriter::Make(*disk_rows, disk_regions, team_->size()));
    HEARTH_RETURN_IF_ERROR(ScanPartitions(scan, packs, disk));
    const std::optional<double> rate = scan.TellingRate();
    if (rate.has_value() && context_.options.on_scan) {
      context_.options.on_scan(*rate);
    }
    HEARTH_RETURN_IF_ERROR(packs.CheckFull());
    HEARTH_RETURN_IF_ERROR(disk.CheckFull());
    HEARTH_RETURN_IF_ERROR(disk_rows->Close());
    for (int64_t batch = 0; batch < layout_.num_batches(); ++batch) {
      layout_.chunks[batch].features_crc = packs.crc(batch);
    }
    std::vector<CollectedRows> collected;
    for (const FileRange& range : disk_regions) {
      collected.push_back(
          {.range = range, .crc = disk.crc(std::ssize(collected))});
    }
    return collected;
  }

  absl::Status ScanPartitions(FeatureScan& scan, RegionWriter& packs,
                              RegionWriter& disk) {
    const auto image = [&](const char* name, absl::Span<const NodeId> nodes) {
      return LevelImage::Create(context_.files, pack_files_.Temporary(name),
                                nodes, layout_.row_bytes);
    };
    const MemoryLevels& levels = *context_.input.levels;
    const PackPart& part = context_.part;
    HEARTH_ASSIGN_OR_RETURN(
        LevelImage gpu,
        image(kGpuCacheFile,
              levels.gpu_nodes().subspan(static_cast<size_t>(part.first.gpu),
                                         static_cast<size_t>(part.rows.gpu))));
    HEARTH_ASSIGN_OR_RETURN(
        LevelImage cpu,
        image(kCpuCacheFile,
              levels.cpu_nodes().subspan(static_cast<size_t>(part.first.cpu),
                                         static_cast<size_t>(part.rows.cpu))));
    HEARTH_RETURN_IF_ERROR(scan.Run(
        [&](const FeatureScan::Partition& partition) -> absl::Status {
          // Task 0 does the images, each other task is a worker's.
          HEARTH_RETURN_IF_ERROR(
              team_->TryRun(team_->size() + 1, [&](int64_t part) {
                if (part > 0) {
                  return AppendDispatched(partition, static_cast<int>(part - 1),
                                          packs, disk);
                }
                HEARTH_RETURN_IF_ERROR(gpu.Append(partition));
                return cpu.Append(partition);
              }));
          const int64_t scanned = partition.first + partition.num_rows;
          ProgressOf("scanning")(
              static_cast<uint64_t>(scanned * layout_.row_bytes),
              static_cast<uint64_t>(context_.input.rows.num_rows *
                                    layout_.row_bytes));
          return absl::OkStatus();
        },
        *context_.options.clock, context_.options.stop));
    HEARTH_ASSIGN_OR_RETURN(layout_.gpu_crc, gpu.Finish());
    HEARTH_ASSIGN_OR_RETURN(layout_.cpu_crc, cpu.Finish());
    return absl::OkStatus();
  }

  /// Appends the rows of a partition that a worker's batches and segments need.
  /// Each target has one worker, so that its rows stay in order.
  absl::Status AppendDispatched(const FeatureScan::Partition& partition,
                                int worker, RegionWriter& packs,
                                RegionWriter& disk) {
    const int64_t num_batches = layout_.num_batches();
    const auto workers = static_cast<uint32_t>(team_->size());
    return heads_.dispatch->ForEach(
        partition.index,
        [&](uint32_t target, absl::Span<const uint32_t> nodes) {
          if (target % workers != static_cast<uint32_t>(worker)) {
            return absl::OkStatus();
          }
          if (context_.options.stop.stop_requested()) {
            return absl::CancelledError("packing rows: stopped on request");
          }
          const bool is_pack = target < num_batches;
          return AppendRows(partition, nodes, layout_.row_bytes,
                            is_pack ? target : target - num_batches,
                            is_pack ? packs : disk, worker);
        },
        worker);
  }

  /// Step 4 of the comment above.
  absl::Status Order(std::vector<CollectedRows> collected,
                     absl::Span<std::byte> window) {
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> rows,
                            context_.files.OpenForScan(disk_rows_.path()));
    const DiskCacheWriter::Progress progress = ProgressOf("ordering");
    const PackedLayout own = {.plan_id = layout_.plan_id,
                              .row_bytes = layout_.row_bytes,
                              .segment_size = layout_.segment_size,
                              .rows = context_.part.rows,
                              .chunks = {}};
    DiskCacheWriter writer(own, window, context_.options.stop, progress);
    HEARTH_ASSIGN_OR_RETURN(
        layout_.disk_checksums_crc,
        writer.Write(context_.files,
                     {*rows, std::move(collected), *heads_.order},
                     pack_files_.Temporary(kDiskCacheFile),
                     pack_files_.Temporary(kDiskChecksumsFile)));
    return absl::OkStatus();
  }

  const PackContext& context_;
  const PackMemory& memory_;
  PackFiles& pack_files_;
  PackedLayout& layout_;
  io::ScratchFile disk_rows_;
  std::unique_ptr<ThreadTeam> team_;
  std::unique_ptr<io::WritableFile> packs_;
  PackHeads heads_;
};

absl::Status CheckInput(const PackInput& input, Segmentation segmentation,
                        const PackedLayout& layout) {
  segmentation.num_batches = layout.num_batches();
  const LayoutInput measured = {.trace = input.trace,
                                .levels = input.levels,
                                .row_bytes = layout.row_bytes,
                                .sample_bytes = input.samples->sizes()};
  HEARTH_RETURN_IF_ERROR(CheckLayoutInput(measured, segmentation));
  bool same = layout.segment_size == segmentation.segment_size &&
              layout.rows.gpu == std::ssize(input.levels->gpu_nodes()) &&
              layout.rows.cpu == std::ssize(input.levels->cpu_nodes()) &&
              input.rows.row_bytes == layout.row_bytes &&
              input.rows.num_rows == input.levels->num_nodes();
  for (int64_t batch = 0; same && batch < layout.num_batches(); ++batch) {
    same = layout.chunks[batch].sample_bytes == measured.sample_bytes[batch];
  }
  if (same) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "packing batches: the layout was not measured for them");
}

absl::Status CheckDisk(io::FileSystem& files, const std::string& folder,
                       const PackedLayout& layout, const PackPart& part,
                       const PackMemory& memory) {
  HEARTH_ASSIGN_OR_RETURN(const uint64_t free, files.FreeBytes(folder));
  PackedLayout rows = {
      .row_bytes = layout.row_bytes, .rows = part.rows, .chunks = {}};
  const uint64_t plan = layout.packs_bytes() + rows.total_bytes();
  const uint64_t needed = plan + memory.scratch_disk_bytes;
  if (needed <= free) return absl::OkStatus();
  return WaitForDiskSpace(absl::ResourceExhaustedError(absl::StrCat(
      folder, ": packing needs ", needed, " bytes (", FormatByteSize(plan),
      " of plan and ", FormatByteSize(memory.scratch_disk_bytes),
      " while it is packed); ", free, " (", FormatByteSize(free),
      ") are free")));
}

}  // namespace

absl::StatusOr<PackedLayout> PackBatches(io::FileSystem& files,
                                         const PackInput& input,
                                         const Segmentation& segmentation,
                                         PackedLayout layout,
                                         const PackOptions& options) {
  const PackPart whole = {.rows = layout.rows};
  if (layout.num_batches() != segmentation.num_batches) {
    return absl::FailedPreconditionError(
        "packing batches: the layout was not measured for them");
  }
  return PackBatches(files, input, segmentation, whole, std::move(layout),
                     options);
}

absl::StatusOr<PackedLayout> PackBatches(io::FileSystem& files,
                                         const PackInput& input,
                                         const Segmentation& segmentation,
                                         const PackPart& part,
                                         PackedLayout layout,
                                         const PackOptions& options) {
  HEARTH_RETURN_IF_ERROR(CheckInput(input, segmentation, layout));
  layout.plan_id = options.plan_id;
  HEARTH_ASSIGN_OR_RETURN(
      const PackMemory memory,
      PlanMemory(layout, input.rows.num_rows, part.rows.disk,
                 options.memory_limit_bytes, options.threads));
  PackFiles pack_files(files, options.folder);
  HEARTH_RETURN_IF_ERROR(pack_files.Begin());
  HEARTH_RETURN_IF_ERROR(
      CheckDisk(files, options.folder, layout, part, memory));
  const PackContext context = {files, input, segmentation, part, options};
  HEARTH_RETURN_IF_ERROR(Packer(context, memory, pack_files, layout).Pack());
  return layout;
}

}  // namespace hearth::strategy
