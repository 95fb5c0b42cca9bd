#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PREPARED_PLAN_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PREPARED_PLAN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/file_system.h"
#include "engine/store/row_format.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/chunk_reader.h"
#include "engine/strategy/diskgnn/packing/disk_cache_reader.h"
#include "engine/strategy/diskgnn/plan_identity.h"
#include "engine/strategy/diskgnn/plan_key.h"
#include "engine/strategy/diskgnn/row_assembler.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

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

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PREPARED_PLAN_H_
