#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_PASS_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_PASS_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/store/topology.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/executor.h"
#include "engine/strategy/superbatch/inspector.h"
#include "engine/strategy/superbatch/neighbor_lists.h"
#include "engine/strategy/superbatch/runtime_files.h"
#include "engine/strategy/superbatch/superbatch_options.h"

namespace hearth::strategy {

/// Everything that the passes of a strategy share. Outlives them.
struct SuperbatchContext {
  const SuperbatchData& data;
  NeighborCacheFile& neighbors;
  /// Bytes of the neighbor cache at most.
  uint64_t neighbor_cache_bytes = 0;
  /// Neighbor lists in addition to the neighbor cache; null: none.
  ListSource* lists = nullptr;
  io::ReadQueues& read_queues;
  const Clock& clock;
  BufferPool& inputs;
  BufferPool& admitted;
  SuperbatchOptions options;
  PipelineOptions pipeline;
};

/// Runs one pass: its superbatches one after the other; each is planned while
/// the next is sampled (Ginex, section 3.1 and figure 9). Used once, by one
/// thread.
class SuperbatchPass {
 public:
  /// Keeps `report` up to date as Strategy::Run says.
  SuperbatchPass(const SuperbatchContext& context, const Pass& pass,
                 RuntimeFiles& files, PassReport& report);

  absl::Status Run(const Strategy::Consumer& consumer, std::stop_token stop);

  /// Samples and plans all superbatches and counts the reads that executing
  /// them would make, without making them. Fills in the report as Run would.
  /// Delivers nothing.
  absl::StatusOr<RowReads> Foretell(std::stop_token stop);

 private:
  // Indices in the report's phases.
  enum Phase {
    kPrepare,
    kInspect,
    kSample,
    kChangeset,
    kSwitch,
    kCacheUpdate,
    kExecute
  };

  static PassReport EmptyReport(const SuperbatchContext& context,
                                const Inspector& inspector);

  // Executes, or counts, a superbatch that was sampled and planned.
  using Executing = absl::FunctionRef<absl::Status(const Superbatch&)>;

  absl::Status RunAll(Executing execute, const std::stop_token& stop);
  absl::StatusOr<Superbatch> SampleFirst(const std::stop_token& stop);
  absl::StatusOr<int64_t> ProfiledSize() const;
  Superbatch After(const Superbatch& superbatch) const;
  absl::Status Inspect(const Superbatch& current, const Superbatch& next,
                       const std::stop_token& stop);
  absl::Status Sample(const Superbatch& superbatch,
                      const std::stop_token& stop);
  absl::Status Plan(const Superbatch& superbatch, std::stop_token stop);
  absl::Status Execute(const Superbatch& superbatch,
                       const Strategy::Consumer& consumer,
                       const std::stop_token& stop);
  absl::Status CountReads(const Superbatch& superbatch, RowReadCounter& reads,
                          const std::stop_token& stop);
  int64_t Capacity() const;
  int64_t InShards(int64_t batches) const;
  int64_t End() const { return shards_.first + shards_.count; }
  PassReport With(const PassReport& part) const;
  void AddInspection();

  template <typename Work>
  absl::Status Timed(Phase phase, Work work) {
    const double start = context_.clock.SteadySeconds();
    const absl::Status status = work();
    whole_.phases[phase].seconds += context_.clock.SteadySeconds() - start;
    return status;
  }

  const SuperbatchContext context_;
  const Pass& pass_;
  RuntimeFiles& files_;
  PassReport& report_;
  const double start_;
  const std::vector<store::NodeId> seeds_;
  const ShardRange shards_;
  // Shards in a superbatch; 0 until known.
  int64_t size_ = 0;
  Inspector inspector_;
  // Offsets of the records of the current superbatch's plan.
  std::vector<uint64_t> plan_offsets_;
  // The report without the superbatch that is being executed.
  PassReport whole_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_SUPERBATCH_PASS_H_
