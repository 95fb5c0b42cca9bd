#ifndef HEARTH_ENGINE_INGEST_IMPORT_IMPORT_GRAPH_H_
#define HEARTH_ENGINE_INGEST_IMPORT_IMPORT_GRAPH_H_

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/ingest/import/edge_transforms.h"
#include "engine/ingest/import/non_finite.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"
#include "engine/store/label_kind.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// Options of making a dataset of a graph, whatever its format.
struct ImportOptions {
  /// The path of the graph: for messages, and to keep away from.
  std::string source;
  /// The dataset's name, in the manifest.
  std::string name;
  /// The dataset's folder: must not exist; appears whole or not at all.
  std::string destination;
  /// Registers features where they lie instead of copying them.
  bool in_place = false;
  /// Treatment of feature values that are NaN or infinite. Features that are
  /// used in place cannot become 0.
  NonFinite non_finite = NonFinite::kRefuse;
  /// Takes uint16 features as bfloat16, for which numpy has no type.
  bool bfloat16_features = false;
  /// The kind of the labels, where there are any; nullopt = as the format says,
  /// or told from their shape.
  std::optional<store::LabelKind> label_kind = std::nullopt;
  /// Changes to edges between nodes of one type.
  EdgeTransforms edges = {};
  /// Upper bound for the import's own buffers; at least 1 MiB. More makes
  /// sorting the edges of a graph that does not fit quicker.
  uint64_t memory_limit_bytes = 1 << 30;
};

/// The outcome of an import.
struct ImportResult {
  store::Manifest manifest;
  uint64_t bytes_written = 0;
};

/// Finds the graph in its source. May write to the context's scratch folder
/// what cannot be read twice, such as text; its own errors come through.
using OpenSource =
    absl::FunctionRef<absl::StatusOr<SourceGraph>(ImportContext& context)>;

/// Makes a dataset of a graph. Every value is checked; INVALID_ARGUMENT (or
/// DATA_LOSS for truncated files) names the file, the first offending position
/// and what is wrong. Writes into `destination`.tmp, synced, then renamed:
/// after any error, cancellation (CANCELLED) or kill nothing is at
/// `destination`. RESOURCE_EXHAUSTED, with the bytes needed, if disk or memory
/// limit do not suffice; ALREADY_EXISTS if something is at `destination`.
absl::StatusOr<ImportResult> ImportGraph(io::FileSystem& files,
                                         const ImportOptions& options,
                                         OpenSource open,
                                         const ImportProgress& progress,
                                         std::stop_token stop);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_IMPORT_GRAPH_H_
