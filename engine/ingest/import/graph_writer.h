#ifndef HEARTH_ENGINE_INGEST_IMPORT_GRAPH_WRITER_H_
#define HEARTH_ENGINE_INGEST_IMPORT_GRAPH_WRITER_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/import/csc_arrays.h"
#include "engine/ingest/import/feature_fill.h"
#include "engine/ingest/import/file_prefixes.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/import/reverse_types.h"
#include "engine/ingest/inspect/labeled_feature_scan.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/store/array_writer.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// What an import adds to a graph.
struct GraphAdditions {
  std::vector<ReverseType> reverse_types;
  std::vector<FeatureFill> fills;
};

/// Writes the arrays of a graph and collects their entries: labels, split and
/// ids, then topology, then features. Single-owner.
class GraphWriter {
 public:
  /// Writes to `folder`, which is there. References must outlive this.
  GraphWriter(ImportContext& context, const ImportOptions& options,
              std::string folder)
      : context_(context), options_(options), folder_(std::move(folder)) {}

  /// The manifest's types and transforms. To be called once. REQUIRES:
  /// CheckHeaders and PrepareEdges of the graph; additions are of it.
  absl::StatusOr<store::Manifest> Write(SourceGraph graph,
                                        const GraphAdditions& additions);

  /// Digests of the checksum files, in the order of writing.
  const std::vector<std::string>& checksums() const { return checksums_; }

  /// The scan of each node type's features; null without any.
  const std::vector<std::unique_ptr<LabeledFeatureScan>>& feature_scans()
      const {
    return feature_scans_;
  }

 private:
  store::ArrayPlace NewPlace(const std::string& type);
  absl::Status WriteNodes(SourceNodes& nodes);
  absl::Status WriteLabels(SourceNodes& nodes, store::NodeTypeEntry& entry);
  absl::Status WriteSplit(SourceNodes& nodes, store::NodeTypeEntry& entry);
  absl::Status WriteIds(SourceNodes& nodes, store::NodeTypeEntry& entry);
  absl::Status WriteTopology(SourceEdges& edges, const EdgeEnds& ends);
  absl::Status WriteReverse(const ReverseType& type, const EdgeEnds& ends);
  void AddTopology(store::EdgeTypeEntry entry, CscArrays arrays);
  absl::Status WriteFeatures(SourceNodes& nodes, store::NodeTypeEntry& entry);
  absl::Status FillFeatures(const FeatureFill& fill);

  /// The array's entry; its checksums go into the fingerprint.
  store::ArrayFile Take(store::FinishedArray array);
  void Record(std::string transform);

  ImportContext& context_;
  const ImportOptions& options_;
  const std::string folder_;
  FilePrefixes prefixes_;
  store::ArrayPlace place_;
  /// The place of each node type.
  std::vector<store::ArrayPlace> places_;
  std::vector<std::string> checksums_;
  std::vector<std::unique_ptr<LabeledFeatureScan>> feature_scans_;
  store::Manifest manifest_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_GRAPH_WRITER_H_
