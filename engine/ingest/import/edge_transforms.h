#ifndef HEARTH_ENGINE_INGEST_IMPORT_EDGE_TRANSFORMS_H_
#define HEARTH_ENGINE_INGEST_IMPORT_EDGE_TRANSFORMS_H_

namespace hearth::ingest {

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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_EDGE_TRANSFORMS_H_
