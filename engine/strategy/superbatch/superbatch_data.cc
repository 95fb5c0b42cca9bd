#include "engine/strategy/superbatch/superbatch_data.h"

#include <utility>

#include "engine/base/status_macros.h"

namespace hearth::strategy {

absl::StatusOr<SuperbatchData> SuperbatchData::Open(
    const store::Dataset& dataset,
    std::shared_ptr<const io::RowCheck> row_check,
    const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(store::Labels labels, dataset.LoadLabels());
  HEARTH_ASSIGN_OR_RETURN(store::StoredFeatures features,
                          dataset.OpenFeatures({}));
  HEARTH_ASSIGN_OR_RETURN(store::StoredTopology topology,
                          dataset.OpenTopology({}, stop));
  return SuperbatchData{.labels = std::move(labels),
                        .topology = std::move(topology),
                        .features = std::move(features),
                        .row_check = std::move(row_check)};
}

}  // namespace hearth::strategy
