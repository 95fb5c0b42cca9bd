#include "engine/strategy/diskgnn/prepared_plan.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "engine/base/status_macros.h"
#include "engine/cuda/device.h"
#include "engine/plan/plan_records.h"
#include "engine/strategy/diskgnn/cpu_row_assembler.h"
#include "engine/strategy/diskgnn/cuda_row_assembler.h"

namespace hearth::strategy {

PreparedPlan::PreparedPlan(io::FileSystem& files, PlanIdentity identity,
                           PackedLayout layout)
    : files_(files),
      identity_(std::move(identity)),
      layout_(std::move(layout)) {}

absl::StatusOr<std::unique_ptr<PreparedPlan>> PreparedPlan::Open(
    io::FileSystem& files, PlanIdentity identity, const RowPlacement& placement,
    const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(PackedLayout layout, ReadPlanIndex(files, identity));
  std::unique_ptr<PreparedPlan> prepared(
      new PreparedPlan(files, std::move(identity), std::move(layout)));
  HEARTH_RETURN_IF_ERROR(prepared->OpenFiles(placement, stop));
  return prepared;
}

absl::Status PreparedPlan::OpenFiles(const RowPlacement& placement,
                                     const std::stop_token& stop) {
  const std::string& folder = identity_.folder;
  HEARTH_ASSIGN_OR_RETURN(chunks_, ChunkReader::Open(files_, folder, layout_));
  if (layout_.rows.disk > 0) {
    HEARTH_ASSIGN_OR_RETURN(disk_cache_,
                            OpenDiskCache(files_, folder, layout_, {}));
  }
  const LevelImages images = {.files = files_,
                              .folder = folder,
                              .layout = layout_,
                              .format = placement.format};
  const auto* device = std::get_if<cuda::Device>(&placement.gpu);
  if (device != nullptr && layout_.rows.gpu > 0) {
    HEARTH_ASSIGN_OR_RETURN(assembler_,
                            NewCudaRowAssembler(*device, images, stop));
  } else {
    HEARTH_ASSIGN_OR_RETURN(assembler_, NewCpuRowAssembler(images, stop));
  }
  return absl::OkStatus();
}

const PlannedPass* PreparedPlan::Find(const std::string& digest) const {
  const auto found =
      std::find_if(identity_.passes.begin(), identity_.passes.end(),
                   [&](const auto& pass) { return pass.digest == digest; });
  return found == identity_.passes.end() ? nullptr : &*found;
}

absl::Status PreparedPlan::Checked(absl::Status status) const {
  if (absl::IsDataLoss(status)) {
    damaged_ = true;
    // If this fails, the next pass meets the damage, and says so again.
    plan::PlanRecords(files_, identity_.folder)
        .WriteDamage(status.message())
        .IgnoreError();
  }
  return status;
}

}  // namespace hearth::strategy
