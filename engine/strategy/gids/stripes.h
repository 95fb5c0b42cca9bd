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

/// Everything that features are striped with; it outlives the call.
struct StripingContext {
  const store::Dataset& dataset;
  /// Those of the dataset.
  const store::StoredFeatures& features;
  io::FileSystem& files;
  const Clock& clock;
  /// The store of each disk, in the order of stripes.
  absl::Span<plan::PlanStore* const> disks;
  /// Stripes that were verified before. Null where rows are checked one by one,
  /// so that stripes are not verified whole.
  store::VerificationRecord* verified = nullptr;
  const PreparationListener& listener;
  std::stop_token stop;
};

/// The name of the plan of a disk.
std::string StripePlanName(const store::Manifest& manifest,
                           const store::FeatureStripes& stripes, int disk);

/// How much of what striping needs is there.
struct StripeState {
  /// The plans' folders, there or not, and the name of the first one.
  std::vector<std::string> folders;
  std::string plan;
  /// Whether all disks have theirs, as far as sizes tell.
  bool exists = false;
  /// Bytes that the plans of all disks take.
  uint64_t disk_bytes = 0;
  /// Bytes of the plans that are still to be written.
  uint64_t missing_bytes = 0;
  /// For people: what each disk lacks; empty if all have room.
  std::string lacking;
};

/// Looks for the stripes of a dataset on its disks; makes and keeps nothing.
absl::StatusOr<StripeState> FindStripes(
    const store::Manifest& manifest, io::FileSystem& files,
    absl::Span<plan::PlanStore* const> disks);

/// The features of a dataset in stripes over disks, open for reading rows. The
/// disks' plans are in use while it lives. Single-owner.
class Stripes {
 public:
  /// Finds the stripes, or makes those of disks that have none, or damaged
  /// ones, by a thread for each disk. The report names the first disk's plan
  /// and has the bytes of all.
  ///
  /// RESOURCE_EXHAUSTED of cause kDiskSpace, before anything is written, naming
  /// each folder without room, what is needed and what is free; DATA_LOSS for
  /// damaged features; CANCELLED; errors of files and of the plan stores. What
  /// is unfinished then is never used.
  static absl::StatusOr<std::unique_ptr<Stripes>> Open(
      const StripingContext& context, PreparationReport& report);

  const store::StoredFeatures& features() const { return striped_.features; }

  /// The largest file of each disk.
  absl::Span<io::BlockDevice* const> disks() const {
    return striped_.largest_of_disk;
  }

  /// Notes in the plan of the disk that `status`, an error of reading, is about
  /// that it is damaged, so that its stripes are made anew. Whether it is about
  /// one.
  bool NoteDamage(const absl::Status& status) const;

  /// Memory of Open, at most.
  static uint64_t MemoryBytes(int disks) {
    return static_cast<uint64_t>(disks) *
           store::FeatureStripes::kMemoryBytesPerDisk;
  }

 private:
  Stripes(std::vector<plan::PlanLease> leases, store::StripedFeatures striped)
      : leases_(std::move(leases)), striped_(std::move(striped)) {}

  // Those of the disks, in their order.
  const std::vector<plan::PlanLease> leases_;
  const store::StripedFeatures striped_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GIDS_STRIPES_H_
