#include "engine/job/data/row_copy.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/byte_size.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/job/data/seed_partition.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/plan/plan_records.h"
#include "engine/store/converted_rows.h"
#include "engine/store/feature_rows.h"
#include "engine/store/manifest.h"
#include "engine/store/row_codec.h"

namespace hearth::job {

namespace {

// More threads convert faster than a disk reads.
constexpr int kMostThreads = 4;

std::string DescribeRow(const store::RowFormat& format) {
  return absl::StrCat(format.row_bytes(), " bytes a row as ",
                      store::Name(format.dtype));
}

// Finds or makes one copy.
class RowConverting {
 public:
  RowConverting(const JobEnvironment& environment, store::DType dtype,
                const store::Dataset& dataset, Observer& observer,
                const std::stop_token& stop)
      : environment_(environment),
        dtype_(dtype),
        dataset_(dataset),
        observer_(observer),
        stop_(stop),
        bytes_(
            store::ManifestOfConverted(dataset.manifest(), dtype).SizeBytes() +
            kManifestBytes + plan::PlanStore::kRecordBytes) {}

  absl::StatusOr<LeasedPlan<std::unique_ptr<store::Dataset>>> Open(
      strategy::MemoryEstimate& memory) {
    return FindOrMakePlan<std::unique_ptr<store::Dataset>>(
        environment_,
        {.name =
             plan::PlanName(plan::kRowPlans, dataset_.manifest().fingerprint,
                            store::RowTypeName(dtype_)),
         .kind = "rows",
         .open = [this](const std::string& folder) { return OpenCopy(folder); },
         .make =
             [&](plan::PlanLease& lease) {
               absl::Status made = Make(lease, memory);
               // Leaves nothing behind; the first error is returned.
               if (!made.ok()) lease.Clear().IgnoreError();
               return made;
             }},
        observer_, stop_);
  }

 private:
  // More than the manifest of a copy takes.
  static constexpr uint64_t kManifestBytes = 256 << 10;

  absl::StatusOr<std::unique_ptr<store::Dataset>> OpenCopy(
      const std::string& folder) const {
    const absl::StatusOr<std::string> damage =
        plan::PlanRecords(environment_.files, folder).ReadDamage();
    if (damage.ok()) return absl::DataLossError(*damage);
    return store::OpenConverted(environment_.files, folder, dataset_.manifest(),
                                dtype_, environment_.verified);
  }

  absl::Status Make(plan::PlanLease& lease, strategy::MemoryEstimate& memory) {
    const int threads = std::min(UsableProcessors(), kMostThreads);
    memory.Add("converting rows",
               store::ConvertingMemory(dataset_.manifest(), dtype_, threads));
    MemoryLedger::Reservation reservation;
    HEARTH_RETURN_IF_ERROR(environment_.memory.Reserve(memory, reservation));
    HEARTH_RETURN_IF_ERROR(MakeRoom(lease));
    const double start = environment_.clock.SteadySeconds();
    HEARTH_RETURN_IF_ERROR(store::WriteConverted(
        environment_.files, dataset_, lease.folder(),
        {.dtype = dtype_,
         .threads = threads,
         .progress =
             [this](uint64_t done, uint64_t total) {
               observer_.OnProgress({.phase = "converting rows",
                                     .done = done,
                                     .total = total,
                                     .loss = {}});
             },
         .stop = stop_}));
    observer_.OnLog(
        Severity::kInfo,
        absl::StrFormat("rows %s made in %.1f s", lease.name(),
                        environment_.clock.SteadySeconds() - start));
    return lease.Publish(
        {{"dataset", dataset_.manifest().name},
         {"rows", std::string(store::RowTypeName(dtype_))},
         {"of a row",
          absl::StrCat(
              store::RowBytes(store::CommonFormat(dataset_.manifest()).dim,
                              dtype_),
              " bytes in place of ",
              store::CommonFormat(dataset_.manifest()).row_bytes())}});
  }

  absl::Status MakeRoom(plan::PlanLease& lease) const {
    HEARTH_ASSIGN_OR_RETURN(const plan::PlanSpace space, lease.Space());
    HEARTH_RETURN_IF_ERROR(lease.MakeRoom(bytes_));
    if (space.bytes >= bytes_) return absl::OkStatus();
    return WaitForDiskSpace(absl::ResourceExhaustedError(
        absl::StrCat(lease.folder(), ": a copy of the features as ",
                     store::RowTypeName(dtype_), " needs ", bytes_, " bytes (",
                     FormatByteSize(bytes_), "), ", space.bytes, " are free (",
                     FormatByteSize(space.bytes), ")")));
  }

  const JobEnvironment& environment_;
  const store::DType dtype_;
  const store::Dataset& dataset_;
  Observer& observer_;
  const std::stop_token& stop_;
  // Of the plan, at most.
  const uint64_t bytes_;
};

}  // namespace

absl::StatusOr<std::optional<RowCopy>> ConvertRows(
    const JobEnvironment& environment, store::DType dtype,
    std::unique_ptr<store::Dataset>& dataset, Observer& observer,
    const std::stop_token& stop) {
  const store::Manifest& manifest = dataset->manifest();
  const store::RowFormat own = store::CommonFormat(manifest);
  if (!store::TakesLess(manifest, dtype)) {
    observer.OnLog(
        Severity::kInfo,
        absl::StrCat("rows stay as they are stored, ", DescribeRow(own), ": ",
                     store::RowTypeName(dtype), " would take no fewer bytes"));
    return std::nullopt;
  }
  RowConverting converting(environment, dtype, *dataset, observer, stop);
  strategy::MemoryEstimate memory;
  HEARTH_ASSIGN_OR_RETURN(LeasedPlan<std::unique_ptr<store::Dataset>> copy,
                          converting.Open(memory));
  observer.OnLog(
      Severity::kInfo,
      absl::StrCat("rows ", copy.lease.name(), copy.reused ? " reused: " : ": ",
                   DescribeRow(store::CommonFormat(copy.opened->manifest())),
                   " in place of ", DescribeRow(own), "; the copy takes ",
                   FormatByteSize(copy.opened->manifest().SizeBytes()),
                   " on disk"));
  dataset = store::WithConverted(std::move(dataset), std::move(copy.opened));
  return RowCopy{.dtype = dtype,
                 .lease = std::move(copy.lease),
                 .making_memory = std::move(memory)};
}

void NoteDamage(const RowCopy& copy, const absl::Status& status) {
  // Errors of reading have the file; if the mark cannot be written, the next
  // job finds the damage again.
  if (absl::IsDataLoss(status) &&
      absl::StrContains(status.message(), copy.lease.folder())) {
    copy.lease.records().WriteDamage(status.message()).IgnoreError();
  }
}

}  // namespace hearth::job
