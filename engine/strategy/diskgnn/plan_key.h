#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PLAN_KEY_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PLAN_KEY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/options.h"
#include "engine/strategy/strategy.h"

/// Names that tell plans apart, and the place of a pass in a plan. Pure
/// functions.

namespace hearth::strategy {

/// A pass that a plan was made for: shards `first` .. `first + count - 1` of
/// its trace are those of the pass, from its batch 0 on.
struct PlannedPass {
  /// By DigestOfPass.
  std::string digest;
  int64_t first = 0;
  int64_t count = 0;

  bool operator==(const PlannedPass&) const = default;
};

/// All that the shards of a pass depend on, with its seeds in their order, but
/// the dataset; not its first batch, nor the embeddings that are kept there.
/// Hexadecimal.
std::string DigestOfPass(const Pass& pass,
                         absl::Span<const store::NodeId> seeds);

/// A plan's name and number.
struct PlanKey {
  /// By plan::PlanName.
  std::string name;
  uint64_t id = 0;

  bool operator==(const PlanKey&) const = default;
};

/// The key of a plan by all that its bytes depend on: the dataset, the passes
/// in their order, the budgets of rows and of disk. Memory and threads to
/// prepare it with make no difference.
PlanKey KeyOfPlan(absl::string_view dataset_fingerprint,
                  const DiskgnnOptions& options, int64_t row_bytes,
                  absl::Span<const PlannedPass> passes);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PLAN_KEY_H_
