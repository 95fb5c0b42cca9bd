#ifndef HEARTH_ENGINE_INGEST_IMPORT_IMPORT_OPTIONS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_IMPORT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "engine/ingest/import/edge_transforms.h"
#include "engine/ingest/import/non_finite.h"
#include "engine/store/label_kind.h"

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
  /// Gives nodes of types without features the means of their neighbors'.
  bool fill_features = false;
  /// The kind of the labels, where there are any; nullopt = as the format says,
  /// or told from their shape.
  std::optional<store::LabelKind> label_kind = std::nullopt;
  /// Changes to the edges.
  EdgeTransforms edges = {};
  /// Upper bound for the import's own buffers; at least 1 MiB. More makes
  /// sorting the edges of a graph that does not fit quicker.
  uint64_t memory_limit_bytes = 1 << 30;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_IMPORT_OPTIONS_H_
