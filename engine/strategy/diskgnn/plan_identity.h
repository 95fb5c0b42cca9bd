#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PLAN_IDENTITY_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PLAN_IDENTITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/options.h"
#include "engine/strategy/diskgnn/plan_key.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Where a plan is and what it is for.
struct PlanIdentity {
  /// In the plan store.
  std::string name;
  std::string folder;
  uint64_t id = 0;
  /// Bytes of a row of the features.
  int64_t row_bytes = 0;
  std::vector<PlannedPass> passes;

  int64_t num_shards() const;
  bool operator==(const PlanIdentity&) const = default;
};

/// The facts by which a plan is looked for. `options` have limits in bytes.
struct PlanOrigin {
  /// Fingerprint of the dataset, and bytes of a row of its features.
  absl::string_view fingerprint;
  int64_t row_bytes = 0;
  const DiskgnnOptions& options;
  /// The folder of all plans.
  absl::string_view folder;
};

/// The plan for some passes.
struct IdentifiedPlan {
  PlanIdentity identity;
  /// Each once, in the order of the plan's, from their first batch on.
  std::vector<Pass> passes;
};

/// Works out all seeds of the passes; reads no file.
IdentifiedPlan IdentifyPlan(const PlanOrigin& origin,
                            absl::Span<const Pass> passes);

/// The index of a plan, which is there and whole as far as that is known.
/// Errors as ReadLayoutIndex; DATA_LOSS, too, if it is not for these
/// passes, or if somebody has read damage, which it tells.
absl::StatusOr<PackedLayout> ReadPlanIndex(io::FileSystem& files,
                                           const PlanIdentity& identity);

/// Whether a plan that gave this error is of no use but to be made anew.
bool IsUnusable(const absl::Status& status);

/// Bytes of the plan on disk, the store's records included.
uint64_t DiskBytes(const PackedLayout& layout);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PLAN_IDENTITY_H_
