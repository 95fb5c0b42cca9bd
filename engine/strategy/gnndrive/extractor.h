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

namespace hearth::strategy {

/// The budgets and sizes that the feature buffer's size follows from.
struct SlotBudget {
  uint64_t cpu_cache_bytes = 0;
  /// 0 = as much as the extractors need.
  uint64_t staging_bytes = 0;
  int64_t row_bytes = 0;
  /// Rows there are.
  int64_t num_rows = 0;
  /// Extractors asked for, at least one.
  int extractors = 1;
};

/// How many slots the feature buffer has, and how many extractors use it.
struct SlotPlan {
  /// GNNDrive's Ne x Mb (section 4.2).
  int64_t reserved_slots = 0;
  /// Standby slots beyond them.
  int64_t cache_slots = 0;
  int extractors = 1;
  /// Slots that the measured batches need, without a margin: a buffer that has
  /// so many already is kept, with its rows.
  int64_t needed_slots = 0;

  int64_t num_slots() const { return reserved_slots + cache_slots; }
};

/// The reserve is the largest batch for each extractor, or the slots that fit
/// staging_bytes; then there are as many extractors as these serve. No plan has
/// more slots than there are rows, or than a slot table can have.
/// RESOURCE_EXHAUSTED, with the numbers, if staging_bytes do not hold one
/// batch.
absl::StatusOr<SlotPlan> PlanSlots(const SlotBudget& budget,
                                   const BatchBound& batches);

/// A batch with its node alias list and what extracting its rows took.
struct GnndriveBatch final : public SampledBatch {
  using SampledBatch::SampledBatch;

  cache::FeatureBuffer::Pins pins;
  io::ReadTally tally;
  /// Rows that it had to read, since they were not in the buffer and no other
  /// batch was reading them.
  int64_t rows_missed = 0;
};

/// One of GNNDrive's extractors (section 4.2): brings the rows of a batch into
/// the feature buffer, in two phases that overlap: from disk into staging
/// memory, with as many reads in flight as its queue is deep, and from there,
/// as each read completes, into the slots. Rows of less than a sector, and
/// neighbors on disk, are read together (section 4.4). Single-owner: one
/// thread's.
class Extractor {
 public:
  /// All of them must outlive it; a null `check` checks no row. Errors as
  /// io::ReadQueues::Take and io::RowReader::Create.
  static absl::StatusOr<std::unique_ptr<Extractor>> Create(
      const store::StoredFeatures& features, const io::RowCheck* check,
      io::ReadQueues& queues, const Clock& clock, size_t io_depth);

  /// Memory for reads in flight, at most, with rows of so many bytes on a disk
  /// whose reads are aligned to 4 KiB or less.
  static uint64_t StagingBytes(uint64_t row_bytes);

  /// The parts of a pass that its extractors share.
  struct Shared {
    cache::FeatureBuffer& buffer;
    cache::ClaimTurns& turns;
    std::stop_token stop;
  };

  /// Algorithm 1 for `batch`, claiming in its turn, without its last step: when
  /// it returns OK, the rows of all input nodes are pinned by the batch, and in
  /// the buffer, but for those that others load: Pins::AwaitRows, by who uses
  /// them, waits for these. CANCELLED if a stop is requested, else what reading
  /// gave. REQUIRES: the batch has no more rows than the buffer has slots.
  absl::Status Extract(const Shared& shared, GnndriveBatch& batch);

  /// A part of a batch: `pins` has the rows of input nodes `first` .. .
  using UsePart =
      absl::FunctionRef<void(int64_t first, const cache::FeatureBuffer::Pins&)>;

  /// The same for a batch of any size, part by part, each as large as the
  /// buffer: calls `use` with each in turn, once its rows are there. Keeps
  /// other batches from claiming meanwhile. Its error may be another
  /// extractor's, of a row that both need.
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

  // Goes after the reader, which uses it.
  const io::ReadQueues::Handle queue_;
  const std::unique_ptr<io::RowReader> reader_;
  std::vector<int64_t> rows_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GNNDRIVE_EXTRACTOR_H_
