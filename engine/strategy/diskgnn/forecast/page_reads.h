#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_PAGE_READS_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_PAGE_READS_H_

#include <cstdint>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/coalesce.h"
#include "engine/strategy/diskgnn/layout/measure_layout.h"
#include "engine/strategy/diskgnn/layout/segmentation.h"

namespace hearth::strategy {

/// The reads of a batch from the disk cache.
struct PageReads {
  int64_t rows = 0;
  /// With gaps that are read along.
  uint64_t bytes = 0;
  uint64_t requests = 0;

  void Add(const PageReads& other);
};

/// Plans the reads of the disk cache as a pass will (DiskCacheReader).
/// Single-owner.
class PageReadCounter {
 public:
  explicit PageReadCounter(int64_t row_bytes) : row_bytes_(row_bytes) {}

  /// The reads of a batch that needs `rows`, ascending, of the disk cache.
  absl::StatusOr<PageReads> Count(absl::Span<const int64_t> rows);

 private:
  const int64_t row_bytes_;
  std::vector<int64_t> pages_;
  io::ReadPlan plan_;
};

/// The reads of each batch of a trace, in a layout with that segmentation,
/// whose segments are planned and ordered for it: one walk like those of the
/// search and of packing. Errors and memory as those of SegmentPlanner.
absl::StatusOr<std::vector<PageReads>> CountPageReads(
    const LayoutInput& input, const Segmentation& segmentation,
    const std::stop_token& stop);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_FORECAST_PAGE_READS_H_
