#ifndef HEARTH_ENGINE_SAMPLE_STORED_SAMPLER_H_
#define HEARTH_ENGINE_SAMPLE_STORED_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "engine/io/row_reader.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/sample/neighbor_sampler.h"
#include "engine/store/graph.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// All in-neighbors of a node, in the topology's order. A view.
class NeighborList {
 public:
  explicit NeighborList(const int32_t* first) : narrow_(first) {}
  explicit NeighborList(const int64_t* first) : wide_(first) {}

  /// The i-th. REQUIRES: i is below the node's in-degree.
  store::NodeId operator[](int64_t i) const {
    return narrow_ != nullptr ? narrow_[i] : wide_[i];
  }

 private:
  // One of them is null.
  const int32_t* narrow_ = nullptr;
  const int64_t* wide_ = nullptr;
};

/// Whole lists of some nodes, in memory. Immutable; thread-safe.
class NeighborLists {
 public:
  virtual ~NeighborLists() = default;

  /// The list of `node`, valid as long as this is there; none if it is not
  /// inside.
  virtual std::optional<NeighborList> Find(store::NodeId node) const = 0;

  /// Asks the processor for what Find(node) will look at first.
  virtual void Prefetch(store::NodeId node) const = 0;
};

/// The lists that neighbors were drawn from, those of the same node in several
/// layers and batches apart, by where they were found.
struct ListTally {
  /// In the neighbor cache.
  int64_t cached = 0;
  /// In the batch's own lists.
  int64_t held = 0;
  /// Nowhere: on disk.
  int64_t stored = 0;
};

/// Lists that are in memory for the length of a batch.
using BatchLists = std::vector<std::shared_ptr<const NeighborLists>>;

/// Everything that a sampler of a topology on disk reads with. All of it
/// outlives the sampler; reader and tallies are its own.
struct StoredNeighbors {
  const store::StoredTopology& topology;
  /// Lists that need not be read.
  const NeighborCache& cache;
  /// Others, asked after the cache, in this order. They may be exchanged
  /// between two batches.
  const BatchLists& batch_lists;
  /// Reads `topology.indices`: rows of one index each.
  io::RowReader& reader;
  /// The tallies to which reads and lists are added.
  io::ReadTally& tally;
  ListTally& lists;
  /// Ends a batch between two reads.
  std::stop_token stop;
};

/// Samples the same batches as NewNeighborSampler, or NewTypedSampler, from a
/// topology of which only indptr and some lists are in memory. Of a layer's
/// other nodes the drawn neighbors, and no more than the pages they lie on, are
/// read together: as many reads are in flight as the reader's queue is deep.
///
/// A batch fails as the reader does; DATA_LOSS, naming the file and offset, for
/// a neighbor that is no node.
std::unique_ptr<NeighborSampler> NewStoredNeighborSampler(
    const StoredNeighbors& neighbors, NeighborSamplerOptions options);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_STORED_SAMPLER_H_
