#include "engine/strategy/diskgnn/forecast/page_reads.h"

#include <algorithm>
#include <memory>

#include "engine/base/status_macros.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/diskgnn_pass.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"

namespace hearth::strategy {
namespace {

constexpr auto kPage = static_cast<int64_t>(kPageBytes);

// Rows of the disk cache that a batch needs, ascending; the first row of its
// segment is row `base`.
void FindRows(const SegmentPlanner& planner,
              absl::Span<const store::NodeId> nodes, int64_t base,
              std::vector<int64_t>& rows) {
  rows.clear();
  for (const store::NodeId node : nodes) {
    if (planner.LevelOf(node) != Level::kDisk) continue;
    rows.push_back(base + planner.PlaceOf(node));
  }
  std::sort(rows.begin(), rows.end());
}

}  // namespace

void PageReads::Add(const PageReads& other) {
  rows += other.rows;
  bytes += other.bytes;
  requests += other.requests;
}

absl::StatusOr<PageReads> PageReadCounter::Count(
    absl::Span<const int64_t> rows) {
  if (rows.empty()) return PageReads();
  pages_.clear();
  for (const int64_t row : rows) {
    int64_t page = row * row_bytes_ / kPage;
    const int64_t end = ((row + 1) * row_bytes_ + kPage - 1) / kPage;
    if (!pages_.empty()) page = std::max(page, pages_.back() + 1);
    for (; page < end; ++page) pages_.push_back(page);
  }
  const io::ReadCost cost = {.max_request_bytes =
                                 DiskgnnPass::StagingBytes(/*io_depth=*/1)};
  HEARTH_RETURN_IF_ERROR(io::Coalesce(
      pages_, {.row_bytes = kPageBytes, .num_rows = pages_.back() + 1},
      kPageBytes, cost, plan_));
  return PageReads{.rows = std::ssize(rows),
                   .bytes = plan_.read_bytes,
                   .requests = plan_.reads.size()};
}

absl::StatusOr<std::vector<PageReads>> CountPageReads(
    const LayoutInput& input, const Segmentation& segmentation,
    const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<SegmentPlanner> planner,
                          SegmentPlanner::Make(*input.trace, *input.levels));
  PageReadCounter counter(input.row_bytes);
  std::vector<PageReads> reads;
  std::vector<int64_t> rows;
  int64_t base = 0;
  for (int64_t i = 0; i < segmentation.num_segments(); ++i) {
    const Segment segment = SegmentAt(segmentation, i);
    HEARTH_RETURN_IF_ERROR(planner->Choose(segment, stop));
    HEARTH_RETURN_IF_ERROR(planner->Order(segmentation.seed, stop));
    for (int64_t batch = segment.begin; batch < segment.end; ++batch) {
      HEARTH_ASSIGN_OR_RETURN(const absl::Span<const store::NodeId> nodes,
                              input.trace->Load(batch));
      FindRows(*planner, nodes, base, rows);
      HEARTH_ASSIGN_OR_RETURN(reads.emplace_back(), counter.Count(rows));
    }
    base += std::ssize(planner->cached_nodes());
  }
  return reads;
}

}  // namespace hearth::strategy
