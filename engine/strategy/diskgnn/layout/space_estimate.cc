#include "engine/strategy/diskgnn/layout/space_estimate.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/topology.h"

namespace hearth::strategy {
namespace {

using store::NodeId;

/// Accesses of the batches so far to what the memory levels do not hold.
class GrowingSegment {
 public:
  static absl::StatusOr<GrowingSegment> Make(const LayoutInput& input,
                                             int64_t max_cache_rows) {
    const auto num_nodes = static_cast<uint64_t>(input.levels->num_nodes());
    HEARTH_ASSIGN_OR_RETURN(
        io::AlignedMemory memory,
        io::AlignedMemory::Allocate(num_nodes * sizeof(uint32_t)));
    return GrowingSegment(input, max_cache_rows, std::move(memory));
  }

  absl::Status Add(absl::Span<const NodeId> nodes) {
    ++num_batches_;
    LevelCounts levels;
    for (const NodeId node : nodes) {
      if (node < 0 || node >= levels_->num_nodes()) {
        return absl::InvalidArgumentError(
            absl::StrCat("node ", node, " of an access trace is not one of ",
                         levels_->num_nodes()));
      }
      if (levels_->Holds(node)) {
        ++(levels_->LevelOf(node) == Level::kGpu ? levels.gpu : levels.cpu);
        continue;
      }
      ++levels.disk;
      const uint32_t count = ++counts()[node];
      if (num_with_.size() <= count) num_with_.resize(count + 1, 0);
      if (count > 1) --num_with_[count - 1];
      ++num_with_[count];
    }
    // A disk cache of as many rows as the graph has nodes: a common width.
    const uint64_t table =
        EncodedTableBytes(levels, {.gpu = std::ssize(levels_->gpu_nodes()),
                                   .cpu = std::ssize(levels_->cpu_nodes()),
                                   .disk = levels_->num_nodes()});
    fixed_bytes_ += RoundUpToPage(table);
    return absl::OkStatus();
  }

  /// Bytes of tables so far.
  uint64_t fixed_bytes() const { return fixed_bytes_; }

  /// Rows that all `total` batches take on disk in segments like this.
  double RowsOf(int64_t total) const {
    const double segments =
        static_cast<double>(total) / static_cast<double>(num_batches_);
    double room = max_cache_rows_ == Segmentation::kUnbounded
                      ? static_cast<double>(max_cache_rows_)
                      : static_cast<double>(max_cache_rows_) / segments;
    double rows = num_with_.size() > 1 ? static_cast<double>(num_with_[1]) : 0;
    for (size_t count = num_with_.size(); count-- > 2;) {
      const auto nodes = static_cast<double>(num_with_[count]);
      const double cached = std::min(nodes, room);
      room -= cached;
      rows += cached + (nodes - cached) * static_cast<double>(count);
    }
    return rows * segments;
  }

 private:
  GrowingSegment(const LayoutInput& input, int64_t max_cache_rows,
                 io::AlignedMemory memory)
      : levels_(input.levels),
        max_cache_rows_(max_cache_rows),
        memory_(std::move(memory)) {}

  uint32_t* counts() {
    return reinterpret_cast<uint32_t*>(memory_.bytes().data());
  }

  const MemoryLevels* levels_;
  int64_t max_cache_rows_;
  io::AlignedMemory memory_;
  // How many nodes are needed just so often.
  std::vector<int64_t> num_with_;
  int64_t num_batches_ = 0;
  uint64_t fixed_bytes_ = 0;
};

// Bytes that do not depend on the segments, but for the tables.
uint64_t FixedBytes(const LayoutInput& input) {
  PackedLayout layout;
  layout.row_bytes = input.row_bytes;
  layout.rows.gpu = std::ssize(input.levels->gpu_nodes());
  layout.rows.cpu = std::ssize(input.levels->cpu_nodes());
  uint64_t bytes = layout.gpu_cache_bytes() + layout.cpu_cache_bytes() +
                   kIndexHeaderBytes +
                   input.sample_bytes.size() * sizeof(Chunk);
  for (const uint64_t sample : input.sample_bytes) {
    // Half a page is what rounding up the packed rows takes on average.
    bytes += RoundUpToPage(kChunkHeaderBytes + sample) + kPageBytes / 2;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::vector<uint64_t>> EstimateSpace(
    const LayoutInput& input, int64_t max_cache_rows,
    const std::stop_token& stop) {
  const int64_t num_batches = input.trace->num_batches();
  HEARTH_ASSIGN_OR_RETURN(GrowingSegment segment,
                          GrowingSegment::Make(input, max_cache_rows));
  std::vector<double> rows;
  for (int64_t batch = 0; batch < num_batches; ++batch) {
    if (stop.stop_requested()) {
      return absl::CancelledError("searching a layout: stopped on request");
    }
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const NodeId> nodes,
                            input.trace->Load(batch));
    HEARTH_RETURN_IF_ERROR(segment.Add(nodes));
    rows.push_back(segment.RowsOf(num_batches));
  }
  const uint64_t fixed = FixedBytes(input) + segment.fixed_bytes();
  std::vector<uint64_t> estimates;
  for (const double count : rows) {
    estimates.push_back(
        fixed +
        static_cast<uint64_t>(count * static_cast<double>(input.row_bytes)));
  }
  return estimates;
}

}  // namespace hearth::strategy
