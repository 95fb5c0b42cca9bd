#ifndef HEARTH_ENGINE_INGEST_IMPORT_GRAPH_WRITER_H_
#define HEARTH_ENGINE_INGEST_IMPORT_GRAPH_WRITER_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/import/edge_import.h"
#include "engine/ingest/import/feature_fill.h"
#include "engine/ingest/import/import_options.h"
#include "engine/ingest/import/resumption.h"
#include "engine/ingest/inspect/feature_scan.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/store/array_writer.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// Edge types and tables that an import adds to a graph.
struct GraphAdditions {
  std::vector<ReverseType> reverse_types;
  std::vector<FeatureFill> fills;
};

/// Writes the arrays of a graph and collects their entries: labels, split and
/// ids, then topology, then features. Each of these, for one type, is a part;
/// parts kept from an earlier run are not written again. Single-owner.
class GraphWriter {
 public:
  /// Writes to `folder`, which exists. References must outlive this.
  GraphWriter(ImportContext& context, const ImportOptions& options,
              std::string folder, KeptParts& parts)
      : context_(context),
        options_(options),
        folder_(std::move(folder)),
        parts_(parts) {}

  /// Returns the manifest's types and transforms. To be called once. REQUIRES:
  /// CheckHeaders and PrepareEdges of `graph`, whose additions are given.
  absl::StatusOr<store::Manifest> Write(SourceGraph graph,
                                        const GraphAdditions& additions);

  /// Digests of the checksum files, in the order of writing.
  const std::vector<std::string>& checksums() const { return checksums_; }

  /// Statistics of each node type's features; nullopt for types without
  /// features.
  const std::vector<std::optional<ScannedFeatures>>& scanned_features() const {
    return scanned_features_;
  }

 private:
  store::ArrayPlace NewPlace(const std::string& type);
  absl::Status WriteNodes(SourceNodes& nodes);
  absl::Status MakeLabels(SourceNodes& nodes, ImportPart& part);
  absl::Status MakeSplit(SourceNodes& nodes, ImportPart& part);
  absl::Status MakeIds(SourceNodes& nodes, ImportPart& part);
  absl::Status WriteTopology(SourceEdges& edges, const EdgeEnds& ends);
  absl::Status WriteReverse(const ReverseType& type, const EdgeEnds& ends);
  /// Writes the topology of the edge type in `entry`.
  absl::Status AddTopology(
      store::EdgeTypeEntry entry,
      absl::FunctionRef<absl::Status(ImportPart& part)> make);
  absl::Status MakeFeatures(SourceNodes& nodes,
                            const store::NodeTypeEntry& entry,
                            ImportPart& part);
  absl::Status FillFeatures(const FeatureFill& fill,
                            const store::NodeTypeEntry& entry,
                            ImportPart& part);
  /// Writes the features of a node type to its place.
  absl::Status AddFeatures(
      size_t node_type, absl::FunctionRef<absl::Status(ImportPart& part)> make);

  /// Returns the part called `name`, either kept or made by `make`. Its
  /// checksums go into the fingerprint, its transforms into the manifest.
  absl::StatusOr<ImportPart> FindOrMake(
      std::string name, absl::FunctionRef<absl::Status(ImportPart& part)> make);

  ImportContext& context_;
  const ImportOptions& options_;
  const std::string folder_;
  KeptParts& parts_;
  FilePrefixes prefixes_;
  store::ArrayPlace place_;
  /// Place of the files of each node type.
  std::vector<store::ArrayPlace> places_;
  std::vector<std::string> checksums_;
  std::vector<std::optional<ScannedFeatures>> scanned_features_;
  store::Manifest manifest_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_GRAPH_WRITER_H_
