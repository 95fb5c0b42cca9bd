#ifndef HEARTH_ENGINE_INGEST_IMPORT_IMPORT_OPTIONS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_IMPORT_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/store/labels.h"

namespace hearth::ingest {

/// Treatment by an import of feature values that are NaN or infinite.
enum class NonFinite {
  /// It fails, naming the first.
  kRefuse,
  kKeep,
  /// They become 0.
  kZero,
};

/// Treatment of edges from a node to itself.
enum class SelfLoops {
  kKeep,
  kRemove,
  /// Every node has exactly one.
  kAdd,
};

/// Changes of an import to the edges. Duplicates and self loops are those of
/// edges that join nodes of one type; edges between two types keep theirs.
struct EdgeTransforms {
  /// Adds the reverse of each edge: right after it, or as edges of another type
  /// if it joins nodes of two types.
  bool add_reverse = false;
  /// Keeps one of equal edges; the neighbors of each node are then ascending.
  bool remove_duplicates = false;
  SelfLoops self_loops = SelfLoops::kKeep;

  /// Whether lists of neighbors change once they are sorted by destination.
  bool ChangesLists() const {
    return remove_duplicates || self_loops != SelfLoops::kKeep;
  }
  bool IsAny() const { return add_reverse || ChangesLists(); }
};

/// How an import goes on where an earlier run of it ended early.
struct ImportResumption {
  /// Names all that decides about the dataset besides the source's files. Parts
  /// that a run with another key has made are not used.
  std::string key = "";
  /// Bytes of whole parts for which a record of them is worth its cost: three
  /// syncs, about 10 ms. Fewer are made anew about as soon.
  uint64_t min_bytes = 64 << 20;
  /// Called when parts are durable from which another run goes on. Must be set.
  std::function<void()> on_durable = nullptr;
  /// Told which parts of an earlier run are kept and which are not, in
  /// sentences. Must be set.
  std::function<void(const std::string& text)> on_log = nullptr;
};

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
  /// The folder of the dataset while it is unfinished, on the file system of
  /// the destination; empty = `destination`.tmp.
  std::string unfinished = "";
  /// nullopt = an import that ends early leaves nothing. Otherwise it leaves in
  /// `unfinished` the parts that it has recorded, for the next run; once no run
  /// is to follow, the caller removes the folder.
  std::optional<ImportResumption> resumption = std::nullopt;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_IMPORT_OPTIONS_H_
