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
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/diskgnn/diskgnn_plan.h"
#include "engine/strategy/diskgnn/layout/layout_search.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/packing/sample_spool.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy.h"

/// The meaning of a job's options for the layout of its plan, shared by
/// preparation and forecast.

namespace hearth::strategy {

/// The property of a plan that says how its layout was chosen.
inline constexpr char kLayoutProperty[] = "layout";

/// `options` with a limit in bytes alone.
DiskgnnOptions InBytes(DiskgnnOptions options, int64_t num_rows,
                       int64_t row_bytes);

/// Rows that `budget_bytes` hold.
int64_t RowsWithin(uint64_t budget_bytes, int64_t row_bytes, int64_t num_nodes);

/// The most popular nodes of a trace, as many as there is memory for. Errors as
/// plan::AccessCounts::Count.
absl::StatusOr<MemoryLevels> ChooseLevels(plan::AccessTrace& trace,
                                          const DiskgnnOptions& options,
                                          int64_t row_bytes, int64_t num_nodes,
                                          const std::stop_token& stop);

/// The limits of the layout.
struct LayoutRoom {
  LayoutLimits limits;
  /// Whether the limit is what the disk and other plans leave, not an option.
  bool by_disk = false;
};

/// `free` is what may be written in the plan's folder (plan::PlanRoom).
LayoutRoom RoomForLayout(const DiskgnnOptions& options, int64_t row_bytes,
                         uint64_t free);

/// `status` of a search in that room, for a plan in `folder`: tells where the
/// limit comes from if it is too small.
absl::Status ExplainRefusal(const absl::Status& status, const LayoutRoom& room,
                            const std::string& folder);

/// Where offline samples go, and how they are made. All of it outlives the
/// call.
struct OfflineSampling {
  io::FileSystem& files;
  const Clock& clock;
  SampleSource source;
  /// Threads.
  int samplers = 1;
  /// The path of the spool; its folder is there.
  std::string path;
  /// Called before so many more bytes are written. May be empty.
  std::function<absl::Status(uint64_t bytes)> make_room = nullptr;
  /// Hears of shards done and in all. May be empty.
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
};

/// Samples all shards of all `passes`, pass after pass, before training
/// (DiskGNN, section 3), by several threads, into a SampleSpool in their
/// order. RESOURCE_EXHAUSTED if the disk is full; CANCELLED when `stop` is
/// requested; errors of `make_room`; after an error nothing is left.
absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes, std::stop_token stop);

/// The same of the shards `picks` alone, which SpreadOver made of `passes`.
absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes,
                           absl::Span<const ShardPick> picks,
                           std::stop_token stop);

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
