#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_EXECUTOR_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/thread_team.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/read_plan.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/changeset.h"
#include "engine/strategy/superbatch/runtime_files.h"

/// The execution of a planned superbatch (Executor), and the count of its reads
/// without execution (RowReadCounter).

namespace hearth::strategy {

class ExecutedBatch;

/// Everything that the main loop of a pass works with. Outlives the executor.
struct ExecutorContext {
  const SuperbatchData& data;
  io::ReadQueues& read_queues;
  const Clock& clock;
  const Pass& pass;
  /// All seeds of the pass.
  absl::Span<const store::NodeId> seeds;
  RuntimeFiles& files;
  /// Buffers of input rows, and of rows on their way into the cache.
  BufferPool& inputs;
  BufferPool& admitted;
  /// Rows that the cache holds.
  int64_t capacity = 0;
  /// Threads that load samples, as many that read rows, and as many that
  /// assemble a batch; reads that each reading thread keeps in flight.
  int extractors = 1;
  int io_depth = 64;
};

/// Executes one superbatch (Ginex, section 3.1): fills the feature cache, then
/// assembles the batches in the main loop. Holds the cache, and is therefore
/// made once the neighbor cache has released its memory. Belongs to the thread
/// that runs the pass.
class Executor {
 public:
  /// Batches loaded ahead of the one that is located.
  static constexpr int kLoadedWaiting = 2;
  /// Shards that a thread reads at once: those of which the last reads are in
  /// flight, and the next one, which joins where there is a place for them.
  static constexpr int kReadAtOnce = 2;
  /// Batches in `shards` shards: shards that are located: one is, a batch
  /// waits.
  static constexpr int LocatedAtOnce(int shards) { return 1 + shards; }
  /// Shards whose rows are read or wait to be assembled, where each of
  /// `threads` reads up to `at_once`: as many as all hold, and a batch that
  /// waits. But a thread takes a second one only if there is a place for its
  /// first, which is then the one that does not wait.
  static constexpr int ReadAndWaiting(int threads, int at_once, int shards) {
    return threads * at_once + shards - (at_once > 1 ? 1 : 0);
  }
  /// Shards with rows that enter the cache: one is assembled besides.
  static constexpr int EnteringAtOnce(int read_and_waiting) {
    return read_and_waiting + 1;
  }
  /// Shards with input rows: a batch waits and a batch is with the trainer
  /// besides.
  static constexpr int AssembledAtOnce(int read_and_waiting, int shards) {
    return read_and_waiting + 1 + 2 * shards;
  }

  /// Bytes that a batch carries beside its sample, for each of its rows: from
  /// its changeset's file until it is located; and from then on.
  static constexpr uint64_t kLoadedBytesPerRow = 40;
  static constexpr uint64_t kReadBytesPerRow = 72;

  /// Filling the cache: rows planned at a time, bytes of a read at most, reads
  /// in flight. The rows lie close together, so that the file is read nearly
  /// from end to end.
  static constexpr int64_t kFilledAtOnce = 64 << 10;
  static constexpr uint64_t kFillReadBytes = 256 << 10;
  static constexpr int kFillDepth = 16;

  /// A reader for filling the cache. `features` and `check` outlive it; a null
  /// `check` checks no row. Errors as io::QueuedReader::Open.
  static absl::StatusOr<io::QueuedReader> OpenFiller(
      io::ReadQueues& queues, const Clock& clock, int io_depth,
      const store::StoredFeatures& features, const io::RowCheck* check);

  /// Makes an executor with the cache filled with the plan's initial rows; the
  /// plan's records begin at `offsets`. Adds the reads of filling to `report`.
  static absl::StatusOr<std::unique_ptr<Executor>> Make(
      const ExecutorContext& context, const Superbatch& superbatch,
      std::vector<uint64_t> offsets, std::stop_token stop, PassReport& report);

  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Delivers the superbatch. Sets `report` as Deliver does, with reads and
  /// hits of the delivered batches; its only phase is "cache_update", its only
  /// level of hits "cpu_cache".
  absl::Status Run(const Strategy::Consumer& consumer, std::stop_token stop,
                   PassReport& report);

 private:
  Executor(const ExecutorContext& context, const Superbatch& superbatch,
           cache::DirectCache rows, std::unique_ptr<ThreadTeam> assemblers);

  absl::Status Fill(std::stop_token stop, PassReport& report);
  pipeline::Stage LoadStage();
  pipeline::Stage LocateStage();
  pipeline::Stage ReadStage();
  pipeline::Stage AssembleStage();
  absl::Status Load(ExecutedBatch& batch) const;
  void Locate(ExecutedBatch& batch);
  void LocateEntering(ExecutedBatch& batch);
  absl::Status ReadAll(pipeline::StagePorts& ports);
  absl::Status Begin(ExecutedBatch& batch, io::RowStream& stream);
  void Assemble(ExecutedBatch& batch);

  const ExecutorContext context_;
  const Superbatch superbatch_;
  std::unique_ptr<ChangesetFileReader> plan_;
  // The locating stage owns its table, the assembling stage its rows.
  cache::DirectCache rows_;
  const std::unique_ptr<ThreadTeam> assemblers_;
  std::stop_source abandon_;
  // By slot: whether the row was read to fill the cache and was not needed yet.
  std::vector<bool> unused_;
  // For each position of the batch being located: the index in in_ids if its
  // row enters the cache, else -1.
  std::vector<int32_t> entering_;
};

/// The reads of an execution, by purpose.
struct RowReads {
  io::ReadTally filling;
  io::ReadTally executing;
};

/// Counts the reads that Executors would make for the rows of superbatches,
/// without making them. Single-owner.
class RowReadCounter {
 public:
  /// A counter for readers with `depth` reads in flight. `features` outlives
  /// it. Errors as io::QueuedReader::Open.
  static absl::StatusOr<RowReadCounter> Make(
      io::ReadQueues& queues, const Clock& clock, int depth,
      const store::StoredFeatures& features);

  /// Counts filling the cache, whose former rows are gone, with `nodes` in any
  /// order.
  absl::Status Fill(std::vector<store::NodeId> nodes);

  /// Counts a batch that needs `nodes`, and applies its changeset.
  absl::Status Add(absl::Span<const store::NodeId> nodes,
                   const Changeset& changeset);

  /// Rows needed by all batches so far.
  int64_t rows_needed() const { return rows_needed_; }

  /// Reads counted so far; they have no waiting times.
  const RowReads& reads() const { return reads_; }

 private:
  RowReadCounter(const store::StoredFeatures& features,
                 const io::ReadCost& filling, const io::ReadCost& executing);

  absl::Status CountReads(absl::Span<const store::NodeId> nodes,
                          const io::ReadCost& cost, io::ReadTally& tally);

  const store::StoredFeatures& features_;
  const io::ReadCost filling_;
  const io::ReadCost executing_;
  // [num_nodes] whether the cache holds the row.
  std::vector<bool> inside_;
  std::vector<store::NodeId> misses_;
  io::ReadPlan plan_;
  int64_t rows_needed_ = 0;
  RowReads reads_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_EXECUTOR_H_
