#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_PASS_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_PASS_H_

#include <cstddef>
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
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/feature_rows.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/diskgnn_plan.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"

namespace hearth::strategy {

/// A shard on its way through the stages of DiskGNN.
class PackedBatch final : public SampledBatch {
 public:
  using SampledBatch::SampledBatch;

  AddressTable table;
  /// Bytes read for the shard: the pack and, behind it, rows of the disk cache.
  BufferPool::Lease read;
  /// Rows in `read`, as stored, in the order of the table.
  absl::Span<const std::byte> packed_rows;
  absl::Span<std::byte> disk_rows;
  /// All reads; its rows and payload count the disk cache alone.
  io::ReadTally tally;
  LevelCounts counts;
  /// The input rows if they stay on the GPU; else null. Destroyed before
  /// `read`, from which they are made.
  std::unique_ptr<const train::DeviceRows> device_rows;
};

/// Everything that a pass works with. Outlives the pass.
struct DiskgnnContext {
  const OpenPlan& plan;
  const store::Labels& labels;
  store::RowFormat format;
  io::ReadQueues& read_queues;
  const Clock& clock;
  /// Buffers of input rows, and of bytes read from the plan.
  BufferPool& inputs;
  BufferPool& reads;
  /// Whether the options have a GPU cache.
  bool gpu_cache = false;
  /// Threads of each loader and of the assembler; reads that each thread of a
  /// loader keeps in flight.
  int loaders = 1;
  int io_depth = 64;
};

/// Delivers one pass from its plan (DiskGNN, sections 5.3 and 6). Belongs to
/// the thread that runs the pass.
class DiskgnnPass {
 public:
  /// Batches that may wait behind a loader (section 6).
  static constexpr int kLoadedWaiting = 2;
  /// Shards with input rows at a time: one is assembled, those of one batch
  /// wait, those of another are with the trainer.
  static constexpr int AssembledAtOnce(int shards) { return 1 + 2 * shards; }
  /// Shards that hold read bytes at a time: one for each loader, those that
  /// wait, and the one being assembled; if rows stay on a GPU, all assembled
  /// ones, too.
  static constexpr int ReadAtOnce(int loaders, int shards, bool rows_on_gpu) {
    return loaders + kLoadedWaiting * shards +
           (rows_on_gpu ? AssembledAtOnce(shards) : 1);
  }
  /// Memory of the reads in flight of one thread of a loader.
  static uint64_t StagingBytes(int io_depth);

  /// `planned` is the plan's entry for `pass`, whose seeds are `seeds`; both
  /// outlive the result. Errors as ReadQueues::Take and
  /// DiskCacheReader::Create.
  static absl::StatusOr<std::unique_ptr<DiskgnnPass>> Make(
      const DiskgnnContext& context, const Pass& pass,
      const std::vector<store::NodeId>& seeds, const PlannedPass& planned);

  DiskgnnPass(const DiskgnnPass&) = delete;
  DiskgnnPass& operator=(const DiskgnnPass&) = delete;

  /// As Strategy::Run.
  absl::Status Run(const Strategy::Consumer& consumer, std::stop_token stop,
                   PassReport& report);

 private:
  // The state of one thread of the graph loader, and of the feature loader.
  struct GraphLoader {
    BufferPool::Lease buffer;
  };
  struct FeatureLoader {
    io::ReadQueues::Handle queue;
    // Destroyed before the queue. Null if the plan has no disk cache.
    std::unique_ptr<DiskCacheReader> reader;
  };

  DiskgnnPass(const DiskgnnContext& context, const Pass& pass,
              const std::vector<store::NodeId>& seeds,
              const PlannedPass& planned);

  absl::Status MakeThreads();
  pipeline::Stage GraphStage();
  pipeline::Stage FeatureStage();
  pipeline::Stage AssembleStage();
  absl::Status LoadGraph(int thread, PackedBatch& batch);
  absl::Status LoadFeatures(int thread, PackedBatch& batch);
  absl::Status Assemble(PackedBatch& batch);

  const DiskgnnContext context_;
  const Pass& pass_;
  const std::vector<store::NodeId>& seeds_;
  // The first shard of the pass in the plan's trace.
  const int64_t first_;
  std::vector<GraphLoader> graph_loaders_;
  std::vector<FeatureLoader> feature_loaders_;
  std::unique_ptr<ThreadTeam> assemblers_;
  std::stop_source abandon_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_PASS_H_
