#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PREPARATION_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PREPARATION_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/plan/plan_lease.h"
#include "engine/plan/plan_records.h"
#include "engine/plan/plan_store.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/strategy/diskgnn/layout/layout_search.h"
#include "engine/strategy/diskgnn/layout/memory_levels.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/options.h"
#include "engine/strategy/diskgnn/packing/sample_spool.h"
#include "engine/strategy/diskgnn/plan_identity.h"
#include "engine/strategy/diskgnn/prepared_plan.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Everything that a plan is prepared with; it outlives the preparation.
struct PreparationContext {
  const store::Dataset& dataset;
  const store::Labels& labels;
  const store::StoredFeatures& features;
  io::FileSystem& files;
  const Clock& clock;
  const DiskgnnOptions& options;
  RowPlacement placement;
  int samplers = 1;
  plan::PlanStore& plans;
  const PreparationListener& listener;
  std::stop_token stop;
};

/// Finds the plan for some passes, or makes it (DiskGNN, sections 3 to 5):
/// samples, ranks rows by popularity, searches the layout, packs. Used once, by
/// one thread. Errors as Strategy::Prepare; RESOURCE_EXHAUSTED, with the
/// numbers, if memory or disk do not do. A damaged plan is removed and made
/// anew; after a failure or a kill, samples that are whole stay for the next
/// attempt.
class Preparation {
 public:
  Preparation(const PreparationContext& context, absl::Span<const Pass> passes);

  /// The name of that plan.
  const PlanIdentity& identity() const { return identity_; }

  /// A plan, open, and the right to use it.
  struct Opened {
    plan::PlanLease lease;
    std::shared_ptr<PreparedPlan> plan;
  };
  absl::StatusOr<Opened> Open();

  /// Without opening it, so that damage may show when it is opened.
  absl::StatusOr<plan::PlanLease> MakeAhead();

  /// The report of what was done.
  PreparationReport report() const { return report_; }

 private:
  void Log(const std::string& line) const;
  void Progress(absl::string_view phase, uint64_t done, uint64_t total) const;
  void Durable() const;
  // Does `work` as a phase of the report.
  template <typename Work>
  auto Phase(const char* name, const Work& work);
  absl::StatusOr<std::shared_ptr<PreparedPlan>> Find(plan::PlanLease& lease);
  absl::Status StartAnew(plan::PlanLease& lease, const absl::Status& why) const;
  absl::Status Found(plan::PlanLease& lease, const PackedLayout& layout);
  absl::Status Make(plan::PlanLease& lease);
  absl::StatusOr<std::unique_ptr<SampleSpool>> TakeSamples(
      plan::PlanLease& lease, bool& reused);
  absl::Status Sample(plan::PlanLease& lease) const;
  absl::StatusOr<PackedLayout> Pack(plan::PlanLease& lease, SampleSpool& spool);
  absl::StatusOr<LayoutChoice> ChooseLayout(const plan::PlanLease& lease,
                                            SampleSpool& spool,
                                            const MemoryLevels& levels) const;
  void WarnOfSize(const PackedLayout& layout) const;
  plan::PlanProperties Describe(const PackedLayout& layout) const;
  std::string SpoolPath() const;

  const PreparationContext& context_;
  // Each once, in the order of the plan's.
  std::vector<Pass> passes_;
  PlanIdentity identity_;
  PreparationReport report_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PREPARATION_H_
