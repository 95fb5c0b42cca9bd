#ifndef HEARTH_ENGINE_STORE_TESTING_LIST_GRAPH_H_
#define HEARTH_ENGINE_STORE_TESTING_LIST_GRAPH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/io/file_system.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"

/// Graphs of a topology alone, for tests and benchmarks.

namespace hearth::store {

/// A graph in memory: the in-neighbors of each node.
struct ListGraph {
  int64_t num_nodes() const { return static_cast<int64_t>(indptr.size()) - 1; }
  int64_t num_edges() const { return indptr.back(); }

  absl::Span<const NodeId> list(NodeId node) const {
    return absl::MakeConstSpan(neighbors).subspan(
        static_cast<size_t>(indptr[node]),
        static_cast<size_t>(indptr[node + 1] - indptr[node]));
  }

  /// Appends the list of the next node.
  void Append(absl::Span<const NodeId> list) {
    neighbors.insert(neighbors.end(), list.begin(), list.end());
    indptr.push_back(static_cast<int64_t>(neighbors.size()));
  }

  std::vector<int64_t> indptr = {0};
  std::vector<NodeId> neighbors;
};

/// A random graph of communities whose nodes are numbered in random order: each
/// neighbor is a node of the same community or, with a probability of `mixing`
/// percent, any node.
struct PlantedCommunities {
  int64_t nodes = 1000;
  int64_t communities = 10;
  int64_t degree = 10;
  int mixing = 20;
};
ListGraph MakePlantedGraph(const PlantedCommunities& options,
                           RandomStream& random);

/// Writes a dataset with this topology alone to `folder`, and opens it.
absl::StatusOr<std::unique_ptr<Dataset>> StoreGraph(io::FileSystem& files,
                                                    const std::string& folder,
                                                    const ListGraph& graph);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_TESTING_LIST_GRAPH_H_
