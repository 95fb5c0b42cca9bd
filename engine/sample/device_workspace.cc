#include "engine/sample/device_workspace.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/random.h"
#include "engine/base/status.h"

namespace hearth::sample {

namespace {

using store::NodeId;
using store::Relation;

// Tables and arrays begin at multiples of this.
constexpr uint64_t kAlignment = 256;

// Number of layers that have tables.
size_t NumLayers(size_t num_fanouts) {
  return std::max<size_t>(num_fanouts, 1);
}

// Offsets of a graph's tables.
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

// Converts a relation, without the random prefix, which depends on the batch.
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
  // Without layers, nodes are still looked up.
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
    // The same coordinates as in LayeredSampler::DrawSubset.
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

namespace {

using cuda::Memory;

// Upper bound of the slots of a table (HearthCudaNodeTable).
constexpr uint64_t kMostSlots = uint64_t{1} << 31;

// Places arrays one after another in one piece of memory.
class Layout {
 public:
  // With a null `memory`, only counts the bytes.
  explicit Layout(std::byte* memory) : memory_(memory) {}

  template <typename T>
  void Add(int64_t count, T*& array) {
    array =
        memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += RoundUp(static_cast<uint64_t>(count) * sizeof(T), kAlignment);
  }

  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* const memory_;
  uint64_t bytes_ = 0;
};

// At most two thirds of a table's slots are in use.
uint64_t SlotsFor(int64_t nodes) {
  const auto count = static_cast<uint64_t>(nodes);
  return std::bit_ceil(count + count / 2 + 2);
}

// Arrays for `capacity.nodes` nodes.
uint64_t LayOut(const DeviceCapacity& capacity, std::byte* memory,
                DeviceWorkspace::NodeArrays& arrays) {
  const int64_t lists = capacity.nodes * capacity.lists_per_node;
  Layout layout(memory);
  layout.Add(capacity.nodes, arrays.nodes);
  layout.Add(lists, arrays.starts);
  layout.Add(lists, arrays.degrees);
  layout.Add(lists + 1, arrays.indptr);
  layout.Add(HEARTH_CUDA_SCAN_SCRATCH(lists + 1), arrays.scratch);
  if (capacity.lists_per_node > 1) {
    layout.Add(capacity.nodes, arrays.in_degrees);
    layout.Add(capacity.nodes + 1, arrays.node_indptr);
  }
  arrays.table.slots = static_cast<int64_t>(SlotsFor(capacity.nodes));
  layout.Add(arrays.table.slots, arrays.table.nodes);
  layout.Add(arrays.table.slots, arrays.table.positions);
  return layout.bytes();
}

// Arrays for `capacity.edges` edges.
uint64_t LayOut(const DeviceCapacity& capacity, std::byte* memory,
                DeviceWorkspace::EdgeArrays& arrays) {
  Layout layout(memory);
  layout.Add(capacity.edges, arrays.sources);
  layout.Add(capacity.edges, arrays.indices);
  layout.Add(capacity.edges + 1 + HEARTH_CUDA_SCAN_SCRATCH(capacity.edges + 1),
             arrays.ranks);
  if (capacity.has_relations) layout.Add(capacity.edges, arrays.relations);
  return layout.bytes();
}

template <typename Arrays>
uint64_t BytesOf(const DeviceCapacity& capacity) {
  Arrays arrays;
  return LayOut(capacity, nullptr, arrays);
}

}  // namespace

uint64_t DeviceCapacity::DeviceBytes() const {
  return BytesOf<DeviceWorkspace::NodeArrays>(*this) +
         BytesOf<DeviceWorkspace::EdgeArrays>(*this) +
         RoundUp(graph_bytes, kAlignment) + kAlignment;
}

absl::StatusOr<std::unique_ptr<DeviceWorkspace>> DeviceWorkspace::Create(
    const cuda::Device& device, const DeviceCapacity& graph) {
  std::unique_ptr<DeviceWorkspace> made(new DeviceWorkspace(device, graph));
  HEARTH_ASSIGN_OR_RETURN(made->damage_,
                          Memory::Allocate(device, Memory::Kind::kDevice,
                                           sizeof(HearthCudaDamage)));
  HEARTH_ASSIGN_OR_RETURN(
      made->answer_,
      Memory::Allocate(device, Memory::Kind::kPinned, kPinnedBytes));
  HEARTH_ASSIGN_OR_RETURN(made->stream_, cuda::Stream::Create(device));
  return made;
}

absl::StatusOr<bool> DeviceWorkspace::ReserveNodes(int64_t nodes,
                                                   int64_t kept) {
  if (nodes <= capacity_.nodes && nodes_.nodes != nullptr) return false;
  if (SlotsFor(nodes) > kMostSlots) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a batch that may have ", nodes, " nodes is too large for a GPU"));
  }
  if (kept == 0) {
    // Old and new memory at once would exceed the estimate.
    HEARTH_RETURN_IF_ERROR(stream_->Wait());
    node_memory_ = Memory();
  }
  DeviceCapacity capacity = capacity_;
  capacity.nodes = nodes;
  HEARTH_ASSIGN_OR_RETURN(Memory memory,
                          Memory::Allocate(device_, Memory::Kind::kDevice,
                                           BytesOf<NodeArrays>(capacity)));
  NodeArrays arrays;
  LayOut(capacity, memory.data(), arrays);
  if (kept > 0) HEARTH_RETURN_IF_ERROR(KeepNodes(arrays, kept));
  node_memory_ = std::move(memory);
  nodes_ = arrays;
  capacity_ = capacity;
  return true;
}

absl::Status DeviceWorkspace::KeepNodes(const NodeArrays& to, int64_t count) {
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(int64_t);
  const uint64_t list_bytes =
      bytes * static_cast<uint64_t>(capacity_.lists_per_node);
  HEARTH_RETURN_IF_ERROR(stream_->Copy(to.nodes, nodes_.nodes, bytes));
  HEARTH_RETURN_IF_ERROR(stream_->Copy(to.starts, nodes_.starts, list_bytes));
  HEARTH_RETURN_IF_ERROR(stream_->Copy(to.degrees, nodes_.degrees, list_bytes));
  HEARTH_RETURN_IF_ERROR(
      stream_->Copy(to.indptr, nodes_.indptr, list_bytes + sizeof(int64_t)));
  if (to.in_degrees != nullptr) {
    HEARTH_RETURN_IF_ERROR(
        stream_->Copy(to.in_degrees, nodes_.in_degrees, bytes));
    HEARTH_RETURN_IF_ERROR(stream_->Copy(to.node_indptr, nodes_.node_indptr,
                                         bytes + sizeof(int64_t)));
  }
  // Old memory is freed after this.
  return stream_->Wait();
}

absl::Status DeviceWorkspace::ReserveEdges(int64_t edges) {
  if (edges <= capacity_.edges && edges_.ranks != nullptr) {
    return absl::OkStatus();
  }
  HEARTH_RETURN_IF_ERROR(stream_->Wait());
  edge_memory_ = Memory();
  DeviceCapacity capacity = capacity_;
  capacity.edges = edges;
  HEARTH_ASSIGN_OR_RETURN(edge_memory_,
                          Memory::Allocate(device_, Memory::Kind::kDevice,
                                           BytesOf<EdgeArrays>(capacity)));
  LayOut(capacity, edge_memory_.data(), edges_);
  capacity_ = capacity;
  return absl::OkStatus();
}

absl::Status DeviceWorkspace::ReserveGraph(uint64_t bytes) {
  if (bytes <= graph_.size()) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(stream_->Wait());
  graph_ = Memory();
  HEARTH_ASSIGN_OR_RETURN(
      graph_, Memory::Allocate(device_, Memory::Kind::kDevice, bytes));
  return absl::OkStatus();
}

}  // namespace hearth::sample
