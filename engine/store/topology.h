#ifndef HEARTH_ENGINE_STORE_TOPOLOGY_H_
#define HEARTH_ENGINE_STORE_TOPOLOGY_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/types/span.h"

namespace hearth::store {

/// A node's number: 0 .. N-1 within its type or, in a graph with several types,
/// among the nodes of all types (NodeSpace).
using NodeId = int64_t;

/// Index of a node type or edge type in the manifest.
using TypeId = uint16_t;

/// The edges of one type in CSC: the in-neighbors of each destination node. A
/// view: its source owns the arrays. Thread-safe.
struct Topology {
  /// [num_nodes + 1] ascending from 0: node v's in-neighbors are
  /// indices[indptr[v]] .. indices[indptr[v + 1] - 1].
  absl::Span<const int64_t> indptr;
  /// [num_edges] Source nodes, of 4 bytes each where all fit.
  std::variant<absl::Span<const int32_t>, absl::Span<const int64_t>> indices;

  int64_t num_nodes() const { return static_cast<int64_t>(indptr.size()) - 1; }
  int64_t num_edges() const { return indptr.back(); }
  int64_t InDegree(NodeId node) const {
    return indptr[node + 1] - indptr[node];
  }
};

/// The edges of one type among the nodes of all types (NodeSpace). A view.
struct Relation {
  /// Topology in which destinations and sources are numbered from 0 within
  /// their types.
  Topology topology;
  TypeId type = 0;
  /// Name of the edge type, for messages only.
  std::string name = {};
  /// Numbers of the first destination and of the first source among all nodes.
  NodeId first_destination = 0;
  NodeId first_source = 0;
  /// Nodes of the source type.
  int64_t num_sources = 0;

  /// In-degree of `node`, numbered among all nodes. REQUIRES: `node` is a
  /// destination.
  int64_t InDegree(NodeId node) const {
    return topology.InDegree(node - first_destination);
  }
};

/// Place of an array's bytes while it is used.
enum class Residency {
  kMemory,               // Read whole into anonymous memory, 64-byte aligned.
  kMapped,               // Mapped from its file; the page cache decides.
  kMappedWithReadAhead,  // Mapped; the kernel reads pages ahead.
};

/// Places of a topology's arrays. The indptr (8 bytes a node) can be in memory,
/// so that no lookup waits for it, while the far larger indices are mapped.
struct TopologyResidency {
  /// Puts both arrays in the same place. Implicit, as the usual case.
  TopologyResidency(Residency both)  // NOLINT(google-explicit-constructor)
      : indptr(both), indices(both) {}
  TopologyResidency(Residency indptr, Residency indices)
      : indptr(indptr), indices(indices) {}

  Residency indptr;
  Residency indices;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_TOPOLOGY_H_
