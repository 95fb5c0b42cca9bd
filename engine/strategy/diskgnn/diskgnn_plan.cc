#include "engine/strategy/diskgnn/diskgnn_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/cuda/device.h"
#include "engine/plan/plan_records.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/history.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/strategy/diskgnn/row_assembler.h"
#include "engine/strategy/packing/pass_digest.h"
#include "engine/strategy/sampling.h"

namespace hearth::strategy {

namespace {

// The version of the hash's input and of how plans are made; files have
// versions of their own.
constexpr char kFormat[] = "hearth diskgnn plan 1";

}  // namespace

PlanKey KeyOfPlan(absl::string_view dataset_fingerprint,
                  const DiskgnnOptions& options, int64_t row_bytes,
                  absl::Span<const PlannedPass> passes) {
  Sha256 hash;
  hash.AddField(kFormat);
  hash.AddField(dataset_fingerprint);
  hash.AddField(row_bytes);
  hash.AddField(options.gpu_cache_bytes);
  hash.AddField(options.cpu_cache_bytes);
  hash.AddField(options.disk_cache_bytes.has_value()
                    ? absl::StrCat(*options.disk_cache_bytes)
                    : "as found");
  hash.AddField(options.disk_limit_bytes);
  for (const PlannedPass& pass : passes) hash.AddField(pass.digest);
  return PlanKeyOf("diskgnn", dataset_fingerprint, hash);
}

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
  HEARTH_RETURN_IF_ERROR(
      plan::PlanRecords(files, identity.folder).CheckUndamaged());
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

OpenPlan::OpenPlan(io::FileSystem& files, PlanIdentity identity,
                   PackedLayout layout)
    : files_(files),
      identity_(std::move(identity)),
      layout_(std::move(layout)) {}

absl::StatusOr<std::unique_ptr<OpenPlan>> OpenPlan::Open(
    io::FileSystem& files, PlanIdentity identity, const RowPlacement& placement,
    const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(PackedLayout layout, ReadPlanIndex(files, identity));
  std::unique_ptr<OpenPlan> prepared(
      new OpenPlan(files, std::move(identity), std::move(layout)));
  HEARTH_RETURN_IF_ERROR(prepared->OpenFiles(placement, stop));
  return prepared;
}

absl::Status OpenPlan::OpenFiles(const RowPlacement& placement,
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

const PlannedPass* OpenPlan::Find(const std::string& digest) const {
  const auto found =
      std::find_if(identity_.passes.begin(), identity_.passes.end(),
                   [&](const auto& pass) { return pass.digest == digest; });
  return found == identity_.passes.end() ? nullptr : &*found;
}

absl::Status OpenPlan::Checked(absl::Status status) const {
  if (absl::IsDataLoss(status)) {
    damaged_ = true;
    // If this fails, the next pass finds the damage again.
    plan::PlanRecords(files_, identity_.folder)
        .WriteDamage(status.message())
        .IgnoreError();
  }
  return status;
}

}  // namespace hearth::strategy
