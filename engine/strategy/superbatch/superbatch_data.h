#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_DATA_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_DATA_H_

#include <memory>
#include <stop_token>

#include "absl/status/statusor.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/row_reader.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/row_format.h"
#include "engine/store/stored_topology.h"

namespace hearth::strategy {

/// The parts of a dataset that are open while superbatches are sampled and
/// executed: labels and indptr in memory, indices and features as files to be
/// read. Movable; thread-safe once opened.
struct SuperbatchData {
  /// FAILED_PRECONDITION for a dataset that lacks features or labels, or has
  /// changed since the import; CANCELLED after a stop.
  static absl::StatusOr<SuperbatchData> Open(
      const store::Dataset& dataset,
      std::shared_ptr<const io::RowCheck> row_check = nullptr,
      const std::stop_token& stop = {});

  store::RowFormat row_format() const {
    return {.dim = features.dim, .dtype = features.dtype};
  }

  store::Labels labels;
  store::StoredTopology topology;
  store::StoredFeatures features;
  /// Null: rows are not checked.
  std::shared_ptr<const io::RowCheck> row_check;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_DATA_H_
