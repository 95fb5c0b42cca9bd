#ifndef HEARTH_ENGINE_STRATEGY_FORESIGHT_KEPT_SOURCE_H_
#define HEARTH_ENGINE_STRATEGY_FORESIGHT_KEPT_SOURCE_H_

#include <memory>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/io/file_system.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/sampling.h"

/// The topology from which passes are sampled one after the other (KeptSource).

namespace hearth::strategy {

/// Opens the data to sample from when it is first needed, and keeps it from
/// pass to pass, but for slabs, which are read anew for each. Thread-safe.
class KeptSource {
 public:
  /// As OpenSource; all arguments outlive the object.
  KeptSource(const store::Dataset& dataset, const store::Labels& labels,
             TopologyPlace place, io::FileSystem& files)
      : dataset_(dataset), labels_(labels), place_(place), files_(files) {}

  /// Slabs may be in `scratch_folder`. Errors as OpenSource.
  absl::StatusOr<std::shared_ptr<const OpenedSource>> Open(
      const std::string& scratch_folder, const std::stop_token& stop)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const store::Dataset& dataset_;
  const store::Labels& labels_;
  const TopologyPlace place_;
  io::FileSystem& files_;
  absl::Mutex mutex_;
  std::shared_ptr<const OpenedSource> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_FORESIGHT_KEPT_SOURCE_H_
