#include "engine/strategy/diskgnn/packing/pack_batches.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/base/team.h"
#include "engine/base/wait_cause.h"
#include "engine/io/scratch_file.h"
#include "engine/io/stream_writer.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/measure_layout.h"
#include "engine/strategy/diskgnn/layout/memory_levels.h"
#include "engine/strategy/diskgnn/packing/disk_cache_writer.h"
#include "engine/strategy/diskgnn/packing/dispatch_spool.h"
#include "engine/strategy/diskgnn/packing/feature_scan.h"
#include "engine/strategy/diskgnn/packing/pack_files.h"
#include "engine/strategy/diskgnn/packing/pack_heads.h"
#include "engine/strategy/diskgnn/packing/pack_memory.h"
#include "engine/strategy/diskgnn/packing/region_writer.h"

// 1. Work out memory and disk; remove what is left of an earlier attempt.
// 2. Planning (pack_heads.h): the beginning of every chunk; which rows go
//    where, spooled by partition of the feature file.
// 3. Scanning: each partition is read, while a team appends the last one's rows
//    to the packs, to the disk caches in the order of the nodes, and to the
//    images. Each pack and each disk cache is one worker's.
// 4. Ordering (disk_cache_writer.h): each disk cache in its own order.
// 5. Sync all, name all, write the index.
//
// A row of the disk cache goes to a place that has nothing to do with its
// number, so that writing it at once would be a small random write: 3 and 4
// write and read it once more instead, in large pieces.

namespace hearth::strategy {
namespace {

using store::NodeId;

/// Appends the rows of a memory level as the scan comes by.
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
  // Those still to come.
  absl::Span<const NodeId> nodes_;
  int64_t row_bytes_;
};

absl::Status AppendRows(const FeatureScan::Partition& partition,
                        absl::Span<const uint32_t> nodes, int64_t row_bytes,
                        int64_t region, RegionWriter& writer, int worker) {
  const auto bytes = static_cast<uint64_t>(row_bytes);
  while (!nodes.empty()) {
    const absl::Span<std::byte> room =
        writer.Begin(region, nodes.size() * bytes, worker);
    const size_t count = room.size() / bytes;
    if (count == 0) {
      return absl::FailedPreconditionError(
          "packing batches: more rows were found than were measured");
    }
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(room.data() + i * bytes,
                  partition.rows + uint64_t{nodes[i]} * bytes, bytes);
    }
    HEARTH_RETURN_IF_ERROR(writer.Commit(region, count * bytes, worker));
    nodes.remove_prefix(count);
  }
  return absl::OkStatus();
}

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
    HEARTH_ASSIGN_OR_RETURN(team_, Team::Create(memory_.workers));
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

  /// Stage 3.
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
    HEARTH_ASSIGN_OR_RETURN(LevelImage gpu,
                            image(kGpuCacheFile, levels.gpu_nodes()));
    HEARTH_ASSIGN_OR_RETURN(LevelImage cpu,
                            image(kCpuCacheFile, levels.cpu_nodes()));
    HEARTH_RETURN_IF_ERROR(scan.Run(
        [&](const FeatureScan::Partition& partition) -> absl::Status {
          // Part 0 is the images', every other one a worker's.
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

  /// The rows of a partition that a worker's batches and segments need. A
  /// target has one worker, so that its rows stay in order.
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

  /// Stage 4.
  absl::Status Order(std::vector<CollectedRows> collected,
                     absl::Span<std::byte> window) {
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> rows,
                            context_.files.OpenForScan(disk_rows_.path()));
    const DiskCacheWriter::Progress progress = ProgressOf("ordering");
    DiskCacheWriter writer(layout_, window, context_.options.stop, progress);
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
  std::unique_ptr<Team> team_;
  std::unique_ptr<io::WritableFile> packs_;
  PackHeads heads_;
};

absl::Status CheckInput(const PackInput& input,
                        const Segmentation& segmentation,
                        const PackedLayout& layout) {
  const LayoutInput measured = {.trace = input.trace,
                                .levels = input.levels,
                                .row_bytes = layout.row_bytes,
                                .sample_bytes = input.samples->sizes()};
  HEARTH_RETURN_IF_ERROR(CheckLayoutInput(measured, segmentation));
  bool same = layout.num_batches() == segmentation.num_batches &&
              layout.segment_size == segmentation.segment_size &&
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
                       const PackedLayout& layout, const PackMemory& memory) {
  HEARTH_ASSIGN_OR_RETURN(const uint64_t free, files.FreeBytes(folder));
  const uint64_t needed = layout.total_bytes() + memory.scratch_disk_bytes;
  if (needed <= free) return absl::OkStatus();
  return WaitForDiskSpace(absl::ResourceExhaustedError(absl::StrCat(
      folder, ": packing needs ", needed, " bytes (",
      FormatByteSize(layout.total_bytes()), " of plan and ",
      FormatByteSize(memory.scratch_disk_bytes), " while it is packed); ", free,
      " (", FormatByteSize(free), ") are free")));
}

}  // namespace

absl::StatusOr<PackedLayout> PackBatches(io::FileSystem& files,
                                         const PackInput& input,
                                         const Segmentation& segmentation,
                                         PackedLayout layout,
                                         const PackOptions& options) {
  HEARTH_RETURN_IF_ERROR(CheckInput(input, segmentation, layout));
  layout.plan_id = options.plan_id;
  HEARTH_ASSIGN_OR_RETURN(
      const PackMemory memory,
      PlanPackMemory(layout, input.rows.num_rows, options.memory_limit_bytes,
                     options.threads));
  PackFiles pack_files(files, options.folder);
  HEARTH_RETURN_IF_ERROR(pack_files.Begin());
  HEARTH_RETURN_IF_ERROR(CheckDisk(files, options.folder, layout, memory));
  const PackContext context = {files, input, segmentation, options};
  HEARTH_RETURN_IF_ERROR(Packer(context, memory, pack_files, layout).Pack());
  return layout;
}

}  // namespace hearth::strategy
