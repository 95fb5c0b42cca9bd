#include "engine/strategy/diskgnn/layout_choice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/plan/access_counts.h"
#include "engine/plan/plan_store.h"

namespace hearth::strategy {

DiskgnnOptions InBytes(DiskgnnOptions options, int64_t num_rows,
                       int64_t row_bytes) {
  if (options.disk_limit_ratio > 0) {
    options.disk_limit_bytes = static_cast<uint64_t>(
        std::max(1.0, options.disk_limit_ratio * static_cast<double>(num_rows) *
                          static_cast<double>(row_bytes)));
    options.disk_limit_ratio = 0;
  }
  return options;
}

int64_t RowsWithin(uint64_t budget_bytes, int64_t row_bytes,
                   int64_t num_nodes) {
  return static_cast<int64_t>(
      std::min(budget_bytes / static_cast<uint64_t>(row_bytes),
               static_cast<uint64_t>(num_nodes)));
}

absl::StatusOr<MemoryLevels> ChooseLevels(plan::AccessTrace& trace,
                                          const DiskgnnOptions& options,
                                          int64_t row_bytes, int64_t num_nodes,
                                          const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const plan::AccessCounts counts,
                          plan::AccessCounts::Count(trace, num_nodes, stop));
  return MemoryLevels::Choose(
      counts,
      {.gpu = RowsWithin(options.gpu_cache_bytes, row_bytes, num_nodes),
       .cpu = RowsWithin(options.cpu_cache_bytes, row_bytes, num_nodes)});
}

LayoutRoom RoomForLayout(const DiskgnnOptions& options, int64_t row_bytes,
                         uint64_t free) {
  LayoutRoom room = {.limits = {.disk_bytes = free,
                                .other_bytes = plan::PlanStore::kRecordBytes}};
  room.by_disk =
      options.disk_limit_bytes == 0 || free < options.disk_limit_bytes;
  if (!room.by_disk) room.limits.disk_bytes = options.disk_limit_bytes;
  if (options.disk_cache_bytes.has_value()) {
    room.limits.max_cache_rows = static_cast<int64_t>(
        *options.disk_cache_bytes / static_cast<uint64_t>(row_bytes));
  }
  return room;
}

absl::Status ExplainRefusal(const absl::Status& status, const LayoutRoom& room,
                            const std::string& folder) {
  if (!room.by_disk || !absl::IsResourceExhausted(status)) return status;
  return Annotate(status, absl::StrCat(folder,
                                       ": limited by what the disk and "
                                       "other plans leave"));
}

}  // namespace hearth::strategy
