#include "engine/strategy/gids/stripes.h"

#include <atomic>
#include <cstddef>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/byte_size.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"

// Opening, step by step:
//   1. lease the plans of all disks, always in the order of the disks, so that
//      jobs with the same stripes do not wait for each other in a circle;
//   2. clear plans that are unfinished, damaged or of other sizes;
//   3. check that each disk without stripes has space for them;
//   4. write the missing stripes, each disk by a thread of its own, and sync
//      them;
//   5. publish their plans: a kill before this leaves plans that step 2 of the
//      next job clears, while plans of other disks stay;
//   6. verify all files, unless rows are checked as they are read;
//   7. share the leases, and open the files.

namespace hearth::strategy {
namespace {

using plan::PlanLease;
using plan::PlanStore;
using store::FeatureStripes;

uint64_t PlanBytes(const FeatureStripes& stripes, int disk) {
  return stripes.FileBytes(disk) + PlanStore::kRecordBytes;
}

// A text for people about the space that a disk lacks.
std::string Lacking(const PlanStore& disk, uint64_t needed, uint64_t free) {
  return absl::StrCat(disk.options().folder, ": stripes need ", needed,
                      " bytes (", FormatByteSize(needed), "), ", free,
                      " are free (", FormatByteSize(free), ")");
}

// One call of Stripes::Open.
class Striping {
 public:
  Striping(const StripingContext& context, PreparationReport& report)
      : context_(context),
        report_(report),
        num_disks_(static_cast<int>(context.disks.size())),
        stripes_(context.dataset.manifest(), num_disks_) {}

  absl::Status Prepare() {
    HEARTH_RETURN_IF_ERROR(TakeLeases());
    HEARTH_RETURN_IF_ERROR(FindMissing());
    report_.plan = leases_.front().name();
    report_.reused = missing_.empty();
    if (!report_.reused) {
      HEARTH_RETURN_IF_ERROR(CheckRoom());
      const absl::Status made = Make();
      if (!made.ok()) {
        GiveBackSpace();
        return made;
      }
    }
    if (context_.verified != nullptr) HEARTH_RETURN_IF_ERROR(Verify());
    for (PlanLease& lease : leases_) HEARTH_RETURN_IF_ERROR(lease.Share());
    return absl::OkStatus();
  }

  absl::StatusOr<store::StripedFeatures> OpenFiles() const {
    std::vector<std::string> folders;
    for (const PlanLease& lease : leases_) folders.push_back(lease.folder());
    return stripes_.Open(context_.files, folders, context_.features);
  }

  std::vector<PlanLease> TakeOverLeases() { return std::move(leases_); }

 private:
  absl::Status TakeLeases() {
    for (int disk = 0; disk < num_disks_; ++disk) {
      HEARTH_ASSIGN_OR_RETURN(
          PlanLease lease,
          context_.disks[disk]->Take(
              StripePlanName(context_.dataset.manifest(), stripes_, disk),
              context_.stop));
      leases_.push_back(std::move(lease));
      report_.disk_bytes += PlanBytes(stripes_, disk);
    }
    return absl::OkStatus();
  }

  // Whether the plan of `disk` can be used: NOT_FOUND or DATA_LOSS if not.
  absl::Status CheckPlan(int disk) const {
    const plan::PlanRecords records = leases_[disk].records();
    HEARTH_RETURN_IF_ERROR(records.ReadAbout().status());
    const absl::StatusOr<std::string> damage = records.ReadDamage();
    if (damage.ok()) return absl::DataLossError(*damage);
    return stripes_.CheckSizes(context_.files, disk, leases_[disk].folder());
  }

  absl::Status FindMissing() {
    for (int disk = 0; disk < num_disks_; ++disk) {
      const absl::Status why = CheckPlan(disk);
      if (why.ok()) continue;
      if (absl::IsDataLoss(why) || absl::IsInvalidArgument(why)) {
        Log(absl::StrCat("stripes ", leases_[disk].name(),
                         " are made again: ", why.message()));
      } else if (!absl::IsNotFound(why)) {
        return why;
      }
      HEARTH_RETURN_IF_ERROR(leases_[disk].Clear());
      missing_.push_back(disk);
    }
    return absl::OkStatus();
  }

  absl::Status CheckRoom() {
    std::vector<std::string> lacking;
    for (const int disk : missing_) {
      const uint64_t needed = PlanBytes(stripes_, disk);
      HEARTH_ASSIGN_OR_RETURN(const plan::PlanSpace space,
                              leases_[disk].Space());
      if (space.bytes < needed) {
        lacking.push_back(Lacking(*context_.disks[disk], needed, space.bytes));
      }
      HEARTH_RETURN_IF_ERROR(leases_[disk].MakeRoom(needed));
    }
    if (lacking.empty()) return absl::OkStatus();
    return WaitForDiskSpace(
        absl::ResourceExhaustedError(absl::StrJoin(lacking, "; ")));
  }

  absl::Status Make() {
    const double start = context_.clock.SteadySeconds();
    HEARTH_ASSIGN_OR_RETURN(
        const FeatureStripes::Sources sources,
        FeatureStripes::OpenSources(context_.dataset, context_.stop));
    uint64_t bytes = 0;
    for (const int disk : missing_) bytes += stripes_.StripeBytes(disk);
    HEARTH_RETURN_IF_ERROR(
        OnDisks("striping", missing_, bytes,
                [&](int disk, const FeatureStripes::Progress& progress,
                    const std::stop_token& stop) {
                  return stripes_.Write(context_.files, sources, disk,
                                        leases_[disk].folder(), progress, stop);
                }));
    for (const int disk : missing_) {
      HEARTH_RETURN_IF_ERROR(leases_[disk].Publish(
          {{"dataset", context_.dataset.manifest().name},
           {"strategy", "gids"},
           {"disk", absl::StrCat(disk + 1, " of ", num_disks_)},
           {"folder", context_.disks[disk]->options().folder},
           {"stripes", FormatByteSize(stripes_.StripeBytes(disk))}}));
    }
    if (context_.listener.durable) context_.listener.durable();
    const double seconds = context_.clock.SteadySeconds() - start;
    report_.phases.push_back({"striping", seconds});
    report_.seconds += seconds;
    Log(absl::StrFormat("features striped over %d of %d disks: %s in %.1f s",
                        missing_.size(), num_disks_, FormatByteSize(bytes),
                        seconds));
    return absl::OkStatus();
  }

  // Removes unfinished stripes. Its own errors are ignored: the error that led
  // here is reported.
  void GiveBackSpace() {
    for (const int disk : missing_) leases_[disk].Clear().IgnoreError();
  }

  absl::Status Verify() {
    std::vector<int> all;
    uint64_t bytes = 0;
    for (int disk = 0; disk < num_disks_; ++disk) {
      all.push_back(disk);
      bytes += stripes_.StripeBytes(disk);
    }
    return OnDisks(
        "verifying stripes", all, bytes,
        [&](int disk, const FeatureStripes::Progress& progress,
            const std::stop_token& stop) {
          const absl::Status status =
              stripes_.Verify(context_.files, disk, leases_[disk].folder(),
                              *context_.verified, progress, stop);
          // Marks the stripes: the next job makes them again.
          if (absl::IsDataLoss(status)) {
            leases_[disk].records().WriteDamage(status.message()).IgnoreError();
          }
          return status;
        });
  }

  using Work = absl::FunctionRef<absl::Status(
      int disk, const FeatureStripes::Progress& progress,
      const std::stop_token& stop)>;

  // Runs `work` for each of `disks` on a thread of its own; the caller's thread
  // does the first disk and reports the progress of all. The first error ends
  // the work of the other disks, whose errors are then ignored.
  absl::Status OnDisks(absl::string_view phase, const std::vector<int>& disks,
                       uint64_t total_bytes, Work work) const {
    std::stop_source stop;
    const std::stop_callback passed_on(context_.stop,
                                       [&] { stop.request_stop(); });
    std::atomic<uint64_t> done = 0;
    absl::Mutex mutex;
    absl::Status first_error;
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadTeam> team,
                            ThreadTeam::Create(static_cast<int>(disks.size())));
    const absl::Status status = team->RunWorkers([&](int member) {
      const auto progress = [&](uint64_t bytes) {
        const uint64_t so_far = done += bytes;
        if (member == 0 && context_.listener.progress) {
          context_.listener.progress(phase, so_far, total_bytes);
        }
      };
      absl::Status own = work(disks[member], progress, stop.get_token());
      if (!own.ok()) {
        absl::MutexLock lock(&mutex);
        first_error.Update(own);
        stop.request_stop();
      }
      return own;
    });
    return first_error.ok() ? status : first_error;
  }

  void Log(const std::string& text) const {
    if (context_.listener.log) context_.listener.log(text);
  }

  const StripingContext& context_;
  PreparationReport& report_;
  const int num_disks_;
  const FeatureStripes stripes_;
  std::vector<PlanLease> leases_;
  // Disks whose stripes are to be written.
  std::vector<int> missing_;
};

}  // namespace

std::string StripePlanName(const store::Manifest& manifest,
                           const FeatureStripes& stripes, int disk) {
  Sha256 hash;
  hash.Update(stripes.Describe(disk));
  return plan::PlanName(plan::kStripePlans, manifest.fingerprint,
                        hash.HexDigest().substr(0, 32));
}

absl::StatusOr<StripeState> FindStripes(const store::Manifest& manifest,
                                        io::FileSystem& files,
                                        absl::Span<PlanStore* const> disks) {
  const auto num_disks = static_cast<int>(disks.size());
  const FeatureStripes stripes(manifest, num_disks);
  StripeState state;
  state.plan = StripePlanName(manifest, stripes, 0);
  state.exists = true;
  std::vector<std::string> lacking;
  for (int disk = 0; disk < num_disks; ++disk) {
    const uint64_t bytes = PlanBytes(stripes, disk);
    state.disk_bytes += bytes;
    const std::string name = StripePlanName(manifest, stripes, disk);
    state.folders.push_back(io::JoinPath(disks[disk]->options().folder, name));
    const absl::StatusOr<plan::PlanInfo> info = disks[disk]->Get(name);
    if (info.ok() && info->state == plan::PlanInfo::State::kWhole &&
        stripes.CheckSizes(files, disk, state.folders.back()).ok()) {
      continue;
    }
    state.exists = false;
    state.missing_bytes += bytes;
    HEARTH_ASSIGN_OR_RETURN(const plan::PlanSpace space,
                            disks[disk]->Space(name));
    if (space.bytes < bytes) {
      lacking.push_back(Lacking(*disks[disk], bytes, space.bytes));
    }
  }
  state.lacking = absl::StrJoin(lacking, "; ");
  return state;
}

absl::StatusOr<std::unique_ptr<Stripes>> Stripes::Open(
    const StripingContext& context, PreparationReport& report) {
  Striping striping(context, report);
  HEARTH_RETURN_IF_ERROR(striping.Prepare());
  HEARTH_ASSIGN_OR_RETURN(store::StripedFeatures striped, striping.OpenFiles());
  return std::unique_ptr<Stripes>(
      new Stripes(striping.TakeOverLeases(), std::move(striped)));
}

bool Stripes::NoteDamage(const absl::Status& status) const {
  if (!absl::IsDataLoss(status)) return false;
  for (const PlanLease& lease : leases_) {
    // Errors of reading begin with the file.
    if (!absl::StrContains(status.message(), lease.folder())) continue;
    // If this fails, the next pass finds the damage again.
    lease.records().WriteDamage(status.message()).IgnoreError();
    return true;
  }
  return false;
}

}  // namespace hearth::strategy
