#include "engine/strategy/superbatch/memory_bound.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/cache/aligned_buffer.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/coalesce.h"
#include "engine/io/queued_reader.h"
#include "engine/sample/batch_shape.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/strategy/superbatch/changeset.h"
#include "engine/strategy/superbatch/executor.h"
#include "engine/strategy/superbatch/superbatch_size.h"

namespace hearth::strategy {
namespace {

int64_t CachedRows(const SuperbatchOptions& options, const MemoryBasis& basis) {
  return cache::DirectCache::Capacity(options.cpu_cache_bytes,
                                      basis.num_nodes(), basis.row_bytes());
}

// Shards that a thread reads at once: only one where the cache holds all rows,
// since a second one joins while reads of the first are in flight.
int ReadAtOnce(const SuperbatchOptions& options, const MemoryBasis& basis) {
  return CachedRows(options, basis) < basis.num_nodes() ? Executor::kReadAtOnce
                                                        : 1;
}

// Memory that planning the changesets of a superbatch takes.
uint64_t PlanningBytes(const SuperbatchOptions& options,
                       const MemoryBasis& basis) {
  const sample::BatchShape largest = basis.batches.WithMargin();
  const int64_t rows = largest.num_inputs();
  const int64_t shards = basis.shards;
  // No batch but the last has fewer rows than a full batch has seeds; a shard
  // may have one seed less than the largest. With a history, batches may have
  // no rows at all.
  const int64_t profiled =
      basis.has_history ? basis.num_batches * shards
      : largest.nodes.empty()
          ? 0
          : static_cast<int64_t>(PlanBytesFor(options.cpu_cache_bytes) /
                                 kPlanBytesPerRow) /
                    std::max<int64_t>(
                        largest.nodes.back() - (shards > 1 ? 1 : 0), 1) +
                kProfiledBatches * shards;
  const int64_t batches =
      std::min(options.superbatch == 0 ? profiled : options.superbatch * shards,
               basis.num_batches * shards);
  int64_t accesses = batches * rows;
  if (options.superbatch == 0) {
    accesses = std::min(
        accesses, static_cast<int64_t>(PlanBytesFor(options.cpu_cache_bytes) /
                                       kPlanBytesPerRow) +
                      kProfiledBatches * shards * rows);
  }
  return ChangesetMemoryBytes(
      {.num_nodes = basis.num_nodes(), .capacity = CachedRows(options, basis)},
      accesses, rows, batches);
}

// Reading neighbors: the largest hop of a batch, drawn and read at once.
uint64_t SamplingReadBytes(const SuperbatchOptions& options,
                           const MemoryBasis& basis) {
  const std::vector<int64_t> edges = basis.batches.WithMargin().edges;
  const int64_t most =
      edges.empty() ? 0 : *std::max_element(edges.begin(), edges.end());
  constexpr uint64_t kBytesPerEdge = 3 * sizeof(int64_t) + io::kPlanBytesPerRow;
  // With a history, a batch is sampled by two stages.
  return static_cast<uint64_t>(basis.pipeline.samplers) *
         (basis.has_history ? 2 : 1) *
         (io::QueuedReader::StagingBytes(options.io_depth, sizeof(int64_t)) +
          static_cast<uint64_t>(most) * kBytesPerEdge);
}

// Reading rows: those that the cache is filled with, or then those of batches.
uint64_t RowReadBytes(const SuperbatchOptions& options,
                      const MemoryBasis& basis) {
  const auto row_bytes = static_cast<uint64_t>(basis.row_bytes());
  const auto rows =
      static_cast<uint64_t>(basis.batches.WithMargin().num_inputs());
  const uint64_t filling =
      io::QueuedReader::StagingBytes(
          std::min(options.io_depth, Executor::kFillDepth), row_bytes,
          Executor::kFillReadBytes) +
      Executor::kFilledAtOnce * io::kPlanBytesPerRow +
      2 * sizeof(int64_t) * static_cast<uint64_t>(CachedRows(options, basis));
  const uint64_t reading =
      static_cast<uint64_t>(basis.pipeline.extractors) *
          (io::QueuedStream::StagingBytes(options.io_depth, row_bytes) +
           static_cast<uint64_t>(ReadAtOnce(options, basis)) * rows *
               io::kPlanBytesPerRow) +
      rows * sizeof(int32_t);
  return std::max(filling, reading);
}

}  // namespace

MemoryEstimate EstimateSuperbatchMemory(const SuperbatchOptions& options,
                                        const MemoryBasis& basis) {
  const auto row_bytes = static_cast<uint64_t>(basis.row_bytes());
  const auto rows =
      static_cast<uint64_t>(basis.batches.WithMargin().num_inputs());
  const int loaded =
      basis.pipeline.extractors + Executor::kLoadedWaiting * basis.shards;
  const int located = Executor::LocatedAtOnce(basis.shards);
  const int assembled = Executor::AssembledAtOnce(
      ReadAtOnce(options, basis) * basis.pipeline.extractors, basis.shards);
  MemoryEstimate estimate;
  estimate.Add("topology", basis.indptr_bytes(),
               /*kept=*/true);
  // Where two things are never there at once, the larger one counts. Lists of
  // macro batches come besides those that stay.
  const uint64_t lists =
      (options.neighbor_rank == NeighborRank::kCross ? 2 : 1) *
      basis.all_lists_bytes();
  estimate.Add("cache", std::max(std::min(options.cpu_cache_bytes,
                                          basis.all_rows_bytes()),
                                 std::min(options.NeighborBytes(), lists)));
  const uint64_t kept = estimate.TotalBytes() + basis.label_bytes();
  estimate.Add("reads", std::max(SamplingReadBytes(options, basis),
                                 RowReadBytes(options, basis)));
  // Loaders and samplers have their files' bytes besides.
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = std::max(
                  2 * basis.pipeline.samplers,
                  basis.pipeline.extractors + loaded + located + assembled),
              .assembled = assembled},
             estimate);
  // Changesets of loaded batches, what was located, and rows that were read for
  // the cache: no more of them than it holds, or than are outside it once it is
  // full.
  const int64_t capacity = CachedRows(options, basis);
  const uint64_t entering = std::min(
      rows,
      static_cast<uint64_t>(std::min(capacity, basis.num_nodes() - capacity)));
  const uint64_t carried =
      rows *
      (static_cast<uint64_t>(loaded) * Executor::kLoadedBytesPerRow +
       static_cast<uint64_t>(located + assembled) * Executor::kReadBytesPerRow);
  estimate.Add("buffers", carried + static_cast<uint64_t>(assembled) *
                                        cache::AlignedBuffer::MemoryBytes(
                                            entering * row_bytes));
  // A superbatch is planned while none is executed, so that no batch carries
  // anything; neighbor lists are chosen before anything is sampled or read.
  const uint64_t choosing = sample::NeighborCache::kBuildBytesPerNode *
                            static_cast<uint64_t>(basis.num_nodes());
  const uint64_t running = estimate.TotalBytes() - kept;
  const uint64_t planning = PlanningBytes(options, basis);
  estimate.Add("planning",
               std::max(choosing > running ? choosing - running : 0,
                        planning > carried ? planning - carried : 0));
  return estimate;
}

}  // namespace hearth::strategy
