// A layer is sampled in these steps, a kernel each:
//
//  1. Where the edges of each destination lie in the topology is written down:
//     all of them, by a warp; or the subset that a thread draws.
//  2. A thread for each edge reads its source, from the host's memory where the
//     topology is there, puts it into the table unless it is there, and lowers
//     the position that stands there to one that tells when the edge met it.
//     Nodes that were met before have lower ones.
//  3. An edge met its source first if the position is its own. The number of
//     such edges before each one is added up.
//  4. These give their sources the next positions, in their order.
//  5. Every edge looks up its source's position.
//
// A thread finds in the table whatever others have put there in the meantime;
// nothing that is kept depends on that: the least position is the least,
// whoever comes first.

#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/random.cuh"
#include "kernels/cuda/sample.cuh"
#include "kernels/cuda/scan.cuh"

namespace hearth::kernels {
namespace {

// A slot of the table that is free, and damage that was not noticed.
constexpr unsigned long long kNone = ~0ull;
constexpr uint32_t kNoPosition = ~0u;

// The slot of `node`, which is taken for it if it has none.
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

// A row without bounds is left empty, so that nothing is read by it.
__global__ void LookUpKernel(HearthCudaLookUp look_up) {
  const HearthCudaTopology& topology = look_up.topology;
  for (int64_t i = look_up.first + FirstItem(); i < look_up.count;
       i += ItemStride()) {
    const int64_t node = look_up.nodes[i];
    int64_t start = -1;
    int64_t end = -1;
    if (static_cast<uint64_t>(node) <
        static_cast<uint64_t>(topology.num_nodes)) {
      start = topology.indptr[node];
      end = topology.indptr[node + 1];
    }
    if (start < 0 || end < start || end > topology.num_edges) {
      atomicMin(&look_up.damage->row, static_cast<unsigned long long>(i));
      start = end = 0;
    }
    look_up.starts[i] = start;
    look_up.degrees[i] = end - start;
  }
}

// Whether a node keeps all its edges.
__device__ inline bool KeepsAll(int64_t degree, int32_t fanout) {
  return fanout < 0 || degree <= fanout;
}

__global__ void KeptKernel(HearthCudaCountEdges count) {
  for (int64_t i = FirstItem(); i <= count.count; i += ItemStride()) {
    int64_t kept = 0;
    if (i < count.count) {
      const int64_t degree = count.degrees[i];
      kept = KeepsAll(degree, count.fanout) ? degree : count.fanout;
    }
    count.indptr[i] = kept;
  }
}

// Step 1, of nodes that keep all.
__global__ void WholeRowsKernel(HearthCudaSampleLayer layer) {
  for (int64_t row = FirstRow(); row < layer.num_destinations;
       row += RowStride()) {
    const int64_t degree = layer.degrees[row];
    if (!KeepsAll(degree, layer.fanout)) continue;
    int64_t* const edges = layer.sources + layer.indptr[row];
    for (int64_t i = Lane(); i < degree; i += kWarp) {
      edges[i] = layer.starts[row] + i;
    }
  }
}

// Step 1, of the others: `fanout` edges of `degree`, ascending (Floyd's
// algorithm: Bentley and Floyd, "A Sample of Brilliance", CACM 1987).
__global__ void SubsetsKernel(HearthCudaSampleLayer layer) {
  for (int64_t row = FirstItem(); row < layer.num_destinations;
       row += ItemStride()) {
    const int64_t degree = layer.degrees[row];
    if (KeepsAll(degree, layer.fanout)) continue;
    const int64_t start = layer.starts[row];
    int64_t* const edges = layer.sources + layer.indptr[row];
    RandomWords random(
        layer.key,
        Mix(layer.prefix ^
            (layer.layer << 48 | static_cast<uint64_t>(layer.nodes[row]))));
    for (int64_t size = 0; size < layer.fanout; ++size) {
      const int64_t last = degree - layer.fanout + size;
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
template <typename Index>
__global__ void MeetKernel(HearthCudaSampleLayer layer) {
  const auto* const indices = static_cast<const Index*>(layer.topology.indices);
  for (int64_t edge = FirstItem(); edge < layer.num_edges;
       edge += ItemStride()) {
    const int64_t node = indices[layer.sources[edge]];
    layer.sources[edge] = node;
    if (static_cast<uint64_t>(node) >=
        static_cast<uint64_t>(layer.topology.num_nodes)) {
      atomicMin(&layer.damage->edge, static_cast<unsigned long long>(edge));
      layer.indices[edge] = 0;
      continue;
    }
    const int64_t slot = SlotOf(layer.table, node);
    atomicMin(&layer.table.positions[slot],
              static_cast<uint32_t>(layer.num_destinations + edge));
    layer.indices[edge] = static_cast<int32_t>(slot);
  }
}

// Step 3, before it is added up.
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

bool IsTopology(const HearthCudaTopology& topology) {
  return topology.num_nodes >= 0 && topology.num_edges >= 0 &&
         (topology.index_bytes == 4 || topology.index_bytes == 8);
}

// Steps 1 and 2. REQUIRES: there are edges.
cudaError_t LaunchDraw(const HearthCudaSampleLayer& layer,
                       cudaStream_t stream) {
  cudaError_t error =
      LaunchRows(WholeRowsKernel, layer.num_destinations, layer, stream);
  if (error == cudaSuccess && layer.fanout >= 0) {
    error = LaunchItems(SubsetsKernel, layer.num_destinations, layer, stream);
  }
  if (error != cudaSuccess) return error;
  const auto meet = layer.topology.index_bytes == 4 ? MeetKernel<int32_t>
                                                    : MeetKernel<int64_t>;
  return LaunchItems(meet, layer.num_edges, layer, stream);
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
  if (!IsTopology(look_up.topology) || look_up.first < 0 ||
      look_up.count < look_up.first) {
    return cudaErrorInvalidValue;
  }
  if (look_up.count == look_up.first) return cudaSuccess;
  return LaunchItems(LookUpKernel, look_up.count - look_up.first, look_up,
                     stream);
}

cudaError_t LaunchCountEdges(const HearthCudaCountEdges& count,
                             cudaStream_t stream) {
  if (count.count < 0) return cudaErrorInvalidValue;
  const cudaError_t error =
      LaunchItems(KeptKernel, count.count + 1, count, stream);
  if (error != cudaSuccess) return error;
  return LaunchScan(count.indptr, count.count + 1, count.scratch, stream);
}

cudaError_t LaunchSampleLayer(const HearthCudaSampleLayer& layer,
                              cudaStream_t stream) {
  const bool sizes = layer.num_destinations >= 0 && layer.num_edges >= 0 &&
                     layer.num_destinations + layer.num_edges <= UINT32_MAX;
  if (!sizes || !IsTopology(layer.topology) ||
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
