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
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/plan/access_trace.h"
#include "engine/plan/plan_records.h"
#include "engine/plan/plan_store.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/remote_rows.h"
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/diskgnn/diskgnn_plan.h"
#include "engine/strategy/diskgnn/layout/layout_search.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/pieces/piece_plan.h"
#include "engine/strategy/packing/offline_sampling.h"
#include "engine/strategy/packing/sample_spool.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"

/// How a plan is made: what the options mean for its layout (LayoutBudget),
/// offline sampling (SampleOffline), and finding or making it (Preparation).
/// The forecast uses the first two.

namespace hearth::strategy {

/// The property of a plan's record that says how its layout was chosen.
inline constexpr char kLayoutProperty[] = "layout";

/// `options` with disk_limit_ratio turned into disk_limit_bytes.
DiskgnnOptions InBytes(DiskgnnOptions options, int64_t num_rows,
                       int64_t row_bytes);

/// Rows that fit into `budget_bytes`, at most `num_nodes`.
int64_t RowsWithin(uint64_t budget_bytes, int64_t row_bytes, int64_t num_nodes);

/// The most popular nodes of a trace, as many as fit into the caches in memory.
/// Errors as plan::AccessCounts::Count.
absl::StatusOr<MemoryLevels> ChooseLevels(plan::AccessTrace& trace,
                                          const DiskgnnOptions& options,
                                          int64_t row_bytes, int64_t num_nodes,
                                          const std::stop_token& stop);

/// The disk space for a layout.
struct LayoutBudget {
  LayoutLimits limits;
  /// Whether the disk and other plans set the limit, not an option.
  bool by_disk = false;
};

/// The disk space for the layout of a plan. `free`: bytes that may be added to
/// the plan's folder (plan::PlanSpace).
LayoutBudget BudgetForLayout(const DiskgnnOptions& options, int64_t row_bytes,
                             uint64_t free);

/// `status`, of a search within `budget` for a plan in `folder`;
/// RESOURCE_EXHAUSTED by the disk's limit says so.
absl::Status ExplainRefusal(const absl::Status& status,
                            const LayoutBudget& budget,
                            const std::string& folder);

/// Everything that a plan is prepared with. Outlives the preparation.
struct PreparationContext {
  const store::Dataset& dataset;
  const store::Labels& labels;
  const store::StoredFeatures& features;
  io::FileSystem& files;
  const Clock& clock;
  const DiskgnnOptions& options;
  RowPlacement placement;
  int samplers = 1;
  /// Where the topology is while batches are sampled.
  TopologyPlace topology = TopologyPlace::kAuto;
  plan::PlanStore& plans;
  /// As StrategyResources::on_scan.
  std::function<void(double bytes_per_second)> on_scan = nullptr;
  const PreparationListener& listener;
  std::stop_token stop;
};

/// Finds the plan for some passes, or makes it (DiskGNN, sections 3 to 5):
/// samples, ranks rows by popularity, searches the layout, packs. Used once, by
/// one thread. Errors as Strategy::Prepare; RESOURCE_EXHAUSTED, with the
/// numbers, if memory or disk do not suffice. A damaged plan is removed and
/// made again; after a failure or a kill, complete samples stay for the next
/// attempt.
class Preparation {
 public:
  Preparation(const PreparationContext& context, absl::Span<const Pass> passes);

  /// The identity of the plan for the passes.
  const PlanIdentity& identity() const { return identity_; }

  /// An open plan, and the lease that keeps it in the plan store. Null while
  /// pieces are to be made (PreparationReport::to_make).
  struct Opened {
    plan::PlanLease lease;
    std::shared_ptr<OpenPlan> plan;
  };
  absl::StatusOr<Opened> Open();

  /// Finds or makes the plan without opening it: damage in a found plan may
  /// only show when it is opened.
  absl::StatusOr<plan::PlanLease> MakeAhead();

  /// The report of Open or MakeAhead.
  PreparationReport report() const { return report_; }

 private:
  void Log(const std::string& line) const;
  void Progress(absl::string_view phase, uint64_t done, uint64_t total) const;
  void Durable() const;
  // Runs `work` and adds its time to the report as a phase.
  template <typename Work>
  auto Phase(const char* name, const Work& work);
  absl::StatusOr<std::shared_ptr<OpenPlan>> Find(plan::PlanLease& lease);
  absl::Status StartAnew(plan::PlanLease& lease, const absl::Status& why) const;
  absl::Status Found(plan::PlanLease& lease, const PackedLayout& layout);
  absl::Status Make(plan::PlanLease& lease);
  absl::Status MakeHere(plan::PlanLease& lease);
  absl::Status MakeOfPieces(plan::PlanLease& lease);
  absl::StatusOr<bool> HasPieces(const PiecePlan& plan, bool read_all);
  absl::StatusOr<PiecePlan> PlanSamples() const;
  absl::StatusOr<PiecePlan> PlanPacks(plan::PlanLease& lease,
                                      const PiecePlan& samples);
  absl::StatusOr<PackedLayout> Join(plan::PlanLease& lease,
                                    const PiecePlan& packs);
  absl::Status Publish(plan::PlanLease& lease, const PackedLayout& layout);
  absl::StatusOr<store::RowSet> WantedRows(plan::AccessTrace& trace,
                                           const MemoryLevels& levels) const;
  absl::StatusOr<std::unique_ptr<SampleSpool>> TakeSamples(
      plan::PlanLease& lease, bool& reused);
  absl::Status Sample(plan::PlanLease& lease) const;
  absl::StatusOr<PackedLayout> Pack(plan::PlanLease& lease, SampleSpool& spool);
  // The levels and the layout for samples that `trace` and `samples` have.
  struct Decision {
    MemoryLevels levels;
    LayoutChoice choice;
  };
  absl::StatusOr<Decision> Decide(plan::PlanLease& lease,
                                  plan::AccessTrace& trace,
                                  const EncodedSamples& samples);
  absl::StatusOr<LayoutChoice> ChooseLayout(const plan::PlanLease& lease,
                                            plan::AccessTrace& trace,
                                            const EncodedSamples& samples,
                                            const MemoryLevels& levels) const;
  void WarnOfSize(const PackedLayout& layout) const;
  plan::PlanProperties Describe(const PackedLayout& layout) const;
  std::string SpoolPath() const;
  // The folder of scratch files of sampling in slabs.
  std::string SlabsPath() const;

  const PreparationContext& context_;
  // The distinct passes, in the plan's order.
  std::vector<Pass> passes_;
  PlanIdentity identity_;
  PreparationReport report_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PREPARATION_H_
