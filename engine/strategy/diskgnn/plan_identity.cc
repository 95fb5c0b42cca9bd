#include "engine/strategy/diskgnn/plan_identity.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/plan/plan_records.h"
#include "engine/plan/plan_store.h"
#include "engine/strategy/diskgnn/packing/layout_index.h"
#include "engine/strategy/sample_stage.h"

namespace hearth::strategy {

int64_t PlanIdentity::num_shards() const {
  return passes.empty() ? 0 : passes.back().first + passes.back().count;
}

IdentifiedPlan IdentifyPlan(const PlanOrigin& origin,
                            absl::Span<const Pass> passes) {
  IdentifiedPlan plan;
  PlanIdentity& identity = plan.identity;
  for (Pass pass : passes) {
    pass.first_batch = 0;
    const std::vector<store::NodeId> seeds = pass.order->Epoch(pass.epoch_key);
    PlannedPass planned = {.digest = DigestOfPass(pass, seeds),
                           .first = identity.num_shards(),
                           .count = ShardsOf(pass, std::ssize(seeds)).count};
    const bool known = std::any_of(
        identity.passes.begin(), identity.passes.end(),
        [&](const auto& other) { return other.digest == planned.digest; });
    if (known) continue;
    identity.passes.push_back(std::move(planned));
    plan.passes.push_back(pass);
  }
  identity.row_bytes = origin.row_bytes;
  const PlanKey key = KeyOfPlan(origin.fingerprint, origin.options,
                                identity.row_bytes, identity.passes);
  identity.id = key.id;
  identity.name = key.name;
  identity.folder = io::JoinPath(std::string(origin.folder), key.name);
  return plan;
}

absl::StatusOr<PackedLayout> ReadPlanIndex(io::FileSystem& files,
                                           const PlanIdentity& identity) {
  const absl::StatusOr<std::string> damage =
      plan::PlanRecords(files, identity.folder).ReadDamage();
  if (damage.ok()) return absl::DataLossError(*damage);
  if (!absl::IsNotFound(damage.status())) return damage.status();
  HEARTH_ASSIGN_OR_RETURN(PackedLayout layout,
                          ReadLayoutIndex(files, identity.folder, identity.id));
  if (layout.num_batches() == identity.num_shards() &&
      layout.row_bytes == identity.row_bytes) {
    return layout;
  }
  return absl::DataLossError(absl::StrCat(
      io::JoinPath(identity.folder, kIndexFile), ": has ", layout.num_batches(),
      " batches with rows of ", layout.row_bytes, " bytes, not ",
      identity.num_shards(), " with rows of ", identity.row_bytes));
}

bool IsUnusable(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsFailedPrecondition(status);
}

uint64_t DiskBytes(const PackedLayout& layout) {
  return layout.total_bytes() + plan::PlanStore::kRecordBytes;
}

}  // namespace hearth::strategy
