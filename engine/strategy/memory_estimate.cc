#include "engine/strategy/memory_estimate.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/cache/aligned_buffer.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/device_graph.h"
#include "engine/sample/device_sampler.h"
#include "engine/store/node_space.h"
#include "engine/store/topology.h"

namespace hearth::strategy {
namespace {

uint64_t Times(uint64_t bytes, int count) {
  return bytes * static_cast<uint64_t>(count);
}

// Batches are then sampled by two stages, with one between them.
BatchCounts WithHistory(BatchCounts counts, int shards) {
  counts.sampled += counts.samplers + 1 + 2 * kUndecided * shards;
  counts.samplers *= 2;
  return counts;
}

// Memory of a sample::TopLayer, with the room that its arrays may have grown
// beyond their contents.
uint64_t TopBytes(const sample::BatchShape& shape) {
  const size_t layers = shape.edges.size();
  if (layers < 2) return 0;
  return 2 * static_cast<uint64_t>(shape.nodes[layers - 1]) *
         (sizeof(store::NodeId) + sizeof(int64_t) + 3 * sizeof(int32_t) +
          (shape.types_per_node > 0 ? sizeof(store::TypeId) : 0));
}

}  // namespace

void MemoryEstimate::Add(std::string owner, uint64_t bytes, bool kept,
                         MemoryPlace place) {
  shares.push_back({.owner = std::move(owner),
                    .bytes = bytes,
                    .kept = kept,
                    .place = place});
}

uint64_t MemoryEstimate::TotalBytes(MemoryPlace place) const {
  uint64_t total = 0;
  for (const MemoryShare& share : shares) {
    if (share.place == place) total += share.bytes;
  }
  return total;
}

std::string FormatShares(const MemoryEstimate& estimate, MemoryPlace place) {
  std::vector<MemoryShare> shares = estimate.shares;
  std::erase_if(shares, [&](const auto& one) { return one.place != place; });
  std::stable_sort(
      shares.begin(), shares.end(),
      [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::string text;
  for (const MemoryShare& share : shares) {
    if (share.bytes == 0) break;
    absl::StrAppend(&text, text.empty() ? "" : ", ", share.owner, " ",
                    FormatByteSize(share.bytes));
  }
  return text;
}

int64_t MemoryBasis::num_nodes() const {
  return store::NodeSpace(manifest).num_nodes();
}

uint64_t MemoryBasis::feature_bytes() const {
  uint64_t bytes = 0;
  for (const store::NodeTypeEntry& type : manifest.node_types) {
    bytes += type.features.file_size_bytes;
  }
  return bytes;
}

uint64_t MemoryBasis::indptr_bytes() const {
  uint64_t bytes = 0;
  for (const store::EdgeTypeEntry& type : manifest.edge_types) {
    bytes += type.indptr.file_size_bytes;
  }
  return bytes;
}

uint64_t MemoryBasis::indices_bytes() const {
  uint64_t bytes = 0;
  for (const store::EdgeTypeEntry& type : manifest.edge_types) {
    bytes += type.indices.file_size_bytes;
  }
  return bytes;
}

uint64_t MemoryBasis::sampled_topology_bytes() const {
  return indptr_bytes() +
         (pipeline.sampling_gpu.has_value() ? indices_bytes() : 0);
}

uint64_t MemoryBasis::all_rows_bytes() const {
  return static_cast<uint64_t>(num_nodes()) *
         (static_cast<uint64_t>(row_bytes()) + sizeof(int64_t));
}

uint64_t MemoryBasis::all_lists_bytes() const {
  // Lists of several edge types take the widest one's numbers.
  const uint64_t wider = manifest.edge_types.size() > 1 ? 2 : 1;
  return static_cast<uint64_t>(num_nodes()) * sizeof(int64_t) +
         wider * indices_bytes();
}

uint64_t MemoryBasis::label_bytes() const {
  uint64_t most = 0;
  for (const store::NodeTypeEntry& type : manifest.node_types) {
    most = std::max(most, type.labels.file_size_bytes);
  }
  return most;
}

void AddBatches(const MemoryBasis& basis, const BatchCounts& wanted,
                MemoryEstimate& estimate) {
  const BatchCounts counts =
      basis.has_history ? WithHistory(wanted, basis.shards) : wanted;
  const sample::BatchShape largest = basis.batches.WithMargin();
  const uint64_t batch =
      largest.MemoryBytes() + (basis.has_history ? TopBytes(largest) : 0);
  const auto rows = static_cast<uint64_t>(largest.num_inputs());
  const uint64_t inputs = cache::AlignedBuffer::MemoryBytes(
      rows * static_cast<uint64_t>(basis.row_format().dim) * sizeof(float));
  estimate.Add("labels", basis.label_bytes(), /*kept=*/true);
  if (basis.pipeline.sampling_gpu.has_value()) {
    const sample::DeviceGraphSize graph = {
        .num_nodes = basis.num_nodes(),
        .num_types = std::ssize(basis.manifest.node_types),
        .num_relations = std::ssize(basis.manifest.edge_types),
        .lists_per_node = std::max<int64_t>(largest.types_per_node, 1)};
    estimate.Add("samplers",
                 Times(sample::DeviceTopology::DeviceBytes(largest, graph),
                       counts.samplers),
                 /*kept=*/false, {.gpu = basis.pipeline.sampling_gpu});
  } else {
    estimate.Add("samplers", Times(largest.SamplerBytes(), counts.samplers));
  }
  estimate.Add("batches",
               Times(batch, counts.sampled) + Times(inputs, counts.assembled));
}

}  // namespace hearth::strategy
