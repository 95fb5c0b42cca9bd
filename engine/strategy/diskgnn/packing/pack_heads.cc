#include "engine/strategy/diskgnn/packing/pack_heads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/io/aligned_memory.h"
#include "engine/sample/dispatch_spool.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/packing/pack_files.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/strategy/packing/file_range.h"

namespace hearth::strategy {

using store::NodeId;

void TableBuilder::Build(const SegmentPlanner& planner, int64_t disk_base,
                         absl::Span<const NodeId> nodes) {
  for (auto* list : {&gpu_, &cpu_, &disk_, &packed_}) list->clear();
  const MemoryLevels& levels = planner.levels();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeId node = nodes[i];
    const auto position = static_cast<int32_t>(i);
    switch (planner.LevelOf(node)) {
      case Level::kGpu:
        gpu_.push_back({levels.SlotOf(node), position});
        break;
      case Level::kCpu:
        cpu_.push_back({levels.SlotOf(node), position});
        break;
      case Level::kDisk:
        disk_.push_back({disk_base + planner.PlaceOf(node), position});
        break;
      case Level::kPack:
        packed_.push_back({node, position});
        break;
    }
  }
  Sort(gpu_, table_.gpu.rows, table_.gpu.positions);
  Sort(cpu_, table_.cpu.rows, table_.cpu.positions);
  Sort(disk_, table_.disk.rows, table_.disk.positions);
  Sort(packed_, packed_nodes_, table_.packed);
}

void TableBuilder::Sort(std::vector<Address>& from, std::vector<int64_t>& rows,
                        std::vector<int32_t>& positions) {
  RadixSort(from, scratch_,
            [](const Address& address) { return address.first; });
  rows.clear();
  positions.clear();
  for (const auto& [row, position] : from) {
    rows.push_back(row);
    positions.push_back(position);
  }
}

namespace {

class HeadWriter {
 public:
  HeadWriter(const PackContext& context, ThreadTeam& team,
             io::WritableFile& packs, PackedLayout& layout)
      : context_(context), team_(team), packs_(packs), layout_(layout) {}

  absl::StatusOr<PackHeads> Write(const sample::DispatchOptions& dispatch) {
    HEARTH_RETURN_IF_ERROR(Prepare(dispatch));
    int64_t disk_base = context_.part.first.disk;
    for (int64_t i = 0; i < context_.num_segments(); ++i) {
      const Segment segment = context_.SegmentOfPart(i);
      for (int64_t batch = segment.begin; batch < segment.end; ++batch) {
        HEARTH_RETURN_IF_ERROR(WriteBatch(segment, batch, disk_base));
      }
      disk_base += std::ssize(planner_->cached_nodes());
    }
    HEARTH_RETURN_IF_ERROR(heads_.dispatch->EndAdding(team_.size()));
    HEARTH_RETURN_IF_ERROR(heads_.order->EndAdding());
    return std::move(heads_);
  }

 private:
  absl::Status Prepare(const sample::DispatchOptions& dispatch) {
    const std::string& folder = context_.options.folder;
    HEARTH_ASSIGN_OR_RETURN(
        heads_.dispatch,
        sample::DispatchSpool::Create(
            context_.files, io::JoinPath(folder, kDispatchFile), dispatch));
    HEARTH_ASSIGN_OR_RETURN(
        heads_.order, DiskOrder::Create(context_.files,
                                        io::JoinPath(folder, kDiskOrderFile)));
    HEARTH_ASSIGN_OR_RETURN(
        planner_,
        SegmentPlanner::Make(*context_.input.trace, *context_.input.levels));
    uint64_t largest = 0;
    for (int64_t batch = 0; batch < layout_.num_batches(); ++batch) {
      largest = std::max(largest, layout_.TableRange(batch).end() -
                                      layout_.SampleRange(batch).offset);
      total_bytes_ +=
          layout_.TableRange(batch).end() - layout_.SampleRange(batch).offset;
    }
    HEARTH_ASSIGN_OR_RETURN(memory_, io::AlignedMemory::Allocate(largest));
    return absl::OkStatus();
  }

  absl::Status PlanSegment(const Segment& segment) {
    const std::stop_token& stop = context_.options.stop;
    HEARTH_RETURN_IF_ERROR(planner_->Choose(segment, stop));
    HEARTH_RETURN_IF_ERROR(planner_->Order(context_.segmentation.seed, stop));
    HEARTH_RETURN_IF_ERROR(heads_.order->Add(planner_->places()));
    const int64_t target =
        layout_.num_batches() + segment.index - context_.part.first_segment;
    return heads_.dispatch->Add(static_cast<uint32_t>(target),
                                planner_->cached_nodes());
  }

  /// Another thread copies the sample, which does not depend on the rest.
  absl::Status WriteBatch(const Segment& segment, int64_t batch,
                          int64_t disk_base) {
    const PackOptions& options = context_.options;
    if (options.stop.stop_requested()) {
      return absl::CancelledError("packing batches: stopped on request");
    }
    HEARTH_RETURN_IF_ERROR(team_.TryRun(2, [&](int64_t part) {
      return part == 0 ? WriteTable(segment, batch, disk_base)
                       : WriteSample(batch);
    }));
    done_bytes_ +=
        layout_.TableRange(batch).end() - layout_.SampleRange(batch).offset;
    if (options.progress) {
      options.progress({.stage = "planning",
                        .done_bytes = done_bytes_,
                        .total_bytes = total_bytes_});
    }
    return absl::OkStatus();
  }

  /// At the first batch of a segment: plans the segment.
  absl::Status WriteTable(const Segment& segment, int64_t batch,
                          int64_t disk_base) {
    if (batch == segment.begin) HEARTH_RETURN_IF_ERROR(PlanSegment(segment));
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const NodeId> nodes,
                            context_.input.trace->Load(batch));
    builder_.Build(*planner_, disk_base, nodes);
    if (builder_.table().counts() != layout_.chunks[batch].counts) {
      return absl::FailedPreconditionError(absl::StrCat(
          "packing batch ", batch, ": it has changed since it was measured"));
    }
    HEARTH_RETURN_IF_ERROR(heads_.dispatch->Add(static_cast<uint32_t>(batch),
                                                builder_.packed_nodes()));
    const FileRange table = layout_.TableRange(batch);
    const absl::Span<std::byte> pages = memory_.bytes().subspan(
        table.offset - layout_.SampleRange(batch).offset,
        table.end() - table.offset);
    EncodeTable(builder_.table(), layout_.rows, pages.data());
    layout_.chunks[batch].table_crc = Crc32c(pages.first(table.bytes));
    std::memset(pages.data() + table.bytes, 0, pages.size() - table.bytes);
    return packs_.Write(table.offset, pages);
  }

  absl::Status WriteSample(int64_t batch) {
    const FileRange sample = layout_.SampleRange(batch);
    const absl::Span<std::byte> pages =
        memory_.bytes().first(layout_.TableRange(batch).offset - sample.offset);
    Chunk& chunk = layout_.chunks[batch];
    WriteChunkHeader(layout_, batch, pages.data(), context_.part.first_batch);
    HEARTH_RETURN_IF_ERROR(context_.input.samples->Read(
        batch, pages.subspan(kChunkHeaderBytes, chunk.sample_bytes)));
    chunk.sample_crc = Crc32c(pages.first(sample.bytes));
    std::memset(pages.data() + sample.bytes, 0, pages.size() - sample.bytes);
    return packs_.Write(sample.offset, pages);
  }

  const PackContext& context_;
  ThreadTeam& team_;
  io::WritableFile& packs_;
  PackedLayout& layout_;
  PackHeads heads_;
  std::unique_ptr<SegmentPlanner> planner_;
  TableBuilder builder_;
  io::AlignedMemory memory_;
  uint64_t done_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

}  // namespace

absl::StatusOr<PackHeads> WritePackHeads(
    const PackContext& context, const sample::DispatchOptions& dispatch,
    ThreadTeam& team, io::WritableFile& packs, PackedLayout& layout) {
  return HeadWriter(context, team, packs, layout).Write(dispatch);
}

}  // namespace hearth::strategy
