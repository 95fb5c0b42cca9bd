#ifndef HEARTH_ENGINE_STRATEGY_PACKING_APPEND_ROWS_H_
#define HEARTH_ENGINE_STRATEGY_PACKING_APPEND_ROWS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/strategy/packing/feature_scan.h"
#include "engine/strategy/packing/region_writer.h"

/// Copies of rows that a scan passes.

namespace hearth::strategy {

/// Appends the rows of `nodes`, numbered within the partition, of `row_bytes`
/// each, to a region. FAILED_PRECONDITION if the region is full; errors of
/// writing. The caller's `worker` is RegionWriter's.
absl::Status AppendRows(const FeatureScan::Partition& partition,
                        absl::Span<const uint32_t> nodes, int64_t row_bytes,
                        int64_t region, RegionWriter& writer, int worker);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PACKING_APPEND_ROWS_H_
