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

/// The format of rows, and the GPU for those of the GPU cache.
struct RowPlacement {
  store::RowFormat format;
  Gpu gpu;
};

/// A plan, open for training: the rows that stay in memory are there. What it
/// has open stays readable even if the plan is removed and made anew.
/// Thread-safe, but for its assembler.
class PreparedPlan {
 public:
  /// NOT_FOUND if there is no whole plan; DATA_LOSS naming the damaged file;
  /// FAILED_PRECONDITION if another version of Hearth wrote it;
  /// RESOURCE_EXHAUSTED without memory; INTERNAL if the GPU fails; CANCELLED
  /// when `stop` is requested. `files` and the GPU's functions outlive it.
  static absl::StatusOr<std::unique_ptr<PreparedPlan>> Open(
      io::FileSystem& files, PlanIdentity identity,
      const RowPlacement& placement, const std::stop_token& stop);

  PreparedPlan(const PreparedPlan&) = delete;
  PreparedPlan& operator=(const PreparedPlan&) = delete;

  const PlanIdentity& identity() const { return identity_; }

  /// Whether damage was read.
  bool damaged() const { return damaged_; }

  /// The pass with this digest; null if the plan was not made for it.
  const PlannedPass* Find(const std::string& digest) const;

  const PackedLayout& layout() const { return layout_; }
  const ChunkReader& chunks() const { return *chunks_; }
  /// REQUIRES: layout().rows.disk > 0.
  const DiskCache& disk_cache() const { return *disk_cache_; }
  /// Holds the rows of the levels in memory. For one thread at a time.
  RowAssembler& assembler() const { return *assembler_; }

  /// Passes on the status of reading the plan; if that is DATA_LOSS, the plan
  /// is marked, so that who prepares next makes it anew.
  absl::Status Checked(absl::Status status) const;

 private:
  PreparedPlan(io::FileSystem& files, PlanIdentity identity,
               PackedLayout layout);

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
