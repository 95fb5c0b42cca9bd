#include "engine/strategy/diskgnn/layout/memory_levels.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::strategy {

absl::StatusOr<MemoryLevels> MemoryLevels::Choose(
    const plan::AccessCounts& counts, const Rows& rows) {
  const int64_t num_nodes = counts.num_nodes();
  if (rows.gpu < 0 || rows.cpu < 0) {
    return absl::InvalidArgumentError(absl::StrCat("caches of ", rows.gpu,
                                                   " rows (GPU) and ", rows.cpu,
                                                   " (CPU) cannot be filled"));
  }
  const int64_t gpu = std::min(rows.gpu, num_nodes);
  const int64_t wanted = gpu + std::min(rows.cpu, num_nodes - gpu);
  if (wanted >= UINT32_MAX) {
    return absl::InvalidArgumentError(absl::StrCat(
        wanted, " rows are too many to hold: the limit is ", UINT32_MAX - 1));
  }
  MemoryLevels levels;
  HEARTH_ASSIGN_OR_RETURN(
      levels.memory_, io::AlignedMemory::Allocate(
                          static_cast<uint64_t>(num_nodes) * sizeof(uint32_t)));
  levels.codes_ = {reinterpret_cast<uint32_t*>(levels.memory_.bytes().data()),
                   static_cast<size_t>(num_nodes)};
  levels.cpu_nodes_ = counts.MostAccessed(wanted);
  const auto split = levels.cpu_nodes_.begin() +
                     std::min<ptrdiff_t>(gpu, std::ssize(levels.cpu_nodes_));
  levels.gpu_nodes_.assign(levels.cpu_nodes_.begin(), split);
  levels.cpu_nodes_.erase(levels.cpu_nodes_.begin(), split);
  uint32_t code = 0;
  for (auto* nodes : {&levels.gpu_nodes_, &levels.cpu_nodes_}) {
    std::sort(nodes->begin(), nodes->end());
    for (const store::NodeId node : *nodes) levels.codes_[node] = ++code;
  }
  return levels;
}

}  // namespace hearth::strategy
