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
#include "engine/cache/direct_cache.h"
#include "engine/io/queued_reader.h"
#include "engine/io/read_queues.h"
#include "engine/io/row_reader.h"
#include "engine/pipeline/pipeline.h"
#include "engine/strategy/buffer_pool.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/changeset_file.h"
#include "engine/strategy/superbatch/runtime_files.h"
#include "engine/strategy/superbatch/superbatch_data.h"

namespace hearth::strategy {

class ExecutedBatch;

/// Everything that the main loop of a pass works with; it outlives the
/// executor.
struct ExecutorContext {
  const SuperbatchData& data;
  io::ReadQueues& read_queues;
  const Clock& clock;
  const Pass& pass;
  /// All seeds of the pass.
  absl::Span<const store::NodeId> seeds;
  RuntimeFiles& files;
  /// Input rows, and rows on their way into the cache.
  BufferPool& inputs;
  BufferPool& admitted;
  /// Rows that the cache holds.
  int64_t capacity = 0;
  /// Threads that load samples, and reads in flight of the one that reads rows.
  int loaders = 1;
  int io_depth = 64;
};

/// Executes one superbatch (Ginex, section 3.1): fills the feature cache, then
/// brings its batches together in the main loop. Holds the cache: made when the
/// memory for it is free. Belongs to the thread that runs the pass.
class Executor {
 public:
  /// Batches loaded ahead of the one that is read.
  static constexpr int kLoadedWaiting = 2;
  /// Batches in `shards` shards: shards with input rows, at most: one is read,
  /// a batch waits, one is assembled, a batch waits, a batch is with the
  /// trainer.
  static constexpr int AssembledAtOnce(int shards) { return 2 + 3 * shards; }

  /// Bytes that a batch carries beside its sample, for each of its rows: from
  /// its changeset's file until it is read; and from then on.
  static constexpr uint64_t kLoadedBytesPerRow = 40;
  static constexpr uint64_t kReadBytesPerRow = 72;

  /// Rows that are read at once when the cache is filled.
  static constexpr int64_t kFilledAtOnce = 64 << 10;

  /// Reads the rows that the plan (whose records begin at `offsets`) starts
  /// with; adds what that took to `report`.
  static absl::StatusOr<std::unique_ptr<Executor>> Make(
      const ExecutorContext& context, const Superbatch& superbatch,
      std::vector<uint64_t> offsets, std::stop_token stop, PassReport& report);

  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Delivers the superbatch. `report` is as Deliver leaves it, with what was
  /// read and hit for the batches delivered; its phases hold "cache_update"
  /// alone and its hits "cpu_cache" alone.
  absl::Status Run(const Strategy::Consumer& consumer, std::stop_token stop,
                   PassReport& report);

 private:
  Executor(const ExecutorContext& context, const Superbatch& superbatch,
           cache::DirectCache rows, io::QueuedReader reader);

  absl::Status Fill(std::stop_token stop, PassReport& report);
  pipeline::Stage LoadStage();
  pipeline::Stage ReadStage();
  pipeline::Stage AssembleStage();
  absl::Status Load(ExecutedBatch& batch) const;
  absl::Status Read(ExecutedBatch& batch);
  void Locate(ExecutedBatch& batch);
  absl::Status ReadMisses(ExecutedBatch& batch);
  void Assemble(ExecutedBatch& batch);

  const ExecutorContext context_;
  const Superbatch superbatch_;
  std::unique_ptr<ChangesetFileReader> plan_;
  // Its table belongs to the reading stage, its rows to the assembling one.
  cache::DirectCache rows_;
  io::QueuedReader reader_;
  std::stop_source abandon_;
  // By slot: whether the row was read to fill the cache and not needed yet.
  std::vector<bool> unused_;
  // Lists of the batch being read: the nodes to read, their positions, and for
  // each position the index in in_ids of the row that enters the cache, or -1.
  std::vector<int64_t> misses_;
  std::vector<int64_t> miss_positions_;
  std::vector<int32_t> entering_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_EXECUTOR_H_
