#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_PASS_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_PASS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/base/thread_team.h"
#include "engine/cache/row_memory.h"
#include "engine/io/row_reader.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/foresight/fetch_prices.h"
#include "engine/strategy/foresight/generation.h"
#include "engine/strategy/foresight/generation_files.h"
#include "engine/strategy/foresight/generations.h"
#include "engine/strategy/foresight/gpu_slots.h"
#include "engine/strategy/foresight/row_loader.h"
#include "engine/strategy/foresight/row_slots.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"

/// Delivers a pass from the generations of a timeline (ForesightPass).

namespace hearth::strategy {

/// The cache, and the position before which its rows are arranged.
struct PlannedCache {
  RowSlots slots;
  /// The generations whose timeline `position` counts; null: the slots fit no
  /// position.
  const Generations* generations = nullptr;
  int64_t position = 0;
  /// The generation before `position` if it has refills; else null.
  std::shared_ptr<const Generation> refills = nullptr;
};

/// Everything that a pass works with. Outlives the pass.
struct ForesightPassContext {
  Generations& generations;
  PlannedCache& cache;
  const store::Labels& labels;
  const RowSource& source;
  FetchPrices& prices;
  const Clock& clock;
  /// The first slots, whose rows count as hits of a GPU cache; absent: there is
  /// none. They may be emulated, in host memory.
  std::optional<uint32_t> gpu_slots;
  /// Buffers of input rows, and of bytes read.
  BufferPool& inputs;
  BufferPool& reads;
  /// Threads of each loader and of the assembler.
  int loaders = 1;
};

/// A shard on its way through the stages.
class ForesightBatch final : public SampledBatch {
 public:
  using SampledBatch::SampledBatch;

  std::shared_ptr<const Generation> generation;
  /// The shard's plan, and the rows that it reads, in `read`.
  ShardPlan plan;
  const std::byte* rows = nullptr;
  BufferPool::Lease read;
  io::ReadTally tally;
  int64_t rows_read = 0;
  int64_t gpu_hits = 0;
  /// Of a batch that is assembled on a GPU.
  BatchPlaces places;
  /// The input rows if they stay on a GPU. Destroyed first, which waits until
  /// they no longer need the rest.
  std::unique_ptr<const train::DeviceRows> device_rows;
};

/// Delivers one pass. Belongs to the thread that runs the pass.
class ForesightPass {
 public:
  /// Shards that may wait behind a loader.
  static constexpr int kLoadedWaiting = 2;
  /// Shards with input rows at a time: one is assembled, those of one batch
  /// wait, those of another are with the trainer.
  static constexpr int AssembledAtOnce(int shards) { return 1 + 2 * shards; }
  /// Shards that hold read rows at a time. In place, or if their input rows
  /// stay on a GPU, they hold them until they are released.
  static constexpr int ReadAtOnce(int loaders, int shards, bool stays) {
    return loaders + kLoadedWaiting * shards +
           (stays ? AssembledAtOnce(shards) : 1);
  }

  /// `position`: that of the first shard of the pass.
  ForesightPass(const ForesightPassContext& context, const Pass& pass,
                int64_t position);
  ForesightPass(const ForesightPass&) = delete;
  ForesightPass& operator=(const ForesightPass&) = delete;

  /// As Strategy::Run.
  absl::Status Run(const Strategy::Consumer& consumer, std::stop_token stop,
                   PassReport& report);

 private:
  absl::Status LoadGraph(int thread, ForesightBatch& batch);
  absl::Status LoadRows(int thread, ForesightBatch& batch);
  absl::Status Assemble(int thread, ForesightBatch& batch);
  void Locate(const ShardPlan& plan, BatchPlaces& places) const;
  absl::Status Widen(ForesightBatch& batch);
  absl::Status AssembleOnGpu(ForesightBatch& batch);
  absl::Status EnterRows(const ForesightBatch& batch);
  absl::Status Arrange(ForesightBatch& batch, int64_t position);
  absl::Status Refill(const Generation& generation,
                      absl::Span<const RowSlots::Placed> rows,
                      io::ReadTally& tally);
  // Whether input rows stay where they are until the batch is released.
  bool LeavesInputs() const {
    return context_.cache.slots.gpu() == nullptr ? pass_.rows_in_place
                                                 : pass_.rows_on_gpu;
  }
  int64_t PositionOf(const ForesightBatch& batch) const {
    return position_ + batch.number() - first_shard_;
  }

  const ForesightPassContext context_;
  const Pass& pass_;
  const int64_t position_;
  const int64_t first_shard_;
  // Index of the pass in the timeline.
  const size_t pass_index_;
  const std::vector<store::NodeId> seeds_;
  std::vector<cache::AlignedBuffer> sample_buffers_;
  // One for each loader, and one for the assembler.
  std::vector<std::unique_ptr<RowLoader>> row_loaders_;
  std::unique_ptr<ThreadTeam> assemblers_;
  // Of the batch that is assembled.
  BatchPlaces places_;
  DirectReads direct_reads_;
  std::stop_source abandon_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_FORESIGHT_PASS_H_
