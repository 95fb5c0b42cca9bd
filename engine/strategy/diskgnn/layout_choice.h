#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_CHOICE_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_CHOICE_H_

#include <cstdint>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/plan/access_trace.h"
#include "engine/strategy/diskgnn/layout/layout_search.h"
#include "engine/strategy/diskgnn/layout/memory_levels.h"
#include "engine/strategy/diskgnn/options.h"
#include "engine/strategy/strategy.h"

/// The meaning of a job's options for the layout of its plan, shared by
/// preparation and forecast.

namespace hearth::strategy {

/// The property of a plan that says how its layout was chosen.
inline constexpr char kLayoutProperty[] = "layout";

/// `options` with a limit in bytes alone.
DiskgnnOptions InBytes(DiskgnnOptions options, int64_t num_rows,
                       int64_t row_bytes);

/// Rows that `budget_bytes` hold.
int64_t RowsWithin(uint64_t budget_bytes, int64_t row_bytes, int64_t num_nodes);

/// The most popular nodes of a trace, as many as there is memory for. Errors as
/// plan::AccessCounts::Count.
absl::StatusOr<MemoryLevels> ChooseLevels(plan::AccessTrace& trace,
                                          const DiskgnnOptions& options,
                                          int64_t row_bytes, int64_t num_nodes,
                                          const std::stop_token& stop);

/// The limits of the layout.
struct LayoutRoom {
  LayoutLimits limits;
  /// Whether the limit is what the disk and other plans leave, not an option.
  bool by_disk = false;
};

/// `free` is what may be written in the plan's folder (plan::PlanRoom).
LayoutRoom RoomForLayout(const DiskgnnOptions& options, int64_t row_bytes,
                         uint64_t free);

/// `status` of a search in that room, for a plan in `folder`: tells where the
/// limit comes from if it is too small.
absl::Status ExplainRefusal(const absl::Status& status, const LayoutRoom& room,
                            const std::string& folder);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_CHOICE_H_
