// A batch is sampled in these steps. What the device does is queued in its
// order; the host waits twice a layer, as it has to know how large what follows
// is.
//
//  1. The first nodes go to the device, into its table, and are looked up in
//     the topology: where the edges of their lists start and how many they are.
//     Before them go the tables by which kernels find lists (device_graph.h).
//  2. The edges that a layer's destinations keep are counted. The host waits
//     for their number, and makes capacity.
//  3. Edges are drawn and their sources numbered (kernels/cuda/sample.cu). The
//     host takes the block over, and waits for the number of new nodes.
//  4. These are looked up; so on with 2, for the next layer.
//  5. The host takes over all nodes, and their in-degrees.
//
// Damage that a kernel notices, it writes down, and the host looks for it
// whenever it waits. Where anything fails, the workspace is given up, whose
// stream waits until nothing refers to the batch any more.

#include "engine/sample/device_sampler.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/sample/history.h"
#include "engine/sample/layered_sampler.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::sample {
namespace {

using store::NodeId;

constexpr unsigned long long kNoDamage = ~0ull;

// Nodes that may be met by the end of a layer.
int64_t MostNodes(int64_t destinations, int64_t edges, int64_t num_nodes) {
  return destinations + std::min(edges, num_nodes - destinations);
}

DeviceCapacity CapacityFor(const BatchShape& largest,
                           const DeviceGraphSize& graph) {
  DeviceCapacity capacity = {
      .lists_per_node = graph.lists_per_node,
      .has_relations = graph.num_relations > 1,
      .graph_bytes = DeviceGraph::Bytes(graph, largest.edges.size())};
  for (size_t layer = 0; layer < largest.edges.size(); ++layer) {
    const int64_t destinations =
        std::min(largest.nodes[layer + 1], graph.num_nodes);
    capacity.edges = std::max(capacity.edges, largest.edges[layer]);
    capacity.nodes = std::max(
        capacity.nodes,
        MostNodes(destinations, largest.edges[layer], graph.num_nodes));
  }
  return capacity;
}

template <typename T>
uint64_t BytesOf(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

}  // namespace

/// A sampler on a GPU. Single-owner.
class DeviceSampler final : public NeighborSampler {
 public:
  DeviceSampler(DeviceTopology& topology, NeighborSamplerOptions options,
                const BatchShape& largest)
      : topology_(topology),
        options_(std::move(options)),
        graph_(topology.relations_, topology.nodes_, options_),
        capacity_(CapacityFor(largest, graph_.size())) {}

  ~DeviceSampler() override {
    if (workspace_ != nullptr) topology_.ReturnWorkspace(std::move(workspace_));
  }

  absl::StatusOr<MiniBatch> Sample(const BatchKey& key,
                                   absl::Span<const NodeId> seeds) override {
    MiniBatch batch = {.key = key, .num_seeds = std::ssize(seeds)};
    HEARTH_RETURN_IF_ERROR(OrGiveUp([&]() -> absl::Status {
      HEARTH_RETURN_IF_ERROR(Start(key, seeds));
      HEARTH_RETURN_IF_ERROR(SampleLayers(0, options_.fanouts.size(), batch));
      return TakeNodes(batch.input_nodes, batch.in_degrees, batch.node_types);
    }));
    return batch;
  }

  absl::StatusOr<MiniBatch> SampleTop(const BatchKey& key,
                                      absl::Span<const NodeId> seeds) override {
    MiniBatch batch = {.key = key, .num_seeds = std::ssize(seeds)};
    HEARTH_RETURN_IF_ERROR(OrGiveUp([&]() -> absl::Status {
      HEARTH_RETURN_IF_ERROR(Start(key, seeds));
      HEARTH_RETURN_IF_ERROR(SampleLayers(0, 1, batch));
      TopLayer& top = batch.top.emplace();
      return TakeNodes(top.nodes, top.in_degrees, top.node_types);
    }));
    return batch;
  }

  absl::Status SampleRest(MiniBatch& batch) override {
    // Stays until the host has waited.
    const std::vector<NodeId> computed = ComputedNodes(*batch.top);
    return OrGiveUp([&]() -> absl::Status {
      HEARTH_RETURN_IF_ERROR(Start(batch.key, computed));
      HEARTH_RETURN_IF_ERROR(SampleLayers(1, options_.fanouts.size(), batch));
      return TakeNodes(batch.input_nodes, batch.in_degrees, batch.node_types);
    });
  }

 private:
  // Calls `sample`; without success, nothing that it queued is left.
  template <typename F>
  absl::Status OrGiveUp(const F& sample) {
    if (workspace_ == nullptr) {
      HEARTH_ASSIGN_OR_RETURN(workspace_, topology_.TakeWorkspace(capacity_));
    }
    const absl::Status status = sample();
    if (!status.ok()) workspace_ = nullptr;
    return status;
  }

  cuda::Stream& stream() { return workspace_->stream(); }

  // A layer's graph, as kernels take it.
  HearthCudaGraph Graph(size_t layer) const {
    return graph_.At(workspace_->graph(), layer);
  }

  // Step 1. `first` stays as it is until the host waits.
  absl::Status Start(const BatchKey& key, absl::Span<const NodeId> first) {
    num_nodes_ = std::ssize(first);
    const absl::Span<const std::byte> tables = graph_.TablesFor(key);
    HEARTH_RETURN_IF_ERROR(workspace_->ReserveGraph(tables.size()));
    HEARTH_RETURN_IF_ERROR(
        stream().Copy(workspace_->graph(), tables.data(), tables.size()));
    HEARTH_RETURN_IF_ERROR(
        workspace_->ReserveNodes(std::max(capacity_.nodes, num_nodes_), 0)
            .status());
    HEARTH_RETURN_IF_ERROR(workspace_->ReserveEdges(capacity_.edges));
    HEARTH_RETURN_IF_ERROR(stream().Copy(workspace_->nodes().nodes,
                                         first.data(),
                                         first.size() * sizeof(NodeId)));
    HEARTH_RETURN_IF_ERROR(FillTable());
    return LookUp(0);
  }

  absl::Status FillTable() {
    const DeviceWorkspace::NodeArrays& nodes = workspace_->nodes();
    return stream().FillTable({.table = nodes.table,
                               .nodes = nodes.nodes,
                               .count = num_nodes_,
                               .damage = workspace_->damage()});
  }

  absl::Status LookUp(int64_t first) {
    const DeviceWorkspace::NodeArrays& nodes = workspace_->nodes();
    return stream().LookUpNodes({.graph = Graph(0),
                                 .nodes = nodes.nodes,
                                 .first = first,
                                 .count = num_nodes_,
                                 .starts = nodes.starts,
                                 .degrees = nodes.degrees,
                                 .in_degrees = nodes.in_degrees,
                                 .damage = workspace_->damage()});
  }

  // The layers `begin` to `end`, in the order of the model behind the blocks
  // that the batch has.
  absl::Status SampleLayers(size_t begin, size_t end, MiniBatch& batch) {
    for (size_t layer = begin; layer < end; ++layer) {
      HEARTH_RETURN_IF_ERROR(SampleLayer(layer, batch));
    }
    std::reverse(batch.blocks.begin(), batch.blocks.end());
    return absl::OkStatus();
  }

  absl::Status SampleLayer(size_t layer, MiniBatch& batch) {
    batch.blocks.push_back({.num_destinations = num_nodes_});
    Block& block = batch.blocks.back();
    HEARTH_RETURN_IF_ERROR(CountEdges(layer));
    HEARTH_RETURN_IF_ERROR(DrawEdges(layer, batch.key, block));
    num_nodes_ += workspace_->answer().num_new_nodes;
    block.num_sources = num_nodes_;
    return LookUp(block.num_destinations);
  }

  // Step 2.
  absl::Status CountEdges(size_t layer) {
    const DeviceWorkspace::NodeArrays nodes = workspace_->nodes();
    DeviceWorkspace::Answer& answer = workspace_->answer();
    HEARTH_RETURN_IF_ERROR(
        stream().CountEdges({.graph = Graph(layer),
                             .nodes = nodes.nodes,
                             .degrees = nodes.degrees,
                             .count = num_nodes_,
                             .indptr = nodes.indptr,
                             .node_indptr = nodes.node_indptr,
                             .scratch = nodes.scratch}));
    HEARTH_RETURN_IF_ERROR(
        stream().Copy(&answer.num_edges,
                      nodes.indptr + num_nodes_ * graph_.size().lists_per_node,
                      sizeof(answer.num_edges)));
    HEARTH_RETURN_IF_ERROR(AwaitAnswer());
    const int64_t num_edges = answer.num_edges;
    if (num_nodes_ + num_edges > std::numeric_limits<uint32_t>::max()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a layer of ", num_edges,
                       " edges is too large to be sampled on a GPU"));
    }
    HEARTH_ASSIGN_OR_RETURN(
        const bool refill,
        workspace_->ReserveNodes(
            MostNodes(num_nodes_, num_edges, graph_.size().num_nodes),
            num_nodes_));
    if (refill) HEARTH_RETURN_IF_ERROR(FillTable());
    return workspace_->ReserveEdges(num_edges);
  }

  // Step 3.
  absl::Status DrawEdges(size_t layer, const BatchKey& key, Block& block) {
    const DeviceWorkspace::NodeArrays& nodes = workspace_->nodes();
    const DeviceWorkspace::EdgeArrays& edges = workspace_->edges();
    DeviceWorkspace::Answer& answer = workspace_->answer();
    const int64_t num_edges = answer.num_edges;
    // The key is that of all edge types.
    const RandomPrefix random(options_.data_seed,
                              RandomPurpose::kNeighborSampling, key.epoch_key,
                              key.batch);
    HEARTH_RETURN_IF_ERROR(
        stream().SampleLayer({.graph = Graph(layer),
                              .starts = nodes.starts,
                              .degrees = nodes.degrees,
                              .num_destinations = num_nodes_,
                              .key = {random.key[0], random.key[1]},
                              .layer = layer,
                              .indptr = nodes.indptr,
                              .num_edges = num_edges,
                              .table = nodes.table,
                              .nodes = nodes.nodes,
                              .indices = edges.indices,
                              .sources = edges.sources,
                              .edge_relations = edges.relations,
                              .ranks = edges.ranks,
                              .damage = workspace_->damage()}));
    block.indptr.resize(static_cast<size_t>(num_nodes_) + 1);
    block.indices.resize(static_cast<size_t>(num_edges));
    HEARTH_RETURN_IF_ERROR(stream().Copy(&answer.num_new_nodes,
                                         edges.ranks + num_edges,
                                         sizeof(answer.num_new_nodes)));
    HEARTH_RETURN_IF_ERROR(stream().Copy(
        block.indptr.data(),
        nodes.node_indptr != nullptr ? nodes.node_indptr : nodes.indptr,
        BytesOf(block.indptr)));
    HEARTH_RETURN_IF_ERROR(stream().Copy(block.indices.data(), edges.indices,
                                         BytesOf(block.indices)));
    if (graph_.size().is_typed()) block.edge_types.resize(block.indices.size());
    if (edges.relations != nullptr) {
      static_assert(sizeof(store::TypeId) == sizeof(*edges.relations));
      HEARTH_RETURN_IF_ERROR(stream().Copy(
          block.edge_types.data(), edges.relations, BytesOf(block.edge_types)));
    }
    return AwaitAnswer();
  }

  // Step 5.
  absl::Status TakeNodes(std::vector<NodeId>& nodes,
                         std::vector<int64_t>& degrees,
                         std::vector<store::TypeId>& types) {
    const DeviceWorkspace::NodeArrays& from = workspace_->nodes();
    nodes.resize(static_cast<size_t>(num_nodes_));
    degrees.resize(nodes.size());
    HEARTH_RETURN_IF_ERROR(
        stream().Copy(nodes.data(), from.nodes, BytesOf(nodes)));
    HEARTH_RETURN_IF_ERROR(stream().Copy(
        degrees.data(),
        from.in_degrees != nullptr ? from.in_degrees : from.degrees,
        BytesOf(degrees)));
    HEARTH_RETURN_IF_ERROR(AwaitAnswer());
    if (graph_.size().is_typed()) {
      types.reserve(nodes.size());
      for (const NodeId node : nodes) {
        types.push_back(topology_.nodes_.TypeOf(node));
      }
    }
    return absl::OkStatus();
  }

  // Waits. DATA_LOSS where damage was noticed.
  absl::Status AwaitAnswer() {
    HearthCudaDamage& damage = workspace_->answer().damage;
    HEARTH_RETURN_IF_ERROR(
        stream().Copy(&damage, workspace_->damage(), sizeof(damage)));
    HEARTH_RETURN_IF_ERROR(stream().Wait());
    if (damage.edge != kNoDamage) {
      const DeviceWorkspace::EdgeArrays& edges = workspace_->edges();
      int64_t source = 0;
      uint16_t relation = 0;
      HEARTH_RETURN_IF_ERROR(Fetch(edges.sources + damage.edge, source));
      if (edges.relations != nullptr) {
        HEARTH_RETURN_IF_ERROR(Fetch(edges.relations + damage.edge, relation));
      }
      return NoSource(topology_.relations_[relation], source);
    }
    if (damage.list != kNoDamage) {
      const auto lists =
          static_cast<unsigned long long>(graph_.size().lists_per_node);
      NodeId node = 0;
      HEARTH_RETURN_IF_ERROR(
          Fetch(workspace_->nodes().nodes + damage.list / lists, node));
      if (node < 0 || node >= graph_.size().num_nodes) {
        return NoNode(node, graph_.size().num_nodes);
      }
      const store::Relation& relation =
          graph_.RelationOf(node, damage.list % lists);
      return NoRow(relation, node - relation.first_destination);
    }
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status Fetch(const T* from, T& value) {
    absl::Status status = stream().Copy(&value, from, sizeof(value));
    // The copy refers to `value` until then.
    status.Update(stream().Wait());
    return status;
  }

  DeviceTopology& topology_;
  const NeighborSamplerOptions options_;
  DeviceGraph graph_;
  const DeviceCapacity capacity_;
  // Null before the first batch, and after one that failed.
  std::unique_ptr<DeviceWorkspace> workspace_;
  // Those met in the batch so far.
  int64_t num_nodes_ = 0;
};

absl::StatusOr<std::unique_ptr<DeviceTopology>> DeviceTopology::Register(
    const cuda::Device& device, absl::Span<const store::Relation> relations,
    const store::NodeSpace& nodes) {
  std::unique_ptr<DeviceTopology> made(
      new DeviceTopology(device, relations, nodes));
  const auto pin = [&](const auto array) -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(
        cuda::Registration pinned,
        cuda::Registration::Register(
            device, absl::MakeConstSpan(
                        reinterpret_cast<const std::byte*>(array.data()),
                        array.size() * sizeof(array[0]))));
    made->pinned_.push_back(std::move(pinned));
    return absl::OkStatus();
  };
  for (const store::Relation& relation : relations) {
    HEARTH_RETURN_IF_ERROR(pin(relation.topology.indptr));
    HEARTH_RETURN_IF_ERROR(std::visit(pin, relation.topology.indices));
  }
  return made;
}

DeviceTopology::DeviceTopology(const cuda::Device& device,
                               absl::Span<const store::Relation> relations,
                               const store::NodeSpace& nodes)
    : device_(device), relations_(relations), nodes_(nodes) {}

std::unique_ptr<NeighborSampler> DeviceTopology::NewSampler(
    NeighborSamplerOptions options, BatchShape largest) {
  return std::make_unique<DeviceSampler>(*this, std::move(options), largest);
}

void DeviceTopology::Rest() {
  absl::MutexLock lock(&mutex_);
  idle_.clear();
}

uint64_t DeviceTopology::DeviceBytes(const BatchShape& largest,
                                     const DeviceGraphSize& graph) {
  return CapacityFor(largest, graph).DeviceBytes();
}

absl::StatusOr<std::unique_ptr<DeviceWorkspace>> DeviceTopology::TakeWorkspace(
    const DeviceCapacity& graph) {
  {
    absl::MutexLock lock(&mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<DeviceWorkspace> taken = std::move(idle_.back());
      idle_.pop_back();
      return taken;
    }
  }
  return DeviceWorkspace::Create(device_, graph);
}

void DeviceTopology::ReturnWorkspace(
    std::unique_ptr<DeviceWorkspace> workspace) {
  absl::MutexLock lock(&mutex_);
  idle_.push_back(std::move(workspace));
}

}  // namespace hearth::sample
