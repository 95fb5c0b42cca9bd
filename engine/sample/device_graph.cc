#include "engine/sample/device_graph.h"

#include <algorithm>
#include <iterator>
#include <variant>

#include "engine/base/random.h"
#include "engine/base/round_up.h"

namespace hearth::sample {
namespace {

using store::NodeId;
using store::Relation;

// Tables begin at multiples of it.
constexpr uint64_t kAlignment = 256;

// Layers that have tables.
size_t NumLayers(size_t num_fanouts) {
  return std::max<size_t>(num_fanouts, 1);
}

// Where the tables of a graph lie.
struct Places {
  Places(const DeviceGraphSize& size, size_t num_layers) {
    const auto layers = static_cast<int64_t>(NumLayers(num_layers));
    bytes = RoundUp(static_cast<uint64_t>(layers * size.num_relations) *
                        sizeof(HearthCudaRelation),
                    kAlignment);
    firsts = bytes;
    bytes += RoundUp(static_cast<uint64_t>(size.num_types + 1) * sizeof(NodeId),
                     kAlignment);
    lists = bytes;
    bytes += RoundUp(static_cast<uint64_t>(size.num_types) *
                         static_cast<uint64_t>(size.lists_per_node) *
                         sizeof(int32_t),
                     kAlignment);
  }

  uint64_t firsts = 0;
  uint64_t lists = 0;
  uint64_t bytes = 0;
};

DeviceGraphSize SizeOf(absl::Span<const Relation> relations,
                       const store::NodeSpace& nodes,
                       const std::vector<std::vector<size_t>>& into) {
  DeviceGraphSize size = {.num_nodes = nodes.num_nodes(),
                          .num_types = static_cast<int64_t>(nodes.num_types()),
                          .num_relations = std::ssize(relations)};
  for (const std::vector<size_t>& lists : into) {
    size.lists_per_node = std::max(size.lists_per_node, std::ssize(lists));
  }
  return size;
}

// Without the prefix, which the batch decides.
HearthCudaRelation ToCuda(const Relation& relation, int32_t fanout) {
  const store::Topology& topology = relation.topology;
  HearthCudaRelation cuda = {};
  cuda.indptr = topology.indptr.data();
  std::visit(
      [&](const auto indices) {
        cuda.indices = indices.data();
        cuda.num_edges = static_cast<int64_t>(indices.size());
        cuda.index_bytes = sizeof(indices[0]);
      },
      topology.indices);
  cuda.first_destination = relation.first_destination;
  cuda.first_source = relation.first_source;
  cuda.num_sources = relation.num_sources;
  cuda.fanout = fanout;
  return cuda;
}

}  // namespace

DeviceGraph::DeviceGraph(absl::Span<const Relation> relations,
                         const store::NodeSpace& nodes,
                         const NeighborSamplerOptions& options)
    : relations_(relations),
      nodes_(nodes),
      options_(options),
      into_(store::RelationsInto(relations, nodes)),
      size_(SizeOf(relations, nodes, into_)) {
  const Places places(size_, options_.fanouts.size());
  tables_.resize(places.bytes);
  auto* table = reinterpret_cast<HearthCudaRelation*>(tables_.data());
  // Without layers, nodes are looked up all the same.
  const bool draws = !options_.fanouts.empty();
  for (size_t layer = 0; layer < NumLayers(options_.fanouts.size()); ++layer) {
    for (size_t type = 0; type < relations_.size(); ++type) {
      *table++ =
          ToCuda(relations_[type], draws ? options_.Fanout(layer, type) : 0);
    }
  }
  auto* const firsts =
      reinterpret_cast<NodeId*>(tables_.data() + places.firsts);
  for (size_t type = 0; type <= nodes_.num_types(); ++type) {
    firsts[type] = nodes_.First(type);
  }
  auto* list = reinterpret_cast<int32_t*>(tables_.data() + places.lists);
  for (const std::vector<size_t>& lists : into_) {
    for (size_t i = 0; i < static_cast<size_t>(size_.lists_per_node); ++i) {
      *list++ = i < lists.size() ? static_cast<int32_t>(lists[i]) : -1;
    }
  }
}

uint64_t DeviceGraph::Bytes(const DeviceGraphSize& size, size_t num_layers) {
  return Places(size, num_layers).bytes;
}

absl::Span<const std::byte> DeviceGraph::TablesFor(const BatchKey& key) {
  auto* const tables = reinterpret_cast<HearthCudaRelation*>(tables_.data());
  const size_t num_layers = NumLayers(options_.fanouts.size());
  for (size_t type = 0; type < relations_.size(); ++type) {
    // As LayeredSampler::DrawSubset.
    const RandomPrefix prefix(options_.data_seed,
                              RandomPurpose::kNeighborSampling, key.epoch_key,
                              static_cast<uint64_t>(type) << 40 | key.batch);
    for (size_t layer = 0; layer < num_layers; ++layer) {
      tables[layer * relations_.size() + type].prefix = prefix.mixed;
    }
  }
  return tables_;
}

HearthCudaGraph DeviceGraph::At(const std::byte* tables, size_t layer) const {
  const Places places(size_, options_.fanouts.size());
  return {
      .relations = reinterpret_cast<const HearthCudaRelation*>(tables) +
                   static_cast<int64_t>(layer) * size_.num_relations,
      .type_firsts = reinterpret_cast<const int64_t*>(tables + places.firsts),
      .lists = reinterpret_cast<const int32_t*>(tables + places.lists),
      .num_nodes = size_.num_nodes,
      .num_relations = static_cast<int32_t>(size_.num_relations),
      .num_types = static_cast<int32_t>(size_.num_types),
      .lists_per_node = static_cast<int32_t>(size_.lists_per_node)};
}

const Relation& DeviceGraph::RelationOf(NodeId node, size_t list) const {
  return relations_[into_[nodes_.TypeOf(node)][list]];
}

}  // namespace hearth::sample
