#include "engine/sample/stored_sampler.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/sample/layered_sampler.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"

// Which neighbors of a node are drawn depends on its degree alone. Steps of
// sampling a layer:
//
//  1. All edges are drawn. Sources from lists in memory are known at once;
//     other edges give indices to read.
//  2. These indices are read, together and in any order.
//  3. The sources are numbered in the order of the edges.

namespace hearth::sample {

namespace {

using store::NodeId;

// Prefetch distance, in nodes and in sources of edges.
constexpr int64_t kAhead = 16;

/// A list from which neighbors are drawn.
struct DrawnList {
  NodeId node = 0;
  /// Index of its first neighbor among all neighbors of the node.
  int64_t first_neighbor = 0;
  /// Index of its first edge among the edges of all types.
  int64_t first_edge = 0;
};

/// Finds the sources of a layer's edges, in memory and on disk: steps 1 and 2.
class SourceFinder {
 public:
  explicit SourceFinder(const StoredNeighbors& neighbors)
      : neighbors_(neighbors) {}

  /// Begins a layer that draws `num_edges` edges.
  void Begin(int64_t num_edges) {
    sources_.clear();
    sources_.reserve(static_cast<size_t>(num_edges));
    wanted_.clear();
    wanted_edges_.clear();
  }

  /// Prefetches what Add(node) touches first.
  void Prefetch(NodeId node) const {
    neighbors_.cache.Prefetch(node);
    for (const auto& lists : neighbors_.batch_lists) lists->Prefetch(node);
  }

  /// Adds an edge for each neighbor i of the list for which `draw` calls
  /// `pick(i)`.
  template <typename Draw>
  void Add(const DrawnList& list, Draw draw) {
    const int64_t place = neighbors_.cache.Find(list.node);
    if (place != NeighborCache::kAbsent) {
      ++neighbors_.lists.cached;
      draw([&](int64_t i) {
        sources_.push_back(
            neighbors_.cache.At(place + list.first_neighbor + i));
      });
      return;
    }
    for (const auto& lists : neighbors_.batch_lists) {
      const std::optional<NeighborList> held = lists->Find(list.node);
      if (!held.has_value()) continue;
      ++neighbors_.lists.held;
      draw([&](int64_t i) {
        sources_.push_back((*held)[list.first_neighbor + i]);
      });
      return;
    }
    ++neighbors_.lists.stored;
    draw([&](int64_t i) {
      wanted_.push_back(list.first_edge + i);
      wanted_edges_.push_back(sources_.size());
      sources_.push_back(0);
    });
  }

  /// Reads the sources that are not in memory.
  absl::Status Read() {
    // Position of a source that is no node.
    std::optional<size_t> bad;
    const auto arrived = [&](size_t position, const std::byte* index) {
      const store::Relation& relation =
          neighbors_.topology.relations[RelationOf(wanted_[position])];
      const int64_t source = Decode(index);
      if (source < 0 || source >= relation.num_sources) {
        bad = position;
        return;
      }
      sources_[wanted_edges_[position]] = relation.first_source + source;
    };
    if (wanted_.empty()) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(neighbors_.reader.Read(
        wanted_, arrived, neighbors_.stop, neighbors_.tally));
    if (!bad.has_value()) return absl::OkStatus();
    const size_t relation = RelationOf(wanted_[*bad]);
    const store::IndicesFile& file = neighbors_.topology.files[relation];
    return absl::DataLossError(absl::StrCat(
        file.path, ": the neighbor at byte ",
        file.offset + static_cast<uint64_t>(wanted_[*bad] - file.first_edge) *
                          static_cast<uint64_t>(file.index_bytes),
        " is not one of ", neighbors_.topology.relations[relation].num_sources,
        " nodes"));
  }

  /// Source of each edge.
  absl::Span<const NodeId> sources() const { return sources_; }

 private:
  // Relation of an edge.
  size_t RelationOf(int64_t edge) const {
    const std::vector<store::IndicesFile>& files = neighbors_.topology.files;
    // A relation without edges begins where the next one does.
    const auto after =
        std::upper_bound(files.begin() + 1, files.end(), edge,
                         [](int64_t edge, const store::IndicesFile& file) {
                           return edge < file.first_edge;
                         });
    return static_cast<size_t>(after - files.begin()) - 1;
  }

  int64_t Decode(const std::byte* index) const {
    if (neighbors_.topology.layout.row_bytes == sizeof(int32_t)) {
      int32_t narrow;
      std::memcpy(&narrow, index, sizeof(narrow));
      return narrow;
    }
    int64_t wide;
    std::memcpy(&wide, index, sizeof(wide));
    return wide;
  }

  const StoredNeighbors neighbors_;
  std::vector<NodeId> sources_;
  // Edges whose sources must be read, and their numbers in the layer.
  std::vector<int64_t> wanted_;
  std::vector<size_t> wanted_edges_;
};

class StoredNeighborSampler final : public LayeredSampler {
 public:
  StoredNeighborSampler(const StoredNeighbors& neighbors,
                        NeighborSamplerOptions options)
      : LayeredSampler(neighbors.topology.relations.front().topology.indptr,
                       std::move(options)),
        finder_(neighbors) {}

 private:
  absl::Status SampleSources(size_t layer, int64_t first_row, MiniBatch& batch,
                             Block& block) override {
    finder_.Begin(block.indptr.back() - block.indptr[first_row]);
    for (int64_t row = first_row; row < block.num_destinations; ++row) {
      if (row + kAhead < block.num_destinations) {
        finder_.Prefetch(batch.input_nodes[row + kAhead]);
      }
      // A node without neighbors needs no look-up.
      if (block.indptr[row] == block.indptr[row + 1]) continue;
      finder_.Add({.node = batch.input_nodes[row], .first_edge = RowStart(row)},
                  [&](auto pick) { DrawNeighbors(layer, batch, row, pick); });
    }
    HEARTH_RETURN_IF_ERROR(finder_.Read());
    const absl::Span<const NodeId> sources = finder_.sources();
    for (size_t edge = 0; edge < sources.size(); ++edge) {
      if (edge + kAhead < sources.size()) {
        PrefetchNumber(sources[edge + kAhead]);
      }
      block.indices.push_back(Number(sources[edge], batch.input_nodes));
    }
    return absl::OkStatus();
  }

  SourceFinder finder_;
};

// Samples a heterograph.
class TypedStoredSampler final : public TypedLayeredSampler {
 public:
  TypedStoredSampler(const StoredNeighbors& neighbors,
                     NeighborSamplerOptions options)
      : TypedLayeredSampler(neighbors.topology.relations,
                            neighbors.topology.nodes, std::move(options)),
        files_(neighbors.topology.files),
        finder_(neighbors) {}

 private:
  absl::Status SampleSources(size_t layer, int64_t first_row, MiniBatch& batch,
                             Block& block) override {
    const size_t kept = block.edge_types.size();
    finder_.Begin(block.indptr.back() - block.indptr[first_row]);
    for (int64_t row = first_row; row < block.num_destinations; ++row) {
      if (row + kAhead < block.num_destinations) {
        finder_.Prefetch(batch.input_nodes[row + kAhead]);
      }
      const NodeId node = batch.input_nodes[row];
      for (const List& list : ListsOf(static_cast<size_t>(row))) {
        if (Fanout(layer, list) == 0) continue;
        const store::TypeId type = list.relation->type;
        finder_.Add(
            {.node = node,
             .first_neighbor = list.before,
             .first_edge = files_[type].first_edge + list.start},
            [&](auto pick) { DrawFrom(list, layer, node, batch.key, pick); });
        block.edge_types.resize(kept + finder_.sources().size(), type);
      }
    }
    HEARTH_RETURN_IF_ERROR(finder_.Read());
    for (const NodeId source : finder_.sources()) {
      block.indices.push_back(Number(source, batch.input_nodes));
    }
    return absl::OkStatus();
  }

  const std::vector<store::IndicesFile>& files_;
  SourceFinder finder_;
};

}  // namespace

std::unique_ptr<NeighborSampler> NewStoredNeighborSampler(
    const StoredNeighbors& neighbors, NeighborSamplerOptions options) {
  if (neighbors.topology.is_typed()) {
    return std::make_unique<TypedStoredSampler>(neighbors, std::move(options));
  }
  return std::make_unique<StoredNeighborSampler>(neighbors, std::move(options));
}

}  // namespace hearth::sample
