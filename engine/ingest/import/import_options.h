#ifndef HEARTH_ENGINE_INGEST_IMPORT_IMPORT_OPTIONS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_IMPORT_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/store/labels.h"

namespace hearth::ingest {

/// Treatment of NaN and infinite feature values.
enum class NonFinite {
  /// The import fails, naming the first such value.
  kRefuse,
  kKeep,
  /// Such values become 0.
  kZero,
};

/// Treatment of edges from a node to itself.
enum class SelfLoops {
  kKeep,
  kRemove,
  /// Every node gets exactly one.
  kAdd,
};

/// Changes of an import to the edges. Duplicates and self loops are changed in
/// edge types that join a node type with itself; other edge types keep theirs.
struct EdgeTransforms {
  /// Adds the reverse of each edge: right after the edge, or, for an edge type
  /// that joins two node types, as an edge type of its own.
  bool add_reverse = false;
  /// Keeps one of several equal edges; the neighbors of each node become
  /// ascending.
  bool remove_duplicates = false;
  SelfLoops self_loops = SelfLoops::kKeep;

  /// Whether the neighbors of nodes change after they were sorted by
  /// destination.
  bool ChangesLists() const {
    return remove_duplicates || self_loops != SelfLoops::kKeep;
  }
  bool IsAny() const { return add_reverse || ChangesLists(); }
};

/// Resumption of an import that ended early.
struct ImportResumption {
  /// Identifies everything that determines the dataset except the source's
  /// files. Parts made by a run with another key are not used.
  std::string key = "";
  /// Least bytes of whole parts that are worth a record: it costs three syncs,
  /// about 10 ms, in which fewer bytes could be made again.
  uint64_t min_bytes = 64 << 20;
  /// Called once parts are durable from which another run can go on. Must be
  /// set.
  std::function<void()> on_durable = nullptr;
  /// Called with sentences that say which parts of an earlier run are kept and
  /// which are not. Must be set.
  std::function<void(const std::string& text)> on_log = nullptr;
};

/// Options of making a dataset of a graph, independent of the graph's format.
struct ImportOptions {
  /// Path of the graph, for messages; nothing is written there.
  std::string source;
  /// Name of the dataset, for the manifest.
  std::string name;
  /// Folder of the dataset: must not exist; appears whole or not at all.
  std::string destination;
  /// Registers features in their own files instead of copying them.
  bool in_place = false;
  /// Treatment of NaN and infinite feature values. kZero is not possible with
  /// features in place.
  NonFinite non_finite = NonFinite::kRefuse;
  /// Reads uint16 features as bfloat16, for which numpy has no type.
  bool bfloat16_features = false;
  /// Gives nodes of types without features the means of their neighbors'
  /// features.
  bool fill_features = false;
  /// Kind of the labels, if there are any; nullopt = as the format says, or
  /// told from their shape.
  std::optional<store::LabelKind> label_kind = std::nullopt;
  /// Changes to the edges.
  EdgeTransforms edges = {};
  /// Upper bound of the import's own buffers; at least 1 MiB. A higher limit
  /// speeds up sorting edges that do not fit it.
  uint64_t memory_limit_bytes = 1 << 30;
  /// Folder of the dataset while it is unfinished, on the file system of the
  /// destination; empty = `destination`.tmp.
  std::string unfinished = "";
  /// nullopt = an import that ends early leaves nothing. Otherwise it leaves
  /// its recorded parts in `unfinished` for the next run; if no run is to
  /// follow, the caller removes that folder.
  std::optional<ImportResumption> resumption = std::nullopt;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_IMPORT_OPTIONS_H_
