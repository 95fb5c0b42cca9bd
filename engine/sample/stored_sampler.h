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

/// Neighbor sampling from a topology on disk, of which some lists are in
/// memory.

namespace hearth::sample {

/// View of a node's in-neighbors, in the topology's order.
class NeighborList {
 public:
  explicit NeighborList(const int32_t* first) : narrow_(first) {}
  explicit NeighborList(const int64_t* first) : wide_(first) {}

  /// Neighbor i. REQUIRES: i < the node's in-degree.
  store::NodeId operator[](int64_t i) const {
    return narrow_ != nullptr ? narrow_[i] : wide_[i];
  }

 private:
  // Exactly one is not null.
  const int32_t* narrow_ = nullptr;
  const int64_t* wide_ = nullptr;
};

/// Complete neighbor lists of some nodes, in memory. Immutable; thread-safe.
class NeighborLists {
 public:
  virtual ~NeighborLists() = default;

  /// List of `node`, valid while the object lives; nullopt if it is not held.
  virtual std::optional<NeighborList> Find(store::NodeId node) const = 0;

  /// Prefetches what Find(node) looks at first.
  virtual void Prefetch(store::NodeId node) const = 0;
};

/// Number of lists that neighbors were drawn from, by where they were found. A
/// node's list counts once for each layer and batch that draws from it.
struct ListTally {
  /// Lists in the neighbor cache.
  int64_t cached = 0;
  /// Lists in the batch's own lists.
  int64_t held = 0;
  /// Lists on disk.
  int64_t stored = 0;
};

/// Lists that are held in memory for one batch.
using BatchLists = std::vector<std::shared_ptr<const NeighborLists>>;

/// What a sampler of a topology on disk reads from. All of it must outlive the
/// sampler, which alone uses `reader` and the tallies.
struct StoredNeighbors {
  const store::StoredTopology& topology;
  /// Lists in memory, looked up first.
  const NeighborCache& cache;
  /// Further lists in memory, looked up after the cache, in order. May be
  /// replaced between two batches.
  const BatchLists& batch_lists;
  /// Reader of `topology.indices`, in rows of one index each.
  io::RowReader& reader;
  /// Tallies to which the sampler adds its reads and lists.
  io::ReadTally& tally;
  ListTally& lists;
  /// Stops a batch between two reads.
  std::stop_token stop;
};

/// A sampler of a topology on disk, of which only indptr and some lists are in
/// memory; batches equal those of NewNeighborSampler or NewTypedSampler. For a
/// layer's other nodes it reads together just the pages of the drawn neighbors,
/// with as many reads in flight as the reader's queue is deep.
///
/// Sample gives the reader's errors, and DATA_LOSS, naming file and offset, for
/// a neighbor that is no node.
std::unique_ptr<NeighborSampler> NewStoredNeighborSampler(
    const StoredNeighbors& neighbors, NeighborSamplerOptions options);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_STORED_SAMPLER_H_
