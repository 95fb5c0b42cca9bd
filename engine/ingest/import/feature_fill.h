#ifndef HEARTH_ENGINE_INGEST_IMPORT_FEATURE_FILL_H_
#define HEARTH_ENGINE_INGEST_IMPORT_FEATURE_FILL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "engine/store/manifest.h"

/// Features for types of nodes that have none: the means of their neighbors'.
/// MAG240M's baselines make those of authors and institutions so (Hu et al.,
/// "OGB-LSC", 2021).

namespace hearth::ingest {

/// How a type of nodes gets its features.
struct FeatureFill {
  /// The type, by its place among the graph's.
  size_t node_type = 0;
  /// Type and number of columns of the features of the neighbors.
  store::DType dtype = store::DType::kFloat32;
  int64_t num_columns = 0;
  /// Edge types that join the nodes with those whose features are averaged, in
  /// either direction.
  std::vector<size_t> edge_types;
  /// The others whose far end has features, of another type or width.
  std::vector<size_t> left_out;
};

/// The fills, in order: types that edges join with a type that has features,
/// then those that edges join with types filled before, and so on. Where the
/// types that a type is joined with have features of different types or widths,
/// those that most edges lead to are averaged. Types that nothing reaches are
/// not filled.
/// INVALID_ARGUMENT naming `source` if no type has features. REQUIRES:
/// CheckHeaders.
absl::StatusOr<std::vector<FeatureFill>> PlanFeatureFills(
    const SourceGraph& graph, const std::string& source);

/// Upper bound for the bytes that filling writes, scratch included.
uint64_t BytesToFill(const SourceGraph& graph,
                     const std::vector<FeatureFill>& fills);

/// Writes the features of a type: of each node the mean of its neighbors'
/// features, once for each edge, or 0 without neighbors. `manifest` has the
/// graph's types, in their order, with topology and what was filled before, in
/// `place`'s folder. RESOURCE_EXHAUSTED if a row does not fit the memory limit;
/// DATA_LOSS if the files are no longer as they were written.
absl::StatusOr<store::FinishedArray> WriteFill(ImportContext& context,
                                               const store::Manifest& manifest,
                                               const FeatureFill& fill,
                                               const RowObserver& observer,
                                               const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_FEATURE_FILL_H_
