// A layer is sampled in these steps, a kernel each:
//
//  1. Positions of the edges of each list of a destination in its relation are
//     written: all of them, by a warp; or a subset, drawn by a thread.
//  2. A thread for each edge reads its source (from host memory where the
//     relation is there), puts it into the table if it is absent, and lowers
//     its position there to a position that stands for the edge. Nodes that
//     were met before have lower positions.
//  3. An edge met its source first if the position in the table is that edge's.
//     The number of such edges before each edge is added up.
//  4. The edges that met their sources first give them the next positions, in
//     the order of the edges.
//  5. Every edge looks up its source's position.
//
// What a thread finds in the table depends on the other threads' progress; what
// is kept does not: the least position is the least, whoever comes first.

#include <cstdint>

#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/random.cuh"
#include "kernels/cuda/scan.cuh"

namespace hearth::kernels {
namespace {

// A slot of the table that is free, and damage that was not noticed.
constexpr unsigned long long kNone = ~0ull;
constexpr uint32_t kNoPosition = ~0u;

// The slot of `node`; takes a slot for it if it has none.
__device__ inline int64_t SlotOf(const HearthCudaNodeTable& table,
                                 int64_t node) {
  const auto wanted = static_cast<unsigned long long>(node);
  // Multiplicative hashing: the golden ratio spreads runs of ids evenly. The
  // upper half of the product has the better bits.
  const uint64_t hash = static_cast<uint64_t>(node) * 0x9E3779B97F4A7C15u;
  const auto mask = static_cast<uint64_t>(table.slots - 1);
  for (uint64_t slot = (hash >> 32) & mask;; slot = (slot + 1) & mask) {
    const unsigned long long found =
        atomicCAS(&table.nodes[slot], kNone, wanted);
    if (found == kNone || found == wanted) return static_cast<int64_t>(slot);
  }
}

__global__ void EmptyKernel(HearthCudaFillTable fill) {
  for (int64_t slot = FirstItem(); slot < fill.table.slots;
       slot += ItemStride()) {
    fill.table.nodes[slot] = kNone;
    fill.table.positions[slot] = kNoPosition;
    if (slot == 0) *fill.damage = {kNone, kNone};
  }
}

__global__ void FillKernel(HearthCudaFillTable fill) {
  for (int64_t i = FirstItem(); i < fill.count; i += ItemStride()) {
    fill.table.positions[SlotOf(fill.table, fill.nodes[i])] =
        static_cast<uint32_t>(i);
  }
}

// The type of a node. REQUIRES: 0 <= node < graph.num_nodes.
__device__ inline int32_t TypeOf(const HearthCudaGraph& graph, int64_t node) {
  int32_t type = 0;
  while (node >= graph.type_firsts[type + 1]) ++type;
  return type;
}

// The relation of list `list` among all lists of `nodes`. REQUIRES: the list
// has edges.
__device__ inline int32_t RelationOf(const HearthCudaGraph& graph,
                                     const int64_t* nodes, int64_t list) {
  const int32_t type = TypeOf(graph, nodes[list / graph.lists_per_node]);
  return graph.lists[type * graph.lists_per_node + list % graph.lists_per_node];
}

// A list whose bounds are invalid is left empty, so that nothing is read
// through it.
__global__ void LookUpKernel(HearthCudaLookUp look_up) {
  const HearthCudaGraph& graph = look_up.graph;
  for (int64_t i = look_up.first + FirstItem(); i < look_up.count;
       i += ItemStride()) {
    const int64_t node = look_up.nodes[i];
    const bool known =
        static_cast<uint64_t>(node) < static_cast<uint64_t>(graph.num_nodes);
    const int32_t type = known ? TypeOf(graph, node) : 0;
    int64_t in_degree = 0;
    for (int32_t l = 0; l < graph.lists_per_node; ++l) {
      const int32_t number = graph.lists[type * graph.lists_per_node + l];
      int64_t start = 0;
      int64_t end = 0;
      bool bounded = known;
      if (known && number >= 0) {
        const HearthCudaRelation& relation = graph.relations[number];
        const int64_t* const bounds =
            relation.indptr + (node - relation.first_destination);
        start = bounds[0];
        end = bounds[1];
        bounded = start >= 0 && end >= start && end <= relation.num_edges;
      }
      const int64_t list = i * graph.lists_per_node + l;
      if (!bounded) {
        atomicMin(&look_up.damage->list, static_cast<unsigned long long>(list));
        start = end = 0;
      }
      look_up.starts[list] = start;
      look_up.degrees[list] = end - start;
      in_degree += end - start;
    }
    if (look_up.in_degrees != nullptr) look_up.in_degrees[i] = in_degree;
  }
}

// Whether a list keeps all its edges.
__device__ inline bool KeepsAll(int64_t degree, int32_t fanout) {
  return fanout < 0 || degree <= fanout;
}

__global__ void KeptKernel(HearthCudaCountEdges count) {
  const int64_t lists = count.count * count.graph.lists_per_node;
  for (int64_t list = FirstItem(); list <= lists; list += ItemStride()) {
    int64_t kept = list < lists ? count.degrees[list] : 0;
    if (kept > 0) {
      const int32_t relation = RelationOf(count.graph, count.nodes, list);
      const int32_t fanout = count.graph.relations[relation].fanout;
      if (!KeepsAll(kept, fanout)) kept = fanout;
    }
    count.indptr[list] = kept;
  }
}

__global__ void NodeIndptrKernel(HearthCudaCountEdges count) {
  for (int64_t i = FirstItem(); i <= count.count; i += ItemStride()) {
    count.node_indptr[i] = count.indptr[i * count.graph.lists_per_node];
  }
}

// Step 1 for lists that are kept whole.
__global__ void WholeListsKernel(HearthCudaSampleLayer layer) {
  const int64_t lists = layer.num_destinations * layer.graph.lists_per_node;
  for (int64_t list = FirstRow(); list < lists; list += RowStride()) {
    const int64_t degree = layer.degrees[list];
    if (degree == 0) continue;
    const int32_t relation = RelationOf(layer.graph, layer.nodes, list);
    if (!KeepsAll(degree, layer.graph.relations[relation].fanout)) continue;
    const int64_t first = layer.indptr[list];
    for (int64_t i = Lane(); i < degree; i += kWarp) {
      layer.sources[first + i] = layer.starts[list] + i;
      if (layer.edge_relations != nullptr) {
        layer.edge_relations[first + i] = static_cast<uint16_t>(relation);
      }
    }
  }
}

// Step 1 for lists that are drawn from: `fanout` edges of `degree`, ascending
// (Floyd's algorithm: Bentley and Floyd, "A Sample of Brilliance", CACM 1987).
__global__ void SubsetsKernel(HearthCudaSampleLayer layer) {
  const int64_t lists = layer.num_destinations * layer.graph.lists_per_node;
  for (int64_t list = FirstItem(); list < lists; list += ItemStride()) {
    const int64_t degree = layer.degrees[list];
    if (degree == 0) continue;
    const int32_t number = RelationOf(layer.graph, layer.nodes, list);
    const HearthCudaRelation& relation = layer.graph.relations[number];
    const int32_t fanout = relation.fanout;
    if (KeepsAll(degree, fanout)) continue;
    const int64_t start = layer.starts[list];
    int64_t* const edges = layer.sources + layer.indptr[list];
    const auto node =
        static_cast<uint64_t>(layer.nodes[list / layer.graph.lists_per_node]);
    RandomWords random(layer.key,
                       Mix(relation.prefix ^ (layer.layer << 48 | node)));
    for (int64_t size = 0; size < fanout; ++size) {
      if (layer.edge_relations != nullptr) {
        layer.edge_relations[layer.indptr[list] + size] =
            static_cast<uint16_t>(number);
      }
      const int64_t last = degree - fanout + size;
      const int64_t drawn =
          start +
          static_cast<int64_t>(random.Below(static_cast<uint64_t>(last) + 1));
      int64_t place = size;
      while (place > 0 && edges[place - 1] > drawn) --place;
      if (place > 0 && edges[place - 1] == drawn) {
        // Drawn before: `last` stands in, larger than all so far.
        edges[size] = start + last;
        continue;
      }
      for (int64_t i = size; i > place; --i) edges[i] = edges[i - 1];
      edges[place] = drawn;
    }
  }
}

// Step 2. The place of an edge's source in the table stands in its index until
// step 5.
__global__ void MeetKernel(HearthCudaSampleLayer layer) {
  for (int64_t edge = FirstItem(); edge < layer.num_edges;
       edge += ItemStride()) {
    const HearthCudaRelation& relation =
        layer.graph.relations[layer.edge_relations == nullptr
                                  ? 0
                                  : layer.edge_relations[edge]];
    const int64_t place = layer.sources[edge];
    const int64_t source =
        relation.index_bytes == 4
            ? static_cast<const int32_t*>(relation.indices)[place]
            : static_cast<const int64_t*>(relation.indices)[place];
    if (static_cast<uint64_t>(source) >=
        static_cast<uint64_t>(relation.num_sources)) {
      atomicMin(&layer.damage->edge, static_cast<unsigned long long>(edge));
      layer.sources[edge] = source;
      layer.indices[edge] = 0;
      continue;
    }
    const int64_t node = relation.first_source + source;
    layer.sources[edge] = node;
    const int64_t slot = SlotOf(layer.table, node);
    atomicMin(&layer.table.positions[slot],
              static_cast<uint32_t>(layer.num_destinations + edge));
    layer.indices[edge] = static_cast<int32_t>(slot);
  }
}

// Step 3, up to adding up.
__global__ void MarkKernel(HearthCudaSampleLayer layer) {
  for (int64_t edge = FirstItem(); edge <= layer.num_edges;
       edge += ItemStride()) {
    layer.ranks[edge] =
        edge < layer.num_edges &&
        layer.table.positions[layer.indices[edge]] ==
            static_cast<uint32_t>(layer.num_destinations + edge);
  }
}

// Step 4.
__global__ void NumberKernel(HearthCudaSampleLayer layer) {
  for (int64_t edge = FirstItem(); edge < layer.num_edges;
       edge += ItemStride()) {
    const uint32_t rank = layer.ranks[edge];
    if (layer.ranks[edge + 1] == rank) continue;
    const int64_t position = layer.num_destinations + rank;
    layer.nodes[position] = layer.sources[edge];
    layer.table.positions[layer.indices[edge]] =
        static_cast<uint32_t>(position);
  }
}

// Step 5.
__global__ void ResolveKernel(HearthCudaSampleLayer layer) {
  for (int64_t edge = FirstItem(); edge < layer.num_edges;
       edge += ItemStride()) {
    layer.indices[edge] =
        static_cast<int32_t>(layer.table.positions[layer.indices[edge]]);
  }
}

bool IsTableFor(const HearthCudaNodeTable& table, int64_t num_nodes) {
  return table.slots > num_nodes && table.slots <= int64_t{1} << 31 &&
         (table.slots & (table.slots - 1)) == 0;
}

bool IsGraph(const HearthCudaGraph& graph) {
  return graph.num_nodes >= 0 && graph.num_relations >= 0 &&
         graph.num_types > 0 && graph.lists_per_node > 0;
}

// Steps 1 and 2. REQUIRES: there are edges.
cudaError_t LaunchDraw(const HearthCudaSampleLayer& layer,
                       cudaStream_t stream) {
  const int64_t lists = layer.num_destinations * layer.graph.lists_per_node;
  cudaError_t error = LaunchRows(WholeListsKernel, lists, layer, stream);
  if (error == cudaSuccess) {
    error = LaunchItems(SubsetsKernel, lists, layer, stream);
  }
  if (error != cudaSuccess) return error;
  return LaunchItems(MeetKernel, layer.num_edges, layer, stream);
}

// Steps 3 to 5.
cudaError_t LaunchNumber(const HearthCudaSampleLayer& layer,
                         cudaStream_t stream) {
  const int64_t count = layer.num_edges + 1;
  cudaError_t error = LaunchItems(MarkKernel, count, layer, stream);
  if (error == cudaSuccess) {
    error = LaunchScan(layer.ranks, count, layer.ranks + count, stream);
  }
  if (error != cudaSuccess || layer.num_edges == 0) return error;
  error = LaunchItems(NumberKernel, layer.num_edges, layer, stream);
  if (error != cudaSuccess) return error;
  return LaunchItems(ResolveKernel, layer.num_edges, layer, stream);
}

}  // namespace

cudaError_t LaunchFillTable(const HearthCudaFillTable& fill,
                            cudaStream_t stream) {
  if (fill.count < 0 || !IsTableFor(fill.table, fill.count)) {
    return cudaErrorInvalidValue;
  }
  const cudaError_t error =
      LaunchItems(EmptyKernel, fill.table.slots, fill, stream);
  if (error != cudaSuccess || fill.count == 0) return error;
  return LaunchItems(FillKernel, fill.count, fill, stream);
}

cudaError_t LaunchLookUp(const HearthCudaLookUp& look_up, cudaStream_t stream) {
  if (!IsGraph(look_up.graph) || look_up.first < 0 ||
      look_up.count < look_up.first) {
    return cudaErrorInvalidValue;
  }
  if (look_up.count == look_up.first) return cudaSuccess;
  return LaunchItems(LookUpKernel, look_up.count - look_up.first, look_up,
                     stream);
}

cudaError_t LaunchCountEdges(const HearthCudaCountEdges& count,
                             cudaStream_t stream) {
  if (!IsGraph(count.graph) || count.count < 0) return cudaErrorInvalidValue;
  const int64_t sums = count.count * count.graph.lists_per_node + 1;
  cudaError_t error = LaunchItems(KeptKernel, sums, count, stream);
  if (error == cudaSuccess) {
    error = LaunchScan(count.indptr, sums, count.scratch, stream);
  }
  if (error != cudaSuccess || count.node_indptr == nullptr) return error;
  return LaunchItems(NodeIndptrKernel, count.count + 1, count, stream);
}

cudaError_t LaunchSampleLayer(const HearthCudaSampleLayer& layer,
                              cudaStream_t stream) {
  const bool sizes = layer.num_destinations >= 0 && layer.num_edges >= 0 &&
                     layer.num_destinations + layer.num_edges <= UINT32_MAX;
  if (!sizes || !IsGraph(layer.graph) ||
      !IsTableFor(layer.table, layer.num_destinations)) {
    return cudaErrorInvalidValue;
  }
  if (layer.num_edges > 0) {
    const cudaError_t error = LaunchDraw(layer, stream);
    if (error != cudaSuccess) return error;
  }
  return LaunchNumber(layer, stream);
}

}  // namespace hearth::kernels
