#ifndef HEARTH_ENGINE_STRATEGY_GNNDRIVE_EXTRACTOR_H_
#define HEARTH_ENGINE_STRATEGY_GNNDRIVE_EXTRACTOR_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/cache/feature_buffer.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sampled_batch.h"

/// The extractors of GNNDrive, and the size of the feature buffer that they
/// share (PlanSlots).

namespace hearth::strategy {

/// The budgets and sizes from which PlanSlots sizes the feature buffer.
struct SlotBudget {
  uint64_t cpu_cache_bytes = 0;
  /// 0 = one largest batch for each extractor.
  uint64_t staging_bytes = 0;
  int64_t row_bytes = 0;
  /// Rows of all features.
  int64_t num_rows = 0;
  /// Extractors asked for, at least 1.
  int extractors = 1;
};

/// The number of slots of the feature buffer, and of extractors that use it.
struct SlotPlan {
  /// GNNDrive's Ne x Mb (section 4.2).
  int64_t reserved_slots = 0;
  /// Standby slots beyond the reserved ones.
  int64_t cache_slots = 0;
  int extractors = 1;
  /// Slots that the measured batches need, without a margin: a buffer with at
  /// least as many is kept, with its rows.
  int64_t needed_slots = 0;

  int64_t num_slots() const { return reserved_slots + cache_slots; }
};

/// Sizes the feature buffer. Reserved slots: one largest batch for each
/// extractor; with staging_bytes, the slots that fit into it, and as many
/// extractors as these serve. Never more slots than there are rows, or than a
/// slot table can have. RESOURCE_EXHAUSTED, with the numbers, if staging_bytes
/// does not hold one batch.
absl::StatusOr<SlotPlan> PlanSlots(const SlotBudget& budget,
                                   const BatchBound& batches);

/// A batch with its node alias list (`pins`) and the reads of its extraction.
struct GnndriveBatch final : public SampledBatch {
  using SampledBatch::SampledBatch;

  cache::FeatureBuffer::Pins pins;
  io::ReadTally tally;
  /// Rows that the batch read: they were not in the buffer, and no other batch
  /// was reading them.
  int64_t rows_missed = 0;
};

/// One of GNNDrive's extractors (section 4.2): brings the rows of a batch into
/// the feature buffer, in two phases that overlap: from disk into staging
/// memory, with as many reads in flight as its queue is deep, and from there,
/// as each read completes, into the slots. Rows of less than a sector, and rows
/// next to each other on disk, are read together (section 4.4). Single-owner:
/// belongs to one thread.
class Extractor {
 public:
  /// All arguments must outlive the extractor; a null `check` checks no row.
  /// Errors as io::ReadQueues::Take and io::RowReader::Create.
  static absl::StatusOr<std::unique_ptr<Extractor>> Create(
      const store::StoredFeatures& features, const io::RowCheck* check,
      io::ReadQueues& queues, const Clock& clock, size_t io_depth);

  /// Memory for reads in flight, at most, with rows of `row_bytes` on a disk
  /// whose reads are aligned to 4 KiB or less.
  static uint64_t StagingBytes(uint64_t row_bytes);

  /// State of a pass that its extractors share.
  struct Shared {
    cache::FeatureBuffer& buffer;
    cache::ClaimTurns& turns;
    std::stop_token stop;
  };

  /// Algorithm 1 for `batch`, claiming in the batch's turn, without the last
  /// step: after OK the batch has pinned the rows of all its input nodes, and
  /// they are in the buffer, except rows that other batches are loading, for
  /// which the user of the rows calls Pins::AwaitRows. CANCELLED if a stop is
  /// requested; else errors of reading. REQUIRES: the batch has no more rows
  /// than the buffer has slots.
  absl::Status Extract(const Shared& shared, GnndriveBatch& batch);

  /// Takes a part of a batch: pinned rows of input nodes, from node `first` on.
  using UsePart =
      absl::FunctionRef<void(int64_t first, const cache::FeatureBuffer::Pins&)>;

  /// Extracts a batch of any size in parts as large as the buffer: calls `use`
  /// with each part in turn, once its rows are in the buffer. Keeps other
  /// batches from claiming meanwhile. Errors as Extract; of a row that another
  /// extractor was loading, that extractor's error.
  absl::Status ExtractInParts(const Shared& shared, GnndriveBatch& batch,
                              UsePart use);

 private:
  Extractor(io::ReadQueues::Handle queue,
            std::unique_ptr<io::RowReader> reader);

  // The nodes of a batch, or of a part of it.
  using Nodes = absl::Span<const store::NodeId>;
  absl::Status ClaimAll(const Shared& shared, Nodes nodes,
                        cache::FeatureBuffer::Pins& pins, io::ReadTally& tally);
  absl::Status LoadMissing(const Shared& shared, Nodes nodes,
                           cache::FeatureBuffer::Pins& pins,
                           io::ReadTally& tally);

  // Destroyed after the reader, which uses it.
  const io::ReadQueues::Handle queue_;
  const std::unique_ptr<io::RowReader> reader_;
  std::vector<int64_t> rows_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GNNDRIVE_EXTRACTOR_H_
