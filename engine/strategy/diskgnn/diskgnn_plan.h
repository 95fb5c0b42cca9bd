#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_PLAN_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_PLAN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/file_system.h"
#include "engine/store/feature_rows.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/diskgnn.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/strategy/diskgnn/row_assembler.h"
#include "engine/strategy/packing/plan_key.h"
#include "engine/strategy/strategy.h"

/// A plan in its states. IdentifyPlan names the plan of some passes, from these
/// alone (IdentifiedPlan); ReadPlanIndex tells whether it exists; Preparation
/// (preparation.h) makes it; OpenPlan has it open for training.

namespace hearth::strategy {

/// A pass that a plan is made for. Shards `first` .. `first + count - 1` of the
/// plan's trace are the shards of the pass, from its batch 0 on.
struct PlannedPass {
  /// DigestOfPass of the pass.
  std::string digest;
  int64_t first = 0;
  int64_t count = 0;

  bool operator==(const PlannedPass&) const = default;
};

/// The key of a plan, by everything that its bytes depend on: the dataset, the
/// passes in their order, the budgets of rows and of disk. Memory and threads
/// for preparing it make no difference.
PlanKey KeyOfPlan(absl::string_view dataset_fingerprint,
                  const DiskgnnOptions& options, int64_t row_bytes,
                  absl::Span<const PlannedPass> passes);

/// The name and place of a plan, and the passes that it is for.
struct PlanIdentity {
  /// The plan's name in the plan store.
  std::string name;
  std::string folder;
  uint64_t id = 0;
  /// Bytes of a stored feature row.
  int64_t row_bytes = 0;
  std::vector<PlannedPass> passes;

  int64_t num_shards() const;
  bool operator==(const PlanIdentity&) const = default;
};

/// Everything but the passes that identifies a plan. `options` has its limits
/// in bytes (InBytes).
struct PlanOrigin {
  /// The dataset's fingerprint, and bytes of a stored feature row.
  absl::string_view fingerprint;
  int64_t row_bytes = 0;
  const DiskgnnOptions& options;
  /// The folder of the plan store.
  absl::string_view folder;
};

/// The plan for some passes, existing or not.
struct IdentifiedPlan {
  PlanIdentity identity;
  /// The distinct passes, in the plan's order, from their first batch on.
  std::vector<Pass> passes;
};

/// Identifies the plan for `passes`. Computes all seeds of the passes; reads no
/// file.
IdentifiedPlan IdentifyPlan(const PlanOrigin& origin,
                            absl::Span<const Pass> passes);

/// The index of a plan that exists and is whole, as far as is known. Errors as
/// ReadLayoutIndex; DATA_LOSS, too, if the plan is not for these passes, or,
/// with the recorded message, if damage was found in it before.
absl::StatusOr<PackedLayout> ReadPlanIndex(io::FileSystem& files,
                                           const PlanIdentity& identity);

/// Whether a plan with this error must be made again.
bool IsUnusable(const absl::Status& status);

/// Bytes of a plan on disk, the store's records included.
uint64_t DiskBytes(const PackedLayout& layout);

/// The format of rows, and the GPU that holds rows of the GPU cache.
struct RowPlacement {
  store::RowFormat format;
  Gpu gpu;
};

/// A plan that is open for training: its files are open, and the rows of the
/// memory levels are loaded. Open files stay readable even if the plan is
/// removed and made again. Thread-safe, except its assembler.
class OpenPlan {
 public:
  /// NOT_FOUND if there is no whole plan; DATA_LOSS naming the damaged file;
  /// FAILED_PRECONDITION if another version of Hearth wrote it;
  /// RESOURCE_EXHAUSTED without memory; INTERNAL if the GPU fails; CANCELLED
  /// when `stop` is requested. `files` and the GPU's functions outlive the
  /// plan.
  static absl::StatusOr<std::unique_ptr<OpenPlan>> Open(
      io::FileSystem& files, PlanIdentity identity,
      const RowPlacement& placement, const std::stop_token& stop);

  OpenPlan(const OpenPlan&) = delete;
  OpenPlan& operator=(const OpenPlan&) = delete;

  const PlanIdentity& identity() const { return identity_; }

  /// Whether Checked was given damage.
  bool damaged() const { return damaged_; }

  /// The pass with this digest; null if the plan is not for it.
  const PlannedPass* Find(const std::string& digest) const;

  const PackedLayout& layout() const { return layout_; }
  const ChunkReader& chunks() const { return *chunks_; }
  /// REQUIRES: layout().rows.disk > 0.
  const DiskCache& disk_cache() const { return *disk_cache_; }
  /// The assembler with the rows of the memory levels. For one thread at a
  /// time.
  RowAssembler& assembler() const { return *assembler_; }

  /// Passes on `status`, of reading the plan. DATA_LOSS marks the plan as
  /// damaged, so that the next preparation makes it again.
  absl::Status Checked(absl::Status status) const;

 private:
  OpenPlan(io::FileSystem& files, PlanIdentity identity, PackedLayout layout);

  absl::Status OpenFiles(const RowPlacement& placement,
                         const std::stop_token& stop);

  io::FileSystem& files_;
  const PlanIdentity identity_;
  const PackedLayout layout_;
  std::unique_ptr<ChunkReader> chunks_;
  std::optional<DiskCache> disk_cache_;
  std::unique_ptr<RowAssembler> assembler_;
  mutable std::atomic<bool> damaged_ = false;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_DISKGNN_PLAN_H_
