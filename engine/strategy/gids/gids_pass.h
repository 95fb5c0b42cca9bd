#ifndef HEARTH_ENGINE_STRATEGY_GIDS_GIDS_PASS_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_GIDS_PASS_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/random.h"
#include "engine/cache/window_cache.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/dataset.h"
#include "engine/store/topology.h"
#include "engine/strategy/gids/batch_assembler.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

class GidsBatch;

/// The limits within which reads of several batches overlap.
struct MergeLimits {
  /// Reads to keep under way.
  int64_t target_reads = 1;
  /// Reads in flight.
  int depth = 1;
  int64_t merge_max = 1;
  /// Memory of all batches between their reads and their assembly. A batch that
  /// takes more is read alone.
  uint64_t staging_bytes = 0;
};

/// Everything that a pass works with. Outlives the pass.
struct GidsContext {
  SampleSource source;
  const store::StoredFeatures& features;
  /// Null: rows are not checked.
  const io::RowCheck* row_check = nullptr;
  io::ReadQueues& read_queues;
  const Clock& clock;
  const ConstantBuffer& buffer;
  /// The window cache's table, empty if the last pass failed; the assembler
  /// holds the lines.
  cache::WindowCache& window;
  BatchAssembler& assembler;
  /// Buffers of input rows.
  BufferPool& inputs;
  MergeLimits limits;
  /// Batches that the window holds behind the one that is located.
  int64_t window_batches = 0;
  int samplers = 1;
};

/// The random numbers by which shard `number` draws rows to evict.
RandomStream EvictionStream(const Pass& pass, int64_t number);

/// Bytes with which a batch counts in the staging memory, without its sample:
/// where its rows are, its missing rows, and the plan of their reads.
uint64_t StagedBytes(int64_t num_rows, int64_t num_missing, int64_t row_bytes);

/// Runs one pass of GIDS. Used once, by one thread.
class GidsPass {
 public:
  /// Batches that may wait before a stage once they are located.
  static constexpr int kWaiting = 1;
  /// Sampled batches that may wait for the window.
  static constexpr int kSampledWaiting = 2;

  /// Keeps `report` up to date as Strategy::Run says.
  GidsPass(const GidsContext& context, const Pass& pass, PassReport& report);
  GidsPass(const GidsPass&) = delete;
  GidsPass& operator=(const GidsPass&) = delete;

  absl::Status Run(const Strategy::Consumer& consumer, std::stop_token stop);

 private:
  pipeline::Stage LocateStage();
  pipeline::Stage ReadStage();
  pipeline::Stage AssembleStage();
  absl::Status LocateAll(pipeline::StagePorts& ports);
  absl::Status ReadAll(pipeline::StagePorts& ports);
  // Whether `batch` fits into the staging memory together with the staged
  // batches; alone, any does.
  bool HasRoomFor(const GidsBatch& batch) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns once `batch` fits, or once the pass is abandoned.
  void WaitForRoom(const GidsBatch& batch) ABSL_LOCKS_EXCLUDED(mutex_);
  bool HasRoomForLocked(const GidsBatch& batch) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Abandon() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Admit(GidsBatch& batch, io::RowStream& stream)
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Assemble(GidsBatch& batch) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status BringTogether(GidsBatch& batch);
  void Count(const GidsBatch& batch);

  const GidsContext context_;
  const Pass& pass_;
  PassReport& report_;
  const std::vector<store::NodeId> seeds_;
  Locator locator_;
  std::stop_source abandon_;
  absl::Mutex mutex_;
  // Signalled when a batch was assembled, or the pass abandoned.
  absl::CondVar space_freed_;
  // Staging memory of batches that were admitted and not yet assembled.
  uint64_t staged_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_GIDS_PASS_H_
