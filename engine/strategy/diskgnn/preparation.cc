#include "engine/strategy/diskgnn/preparation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"
#include "engine/plan/access_counts.h"
#include "engine/plan/layout/pack_batches.h"
#include "engine/store/residency.h"
#include "engine/strategy/diskgnn/folder_claim.h"
#include "engine/strategy/diskgnn/offline_sampling.h"
#include "engine/strategy/diskgnn/plan_key.h"
#include "engine/strategy/sample_stage.h"

namespace hearth::strategy {
namespace {

// A message about damage is never longer.
constexpr uint64_t kMaxDamageBytes = 64 << 10;

}  // namespace

Preparation::Preparation(const PreparationContext& context,
                         absl::Span<const Pass> passes)
    : context_(context), passes_(passes.begin(), passes.end()) {}

void Preparation::Log(const std::string& line) const {
  if (context_.log) context_.log(line);
}

std::string Preparation::SpoolPath() const {
  return io::JoinPath(identity_.folder, "samples");
}

void Preparation::Identify() {
  std::vector<Pass> passes;
  passes.swap(passes_);
  for (Pass& pass : passes) {
    pass.first_batch = 0;
    const std::vector<store::NodeId> seeds = pass.order->Epoch(pass.epoch_key);
    PlannedPass planned = {
        .digest = DigestOfPass(pass, seeds),
        .first = identity_.num_shards(),
        .count = ShardsOf(pass, static_cast<int64_t>(seeds.size())).count};
    const bool known = std::any_of(
        identity_.passes.begin(), identity_.passes.end(),
        [&](const auto& other) { return other.digest == planned.digest; });
    if (known) continue;
    identity_.passes.push_back(std::move(planned));
    passes_.push_back(pass);
  }
  identity_.row_bytes = context_.features.layout.row_bytes;
  const PlanKey key =
      KeyOfPlan(context_.dataset.manifest().fingerprint, context_.options,
                identity_.row_bytes, identity_.passes);
  identity_.id = key.id;
  identity_.folder = io::JoinPath(context_.plans_folder, key.folder_name);
}

absl::StatusOr<std::unique_ptr<PreparedPlan>> Preparation::Run(
    std::unique_ptr<PreparedPlan> current) {
  Identify();
  if (current != nullptr && current->identity() == identity_ &&
      !current->damaged()) {
    Log(absl::StrCat("plan ", identity_.folder, " reused, as it is open"));
    return current;
  }
  // What was kept for other passes would be beside what preparing takes.
  current.reset();
  HEARTH_ASSIGN_OR_RETURN(const FolderClaim claim,
                          FolderClaim::Take(identity_.folder, context_.stop));
  HEARTH_RETURN_IF_ERROR(Annotate(MakeFolder(), "plans of strategy diskgnn"));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<PreparedPlan> found, Find());
  if (found != nullptr) return found;
  HEARTH_RETURN_IF_ERROR(Make());
  return PreparedPlan::Open(context_.files, identity_, context_.placement,
                            context_.stop);
}

absl::Status Preparation::MakeFolder() const {
  io::FileSystem& files = context_.files;
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(context_.plans_folder));
  if (context_.exclusive) {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            files.List(context_.plans_folder));
    for (const std::string& name : names) {
      const std::string folder = io::JoinPath(context_.plans_folder, name);
      if (absl::StartsWith(name, kPlanPrefix) && folder != identity_.folder) {
        HEARTH_RETURN_IF_ERROR(files.RemoveTree(folder));
      }
    }
  }
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(identity_.folder));
  return files.SyncDirectory(context_.plans_folder);
}

// The plan, if it is there and whole; null if it is to be made, where nothing
// of it is left but samples.
absl::StatusOr<std::unique_ptr<PreparedPlan>> Preparation::Find() const {
  io::FileSystem& files = context_.files;
  absl::Status unusable;
  const absl::StatusOr<std::string> damage = io::ReadWholeFile(
      files, io::JoinPath(identity_.folder, kDamageFile), kMaxDamageBytes);
  if (damage.ok()) {
    unusable = absl::DataLossError(*damage);
  } else if (!absl::IsNotFound(damage.status())) {
    return damage.status();
  } else {
    auto plan =
        PreparedPlan::Open(files, identity_, context_.placement, context_.stop);
    if (plan.ok()) {
      HEARTH_RETURN_IF_ERROR(plan::SampleSpool::Remove(files, SpoolPath()));
      Log(absl::StrCat("plan ", identity_.folder, " reused"));
      return plan;
    }
    if (absl::IsNotFound(plan.status())) return nullptr;
    unusable = plan.status();
  }
  if (!absl::IsDataLoss(unusable) && !absl::IsFailedPrecondition(unusable)) {
    return unusable;
  }
  Log(absl::StrCat("plan ", identity_.folder,
                   " is removed and made anew: ", unusable.message()));
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(identity_.folder));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(identity_.folder));
  HEARTH_RETURN_IF_ERROR(files.SyncDirectory(context_.plans_folder));
  return nullptr;
}

absl::Status Preparation::Make() const {
  const double start = context_.clock.SteadySeconds();
  bool reused = false;
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<plan::SampleSpool> spool,
                          TakeSamples(reused));
  absl::StatusOr<uint64_t> bytes = Pack(*spool);
  if (absl::IsDataLoss(bytes.status()) && reused) {
    Log(absl::StrCat("sampling anew: ", bytes.status().message()));
    HEARTH_RETURN_IF_ERROR(
        plan::SampleSpool::Remove(context_.files, SpoolPath()));
    HEARTH_ASSIGN_OR_RETURN(spool, TakeSamples(reused));
    bytes = Pack(*spool);
  }
  HEARTH_RETURN_IF_ERROR(bytes.status());
  spool.reset();
  HEARTH_RETURN_IF_ERROR(
      plan::SampleSpool::Remove(context_.files, SpoolPath()));
  Log(absl::StrFormat("plan %s made in %.1f s, %s on disk", identity_.folder,
                      context_.clock.SteadySeconds() - start,
                      FormatByteSize(*bytes)));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<plan::SampleSpool>> Preparation::TakeSamples(
    bool& reused) const {
  auto spool = plan::SampleSpool::Open(context_.files, SpoolPath());
  reused = spool.ok() && (*spool)->num_batches() == identity_.num_shards();
  if (reused) {
    Log("samples of an earlier preparation reused");
    return spool;
  }
  if (!spool.ok() && !absl::IsNotFound(spool.status()) &&
      !absl::IsDataLoss(spool.status())) {
    return spool.status();
  }
  HEARTH_RETURN_IF_ERROR(Sample());
  return plan::SampleSpool::Open(context_.files, SpoolPath());
}

absl::Status Preparation::Sample() const {
  const double start = context_.clock.SteadySeconds();
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::LoadedTopology> topology,
      context_.dataset.LoadTopology(
          {store::Residency::kMemory, store::Residency::kMapped}));
  HEARTH_RETURN_IF_ERROR(SampleOffline(
      {.files = context_.files,
       .clock = context_.clock,
       .source = {.topology = topology->view(), .labels = context_.labels},
       .samplers = context_.samplers,
       .path = SpoolPath()},
      passes_, context_.stop));
  Log(absl::StrFormat("%d batches of %d passes sampled in %.1f s",
                      identity_.num_shards(), identity_.passes.size(),
                      context_.clock.SteadySeconds() - start));
  return absl::OkStatus();
}

absl::StatusOr<plan::MemoryLevels> Preparation::ChooseLevels(
    plan::SampleSpool& spool) const {
  HEARTH_ASSIGN_OR_RETURN(
      const plan::AccessCounts counts,
      plan::AccessCounts::Count(spool, context_.features.layout.num_rows,
                                context_.stop));
  const auto rows = [&](uint64_t budget_bytes) {
    return static_cast<int64_t>(
        std::min(budget_bytes / static_cast<uint64_t>(identity_.row_bytes),
                 static_cast<uint64_t>(counts.num_nodes())));
  };
  HEARTH_ASSIGN_OR_RETURN(
      plan::MemoryLevels levels,
      plan::MemoryLevels::Choose(
          counts, {.gpu = rows(context_.options.gpu_cache_bytes),
                   .cpu = rows(context_.options.cpu_cache_bytes)}));
  if (!levels.gpu_nodes().empty()) {
    Log(absl::StrCat(levels.gpu_nodes().size(), " rows on the GPU"));
  }
  return levels;
}

absl::StatusOr<plan::LayoutChoice> Preparation::ChooseLayout(
    plan::SampleSpool& spool, const plan::MemoryLevels& levels) const {
  const DiskgnnOptions& options = context_.options;
  plan::LayoutLimits limits;
  HEARTH_ASSIGN_OR_RETURN(limits.disk_bytes,
                          context_.files.FreeBytes(identity_.folder));
  const bool full = options.disk_limit_bytes == 0 ||
                    limits.disk_bytes < options.disk_limit_bytes;
  if (!full) limits.disk_bytes = options.disk_limit_bytes;
  if (options.disk_cache_bytes.has_value()) {
    limits.max_cache_rows = static_cast<int64_t>(
        *options.disk_cache_bytes / static_cast<uint64_t>(identity_.row_bytes));
  }
  auto choice = plan::SearchLayout({.trace = &spool,
                                    .levels = &levels,
                                    .row_bytes = identity_.row_bytes,
                                    .sample_bytes = spool.sizes()},
                                   limits, {}, context_.stop);
  if (full && absl::IsResourceExhausted(choice.status())) {
    return Annotate(choice.status(),
                    absl::StrCat(identity_.folder,
                                 ": limited by what is free on the disk"));
  }
  return choice;
}

// The bytes of the plan.
absl::StatusOr<uint64_t> Preparation::Pack(plan::SampleSpool& spool) const {
  HEARTH_ASSIGN_OR_RETURN(const plan::MemoryLevels levels, ChooseLevels(spool));
  HEARTH_ASSIGN_OR_RETURN(plan::LayoutChoice choice,
                          ChooseLayout(spool, levels));
  Log(absl::StrCat(levels.cpu_nodes().size(), " rows in memory, ",
                   choice.layout.rows.disk, " in the disk cache; ",
                   choice.reason));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::ReadableFile> features,
      context_.files.OpenForScan(context_.features.device->path()));
  HEARTH_ASSIGN_OR_RETURN(
      const plan::PackedLayout layout,
      plan::PackBatches(
          context_.files,
          {.trace = &spool,
           .levels = &levels,
           .samples = &spool,
           .features = features.get(),
           .rows = context_.features.layout},
          choice.segmentation, std::move(choice.layout),
          {.folder = identity_.folder,
           .plan_id = identity_.id,
           .memory_limit_bytes = context_.options.prepare_memory_bytes,
           .progress = nullptr,
           .stop = context_.stop}));
  return layout.total_bytes();
}

}  // namespace hearth::strategy
