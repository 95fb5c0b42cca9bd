#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_INSPECTOR_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_INSPECTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/sample/neighbor_cache.h"
#include "engine/sample/stored_sampler.h"
#include "engine/strategy/strategy.h"
#include "engine/strategy/superbatch/neighbor_lists.h"
#include "engine/strategy/superbatch/runtime_files.h"
#include "engine/strategy/superbatch/superbatch_options.h"

namespace hearth::strategy {

/// Everything that the samplers of a pass work with. Outlives the inspector.
struct InspectorContext {
  const SuperbatchData& data;
  io::ReadQueues& read_queues;
  const Clock& clock;
  const Pass& pass;
  /// All seeds of the pass.
  absl::Span<const store::NodeId> seeds;
  RuntimeFiles& files;
  /// Neighbor lists in addition to the neighbor cache; null: none.
  ListSource* lists = nullptr;
  /// Sampling threads, and reads that each keeps in flight.
  int samplers = 1;
  int io_depth = 64;
};

/// Samples the superbatches of a pass into files (Ginex, section 3.1,
/// superbatch sample). Belongs to the thread that runs the pass.
class Inspector {
 public:
  explicit Inspector(const InspectorContext& context);

  /// Samples `superbatch`, reading lists that `neighbors` does not hold, while
  /// `beside` runs on the caller's thread. Returns the first error of either
  /// side, which stops the other; the token given to `beside` requests its
  /// stop.
  absl::Status Sample(
      const Superbatch& superbatch, const sample::NeighborCache& neighbors,
      std::stop_token stop,
      const std::function<absl::Status(std::stop_token)>& beside);

  /// Sizes of everything sampled so far.
  SuperbatchProfile profile() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Reads of neighbor lists so far.
  io::ReadTally tally() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Lists that neighbors were drawn from, by where they were found.
  sample::ListTally lists() const ABSL_LOCKS_EXCLUDED(mutex_);

  /// Time of its threads by stage: "lists", if there is a source of lists, and
  /// the stages of SampleStages (sampling.h).
  const std::vector<pipeline::StageStats>& stages() const { return stages_; }

  /// Seconds during which superbatches were being sampled.
  double seconds() const { return seconds_; }

 private:
  class Sampler;
  using Samplers = std::vector<std::unique_ptr<Sampler>>;

  absl::StatusOr<Samplers> NewSamplers(const sample::NeighborCache& neighbors,
                                       const std::stop_token& stop) const;
  pipeline::Stage ListStage(ListFeed& feed, int64_t count) const;
  pipeline::Stage DecideStage();
  absl::Status KeepSample(int64_t number, const sample::MiniBatch& batch)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void AddStages(const std::vector<pipeline::StageStats>& stages);
  void AddTallies(const Sampler& sampler) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(const io::ReadTally& tally) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const InspectorContext context_;
  // The decisions of the pass over all its superbatches; absent without a
  // history.
  std::optional<sample::HistoryDecisions> decisions_;
  mutable absl::Mutex mutex_;
  SuperbatchProfile profile_ ABSL_GUARDED_BY(mutex_);
  io::ReadTally tally_ ABSL_GUARDED_BY(mutex_);
  sample::ListTally lists_ ABSL_GUARDED_BY(mutex_);
  double last_sampled_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<pipeline::StageStats> stages_;
  double seconds_ = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_INSPECTOR_H_
