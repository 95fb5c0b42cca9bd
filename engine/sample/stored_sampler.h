#ifndef HEARTH_ENGINE_SAMPLE_STORED_SAMPLER_H_
#define HEARTH_ENGINE_SAMPLE_STORED_SAMPLER_H_

#include <memory>
#include <stop_token>

#include "engine/io/row_reader.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/sample/neighbor_sampler.h"

namespace hearth::sample {

/// Everything that a sampler of a topology on disk reads with. All of it
/// outlives the sampler; reader and tally are its own.
struct StoredNeighbors {
  const StoredTopology& topology;
  /// Lists that need not be read.
  const NeighborCache& cache;
  /// Reads the indices: rows of one index each.
  io::RowReader& reader;
  /// The tally to which reads are added.
  io::ReadTally& tally;
  /// Ends a batch between two reads.
  std::stop_token stop;
};

/// Samples the same batches as NewNeighborSampler from a topology of which only
/// indptr and the cached lists are in memory. Of a layer's other nodes the
/// drawn neighbors, and no more than the pages they lie on, are read together:
/// as many reads are in flight as the reader's queue is deep.
///
/// A batch fails as the reader does; DATA_LOSS, naming the file and offset, for
/// a neighbor that is no node.
std::unique_ptr<NeighborSampler> NewStoredNeighborSampler(
    const StoredNeighbors& neighbors, NeighborSamplerOptions options);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_STORED_SAMPLER_H_
