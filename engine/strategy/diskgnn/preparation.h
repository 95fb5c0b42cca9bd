#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PREPARATION_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PREPARATION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/plan/layout/layout_search.h"
#include "engine/plan/layout/memory_levels.h"
#include "engine/plan/layout/sample_spool.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/diskgnn/prepared_plan.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// What a plan is prepared with. All of it outlives the preparation.
struct PreparationContext {
  const store::Dataset& dataset;
  const store::Labels& labels;
  const store::StoredFeatures& features;
  io::FileSystem& files;
  const Clock& clock;
  const DiskgnnOptions& options;
  RowPlacement placement;
  int samplers = 1;
  /// That holds the plans' folders; made if it is not there.
  std::string plans_folder;
  /// Whether the plans in it are this strategy's alone: then none but the last
  /// one is kept.
  bool exclusive = false;
  /// May be empty.
  const std::function<void(const std::string&)>& log;
  std::stop_token stop;
};

/// Finds the plan for some passes, or makes it (DiskGNN, sections 3 to 5):
/// samples, ranks rows by popularity, searches the layout, packs. Used once, by
/// one thread.
class Preparation {
 public:
  Preparation(const PreparationContext& context, absl::Span<const Pass> passes);

  /// `current`, if that is the plan and whole; otherwise it is closed first.
  /// Errors as Strategy::Prepare; RESOURCE_EXHAUSTED, with the numbers, if
  /// memory or disk do not do. A damaged plan is removed and made anew; after a
  /// failure or a kill, samples that are whole stay for the next attempt.
  absl::StatusOr<std::unique_ptr<PreparedPlan>> Run(
      std::unique_ptr<PreparedPlan> current);

 private:
  void Log(const std::string& line) const;
  void Identify();
  absl::Status MakeFolder() const;
  absl::StatusOr<std::unique_ptr<PreparedPlan>> Find() const;
  absl::Status Make() const;
  absl::StatusOr<std::unique_ptr<plan::SampleSpool>> TakeSamples(
      bool& reused) const;
  absl::Status Sample() const;
  absl::StatusOr<uint64_t> Pack(plan::SampleSpool& spool) const;
  absl::StatusOr<plan::MemoryLevels> ChooseLevels(
      plan::SampleSpool& spool) const;
  absl::StatusOr<plan::LayoutChoice> ChooseLayout(
      plan::SampleSpool& spool, const plan::MemoryLevels& levels) const;
  std::string SpoolPath() const;

  const PreparationContext& context_;
  // Each once, in the order of the plan's.
  std::vector<Pass> passes_;
  PlanIdentity identity_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PREPARATION_H_
