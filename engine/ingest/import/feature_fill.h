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

/// Features for node types that have none: the means of the neighbors'
/// features. MAG240M's baselines make the features of authors and institutions
/// so (Hu et al., "OGB-LSC", 2021).

namespace hearth::ingest {

/// How a node type gets its features.
struct FeatureFill {
  /// Index of the node type among the graph's.
  size_t node_type = 0;
  /// Element type and number of columns of the neighbors' features.
  store::DType dtype = store::DType::kFloat32;
  int64_t num_columns = 0;
  /// Indices of the edge types, of either direction, whose other ends' features
  /// are averaged.
  std::vector<size_t> edge_types;
  /// Indices of the other edge types of these nodes whose other ends have
  /// features, but of another element type or width.
  std::vector<size_t> left_out;
};

/// Fills in the order in which they are to be written: node types that edges
/// join with a type that has features, then node types joined with those, and
/// so on. If the neighbors' types have features of different element types or
/// widths, those that most edges lead to are averaged. Node types that no
/// features reach have no fill. INVALID_ARGUMENT, naming `source`, if no type
/// has features. REQUIRES: CheckHeaders.
absl::StatusOr<std::vector<FeatureFill>> PlanFeatureFills(
    const SourceGraph& graph, const std::string& source);

/// Upper bound of the bytes that `fills` write, scratch files included.
uint64_t BytesToFill(const SourceGraph& graph,
                     const std::vector<FeatureFill>& fills);

/// Writes the features of a node type: for each node the mean of its neighbors'
/// features, where a neighbor counts once for each edge; 0 without neighbors.
/// `manifest` has the graph's types, in the graph's order, with topology and
/// earlier fills, all in `place`'s folder. RESOURCE_EXHAUSTED if a row does not
/// fit the memory limit; DATA_LOSS if files are no longer as written.
absl::StatusOr<store::FinishedArray> WriteFill(ImportContext& context,
                                               const store::Manifest& manifest,
                                               const FeatureFill& fill,
                                               const RowObserver& observer,
                                               const store::ArrayPlace& place);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_FEATURE_FILL_H_
