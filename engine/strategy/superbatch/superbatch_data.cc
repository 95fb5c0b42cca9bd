#include "engine/strategy/superbatch/superbatch_data.h"

#include <utility>

#include "engine/base/status_macros.h"

namespace hearth::strategy {

sample::StoredTopology ViewOf(const store::StoredTopology& stored) {
  return {.indptr = stored.indptr.As<int64_t>(),
          .indices_path = stored.indices->path(),
          .indices_offset = stored.layout.first_offset,
          .index_bytes = static_cast<int>(stored.layout.row_bytes)};
}

absl::StatusOr<SuperbatchData> SuperbatchData::Open(
    const store::Dataset& dataset,
    std::shared_ptr<const io::RowCheck> row_check,
    const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(store::Labels labels, dataset.LoadLabels());
  HEARTH_ASSIGN_OR_RETURN(store::StoredFeatures features,
                          dataset.OpenFeatures({}));
  HEARTH_ASSIGN_OR_RETURN(store::StoredTopology stored,
                          dataset.OpenTopology({}, stop));
  sample::StoredTopology topology = ViewOf(stored);
  return SuperbatchData{.labels = std::move(labels),
                        .stored = std::move(stored),
                        .topology = std::move(topology),
                        .features = std::move(features),
                        .row_check = std::move(row_check)};
}

}  // namespace hearth::strategy
