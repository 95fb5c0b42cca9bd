#ifndef HEARTH_ENGINE_STRATEGY_GIDS_STRIPES_H_
#define HEARTH_ENGINE_STRATEGY_GIDS_STRIPES_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/plan/plan_store.h"
#include "engine/store/block_checksums.h"
#include "engine/store/dataset.h"
#include "engine/store/feature_stripes.h"
#include "engine/store/manifest.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Everything that features are striped with. Outlives the call.
struct StripingContext {
  const store::Dataset& dataset;
  /// The features of `dataset`.
  const store::StoredFeatures& features;
  io::FileSystem& files;
  const Clock& clock;
  /// The plan store of each data disk, in the order of stripes.
  absl::Span<plan::PlanStore* const> disks;
  /// Record of stripes that were verified before. Null if rows are checked one
  /// by one, so that stripes are not verified whole.
  store::VerificationRecord* verified = nullptr;
  const PreparationListener& listener;
  std::stop_token stop;
};

/// The name of the plan with the stripes of disk `disk`.
std::string StripePlanName(const store::Manifest& manifest,
                           const store::FeatureStripes& stripes, int disk);

/// Which stripes exist, and the disk space that the others need.
struct StripeState {
  /// Folders of the plans, existing or not; name of the first disk's plan.
  std::vector<std::string> folders;
  std::string plan;
  /// Whether all disks have their stripes, as far as file sizes tell.
  bool exists = false;
  /// Bytes of the plans of all disks.
  uint64_t disk_bytes = 0;
  /// Bytes of the plans that are yet to be written.
  uint64_t missing_bytes = 0;
  /// For people: the disks without enough space, and their bytes; empty if all
  /// have enough.
  std::string lacking;
};

/// Looks for the stripes of a dataset on the data disks; makes nothing, leases
/// nothing.
absl::StatusOr<StripeState> FindStripes(
    const store::Manifest& manifest, io::FileSystem& files,
    absl::Span<plan::PlanStore* const> disks);

/// The features of a dataset in stripes over data disks, open for reading rows.
/// Holds leases of the disks' plans. Single-owner.
class Stripes {
 public:
  /// Finds the stripes; writes them on disks where they are missing or damaged,
  /// by a thread for each disk. The report names the first disk's plan and has
  /// the bytes of all plans.
  ///
  /// RESOURCE_EXHAUSTED of cause kDiskSpace, before anything is written, naming
  /// each folder without enough space, the bytes needed and the bytes free;
  /// DATA_LOSS for damaged features; CANCELLED; errors of files and of the plan
  /// stores. Unfinished stripes are never used.
  static absl::StatusOr<std::unique_ptr<Stripes>> Open(
      const StripingContext& context, PreparationReport& report);

  const store::StoredFeatures& features() const { return striped_.features; }

  /// The largest file of each disk.
  absl::Span<io::BlockDevice* const> disks() const {
    return striped_.largest_of_disk;
  }

  /// If `status` is an error of reading stripes, marks the plan of that disk as
  /// damaged, so that its stripes are made again. Returns whether it is.
  bool NoteDamage(const absl::Status& status) const;

  /// Memory of Open at most.
  static uint64_t MemoryBytes(int disks) {
    return static_cast<uint64_t>(disks) *
           store::FeatureStripes::kMemoryBytesPerDisk;
  }

 private:
  Stripes(std::vector<plan::PlanLease> leases, store::StripedFeatures striped)
      : leases_(std::move(leases)), striped_(std::move(striped)) {}

  // Leases of the plans, in the order of the disks.
  const std::vector<plan::PlanLease> leases_;
  const store::StripedFeatures striped_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_STRIPES_H_
