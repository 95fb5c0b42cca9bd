#include "engine/strategy/diskgnn/preparation.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/plan/access_trace.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/history.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/diskgnn_plan.h"
#include "engine/strategy/diskgnn/packing/pack_batches.h"
#include "engine/strategy/diskgnn/pieces/piece_plan.h"
#include "engine/strategy/diskgnn/pieces/plan_pieces.h"
#include "engine/strategy/packing/disk_limit.h"
#include "engine/strategy/packing/offline_sampling.h"
#include "engine/strategy/packing/sample_spool.h"
#include "engine/strategy/sampling.h"

namespace hearth::strategy {

DiskgnnOptions InBytes(DiskgnnOptions options, int64_t num_rows,
                       int64_t row_bytes) {
  options.disk_limit_bytes = DiskLimitBytes(
      options.disk_limit_bytes, options.disk_limit_ratio, num_rows, row_bytes);
  options.disk_limit_ratio = 0;
  return options;
}

int64_t RowsWithin(uint64_t budget_bytes, int64_t row_bytes,
                   int64_t num_nodes) {
  return static_cast<int64_t>(
      std::min(budget_bytes / static_cast<uint64_t>(row_bytes),
               static_cast<uint64_t>(num_nodes)));
}

absl::StatusOr<MemoryLevels> ChooseLevels(plan::AccessTrace& trace,
                                          const DiskgnnOptions& options,
                                          int64_t row_bytes, int64_t num_nodes,
                                          const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const plan::AccessCounts counts,
                          plan::AccessCounts::Count(trace, num_nodes, stop));
  return MemoryLevels::Choose(
      counts,
      {.gpu = RowsWithin(options.gpu_cache_bytes, row_bytes, num_nodes),
       .cpu = RowsWithin(options.cpu_cache_bytes, row_bytes, num_nodes)});
}

LayoutBudget BudgetForLayout(const DiskgnnOptions& options, int64_t row_bytes,
                             uint64_t free) {
  LayoutBudget budget = {
      .limits = {.disk_bytes = free,
                 .other_bytes = plan::PlanStore::kRecordBytes}};
  budget.by_disk =
      options.disk_limit_bytes == 0 || free < options.disk_limit_bytes;
  if (!budget.by_disk) budget.limits.disk_bytes = options.disk_limit_bytes;
  if (options.disk_cache_bytes.has_value()) {
    budget.limits.max_cache_rows = static_cast<int64_t>(
        *options.disk_cache_bytes / static_cast<uint64_t>(row_bytes));
  }
  return budget;
}

absl::Status ExplainRefusal(const absl::Status& status,
                            const LayoutBudget& budget,
                            const std::string& folder) {
  if (!budget.by_disk || !absl::IsResourceExhausted(status)) return status;
  return Annotate(status, absl::StrCat(folder,
                                       ": limited by what the disk and "
                                       "other plans leave"));
}

namespace {

using plan::PlanLease;

// Adds the time from its construction to its destruction to `seconds`.
class Stopwatch {
 public:
  Stopwatch(const Clock& clock, double& seconds)
      : clock_(clock), start_(clock.SteadySeconds()), seconds_(seconds) {}
  ~Stopwatch() { seconds_ += clock_.SteadySeconds() - start_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  const Clock& clock_;
  const double start_;
  double& seconds_;
};

// Whether a piece seems to be damaged, or to lack a file.
bool IsDamage(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status);
}

std::string RowsText(int64_t rows, int64_t row_bytes) {
  return absl::StrCat(
      rows, " (", FormatByteSize(static_cast<uint64_t>(rows * row_bytes)), ")");
}

}  // namespace

Preparation::Preparation(const PreparationContext& context,
                         absl::Span<const Pass> passes)
    : context_(context) {
  IdentifiedPlan plan =
      IdentifyPlan({.fingerprint = context_.dataset.manifest().fingerprint,
                    .row_bytes = context_.features.layout.row_bytes,
                    .options = context_.options,
                    .folder = context_.plans.options().folder},
                   passes);
  identity_ = std::move(plan.identity);
  passes_ = std::move(plan.passes);
  report_.plan = identity_.name;
}

void Preparation::Log(const std::string& line) const {
  if (context_.listener.log) context_.listener.log(line);
}

void Preparation::Progress(absl::string_view phase, uint64_t done,
                           uint64_t total) const {
  if (context_.listener.progress) {
    context_.listener.progress(phase, done, total);
  }
}

void Preparation::Durable() const {
  if (context_.listener.durable) context_.listener.durable();
}

template <typename Work>
auto Preparation::Phase(const char* name, const Work& work) {
  report_.phases.push_back({.name = name});
  const Stopwatch stopwatch(context_.clock, report_.phases.back().seconds);
  return work();
}

std::string Preparation::SpoolPath() const {
  return io::JoinPath(identity_.folder, "samples");
}

std::string Preparation::SlabsPath() const {
  return io::JoinPath(identity_.folder, "slabs");
}

absl::StatusOr<Preparation::Opened> Preparation::Open() {
  const Stopwatch stopwatch(context_.clock, report_.seconds);
  HEARTH_ASSIGN_OR_RETURN(PlanLease lease,
                          context_.plans.Take(identity_.name, context_.stop));
  HEARTH_ASSIGN_OR_RETURN(std::shared_ptr<OpenPlan> plan, Find(lease));
  if (plan == nullptr) {
    HEARTH_RETURN_IF_ERROR(Make(lease));
    if (report_.to_make.has_value()) {
      return Opened{std::move(lease), nullptr};
    }
    HEARTH_ASSIGN_OR_RETURN(
        plan, OpenPlan::Open(context_.files, identity_, context_.placement,
                             context_.stop));
  }
  HEARTH_RETURN_IF_ERROR(lease.Share());
  return Opened{std::move(lease), std::move(plan)};
}

absl::StatusOr<PlanLease> Preparation::MakeAhead() {
  const Stopwatch stopwatch(context_.clock, report_.seconds);
  HEARTH_ASSIGN_OR_RETURN(PlanLease lease,
                          context_.plans.Take(identity_.name, context_.stop));
  const auto layout = ReadPlanIndex(context_.files, identity_);
  if (layout.ok()) {
    HEARTH_RETURN_IF_ERROR(Found(lease, *layout));
  } else {
    if (!absl::IsNotFound(layout.status())) {
      HEARTH_RETURN_IF_ERROR(StartAnew(lease, layout.status()));
    }
    HEARTH_RETURN_IF_ERROR(Make(lease));
  }
  HEARTH_RETURN_IF_ERROR(lease.Share());
  return lease;
}

// The open plan if it exists and is whole; null if it must be made. Then at
// most complete samples are left in its folder.
absl::StatusOr<std::shared_ptr<OpenPlan>> Preparation::Find(PlanLease& lease) {
  absl::StatusOr<std::shared_ptr<OpenPlan>> plan = OpenPlan::Open(
      context_.files, identity_, context_.placement, context_.stop);
  if (plan.ok()) {
    HEARTH_RETURN_IF_ERROR(Found(lease, (*plan)->layout()));
    return plan;
  }
  if (!absl::IsNotFound(plan.status())) {
    HEARTH_RETURN_IF_ERROR(StartAnew(lease, plan.status()));
  }
  return nullptr;
}

// Removes a plan that must be made again; passes on other errors.
absl::Status Preparation::StartAnew(PlanLease& lease,
                                    const absl::Status& why) const {
  if (!IsUnusable(why)) return why;
  Log(absl::StrCat("plan ", identity_.name,
                   " is removed and made again: ", why.message()));
  return lease.Clear();
}

// Fills in the report for an existing plan.
absl::Status Preparation::Found(PlanLease& lease, const PackedLayout& layout) {
  // A kill behind the writing of the index may have left samples, and no
  // record.
  HEARTH_RETURN_IF_ERROR(SampleSpool::Remove(context_.files, SpoolPath()));
  const absl::StatusOr<plan::PlanRecords::About> about =
      lease.records().ReadAbout();
  if (about.ok()) {
    report_.reason = plan::ValueOf(about->properties, kLayoutProperty);
  } else {
    HEARTH_RETURN_IF_ERROR(lease.Publish(Describe(layout)));
  }
  report_.reused = true;
  report_.disk_bytes = DiskBytes(layout);
  Log(absl::StrCat("plan ", identity_.name, " reused"));
  return absl::OkStatus();
}

absl::Status Preparation::Make(PlanLease& lease) {
  report_.reused = false;
  return context_.options.pieces_folder.empty() ? MakeHere(lease)
                                                : MakeOfPieces(lease);
}

absl::Status Preparation::MakeHere(PlanLease& lease) {
  bool samples_reused = false;
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<SampleSpool> spool,
                          TakeSamples(lease, samples_reused));
  absl::StatusOr<PackedLayout> layout = Pack(lease, *spool);
  if (absl::IsDataLoss(layout.status()) && samples_reused) {
    Log(absl::StrCat("sampling again: ", layout.status().message()));
    HEARTH_RETURN_IF_ERROR(SampleSpool::Remove(context_.files, SpoolPath()));
    HEARTH_ASSIGN_OR_RETURN(spool, TakeSamples(lease, samples_reused));
    layout = Pack(lease, *spool);
  }
  HEARTH_RETURN_IF_ERROR(layout.status());
  spool.reset();
  return Publish(lease, *layout);
}

absl::Status Preparation::Publish(PlanLease& lease,
                                  const PackedLayout& layout) {
  HEARTH_RETURN_IF_ERROR(SampleSpool::Remove(context_.files, SpoolPath()));
  report_.disk_bytes = DiskBytes(layout);
  HEARTH_RETURN_IF_ERROR(lease.Publish(Describe(layout)));
  Durable();
  Log(absl::StrCat(
      "plan ", identity_.name, " made, ", FormatByteSize(report_.disk_bytes),
      " on disk; ",
      absl::StrJoin(report_.phases, ", ",
                    [](std::string* out, const PhaseSeconds& phase) {
                      absl::StrAppendFormat(out, "%s %.1f s", phase.name,
                                            phase.seconds);
                    })));
  return absl::OkStatus();
}

// With pieces, each call goes on as far as it can:
//   1. Plan round 1, unless it is planned. Its pieces must be there.
//   2. Choose levels and layout from all samples and plan round 2, unless it is
//      planned. Its pieces must be there.
//   3. Join them.
// A damaged piece shows when it is read; all are read then, and those that are
// damaged are to be made.
absl::Status Preparation::MakeOfPieces(PlanLease& lease) {
  HEARTH_ASSIGN_OR_RETURN(const PiecePlan samples, PlanSamples());
  HEARTH_ASSIGN_OR_RETURN(std::optional<PiecePlan> packs,
                          FindPackPlan(context_.files, samples));
  if (!packs.has_value()) {
    HEARTH_ASSIGN_OR_RETURN(const bool has_samples, HasPieces(samples, false));
    if (!has_samples) return absl::OkStatus();
    absl::StatusOr<PiecePlan> planned = PlanPacks(lease, samples);
    if (IsDamage(planned.status())) {
      HEARTH_ASSIGN_OR_RETURN(const bool whole, HasPieces(samples, true));
      if (!whole) return absl::OkStatus();
    }
    HEARTH_RETURN_IF_ERROR(planned.status());
    packs = *std::move(planned);
  }
  HEARTH_ASSIGN_OR_RETURN(const bool has_packs, HasPieces(*packs, false));
  if (!has_packs) return absl::OkStatus();
  absl::StatusOr<PackedLayout> layout = Join(lease, *packs);
  if (IsDamage(layout.status())) {
    HEARTH_ASSIGN_OR_RETURN(const bool whole, HasPieces(*packs, true));
    if (!whole) return absl::OkStatus();
  }
  HEARTH_RETURN_IF_ERROR(layout.status());
  return Publish(lease, *layout);
}

// Whether all pieces are there; otherwise the report says which are to be made.
absl::StatusOr<bool> Preparation::HasPieces(const PiecePlan& plan,
                                            bool read_all) {
  HEARTH_ASSIGN_OR_RETURN(const std::vector<MissingPlanPiece> missing,
                          FindMissingPlanPieces(context_.files, plan,
                                                context_.options.pieces_folder,
                                                read_all, context_.stop));
  if (missing.empty()) return true;
  report_.to_make = {.plan = plan.path,
                     .pieces = plan.num_pieces(),
                     .missing = std::ssize(missing),
                     .fault = std::string(missing.front().fault.message())};
  Log(absl::StrCat(report_.to_make->missing, " of ", plan.num_pieces(),
                   " pieces are to be made: ", report_.to_make->fault));
  return false;
}

absl::StatusOr<PiecePlan> Preparation::PlanSamples() const {
  const store::Dataset& dataset = context_.dataset;
  const store::Manifest& manifest = dataset.manifest();
  return PlanSamplePieces(
      context_.files,
      {.plan = identity_.name,
       .plan_id = identity_.id,
       .dataset = manifest.name,
       .dataset_path = dataset.path(),
       .fingerprint = manifest.fingerprint,
       .target = manifest.node_types[dataset.target_type()].name,
       .num_nodes = context_.features.layout.num_rows},
      passes_, context_.options.num_pieces, context_.options.pieces_folder);
}

absl::StatusOr<PiecePlan> Preparation::PlanPacks(PlanLease& lease,
                                                 const PiecePlan& samples) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<SamplePieces> trace,
                          SamplePieces::Open(context_.files, samples,
                                             context_.options.pieces_folder, 0,
                                             samples.num_batches()));
  HEARTH_ASSIGN_OR_RETURN(Decision decision, Decide(lease, *trace, *trace));
  return PlanPackPieces(context_.files, samples,
                        {.levels = decision.levels,
                         .segmentation = decision.choice.segmentation,
                         .layout = decision.choice.layout},
                        decision.choice.reason, context_.options.num_pieces);
}

absl::StatusOr<PackedLayout> Preparation::Join(PlanLease& lease,
                                               const PiecePlan& packs) {
  report_.reason = packs.reason;
  HEARTH_ASSIGN_OR_RETURN(const PackedLayout layout,
                          ReadLayout(context_.files, packs));
  HEARTH_RETURN_IF_ERROR(lease.MakeRoom(DiskBytes(layout)));
  return Phase("joining", [&] {
    return JoinPackPieces({.files = context_.files,
                           .from = context_.options.pieces_folder,
                           .folder = identity_.folder,
                           .threads = context_.samplers,
                           .progress =
                               [this](uint64_t done, uint64_t total) {
                                 Progress("joining pieces", done, total);
                               },
                           .stop = context_.stop},
                          packs);
  });
}

absl::StatusOr<std::unique_ptr<SampleSpool>> Preparation::TakeSamples(
    PlanLease& lease, bool& reused) {
  // A kill may have left them.
  HEARTH_RETURN_IF_ERROR(context_.files.RemoveTree(SlabsPath()));
  auto spool = SampleSpool::Open(context_.files, SpoolPath());
  reused = spool.ok() && (*spool)->num_batches() == identity_.num_shards();
  if (reused) {
    Log("samples of an earlier preparation reused");
    return spool;
  }
  if (!spool.ok() && !absl::IsNotFound(spool.status()) &&
      !absl::IsDataLoss(spool.status())) {
    return spool.status();
  }
  HEARTH_RETURN_IF_ERROR(Phase("sampling", [&] { return Sample(lease); }));
  Durable();
  Log(absl::StrFormat("%d batches of %d passes sampled in %.1f s",
                      identity_.num_shards(), identity_.passes.size(),
                      report_.phases.back().seconds));
  return SampleSpool::Open(context_.files, SpoolPath());
}

absl::Status Preparation::Sample(PlanLease& lease) const {
  HEARTH_ASSIGN_OR_RETURN(
      const OpenedSource opened,
      OpenSource(context_.dataset, context_.labels, context_.topology,
                 context_.files, SlabsPath(), context_.stop));
  if (context_.topology == TopologyPlace::kSlabs) {
    Log("sampling slab by slab of the topology");
  }
  return SampleOffline(
      {.files = context_.files,
       .clock = context_.clock,
       .source = opened.source,
       .samplers = context_.samplers,
       .path = SpoolPath(),
       .reserve = [&](uint64_t bytes) { return lease.MakeRoom(bytes); },
       .progress = [this](
                       uint64_t done,
                       uint64_t total) { Progress("sampling", done, total); }},
      passes_, context_.stop);
}

absl::StatusOr<LayoutChoice> Preparation::ChooseLayout(
    const PlanLease& lease, plan::AccessTrace& trace,
    const EncodedSamples& samples, const MemoryLevels& levels) const {
  HEARTH_ASSIGN_OR_RETURN(const plan::PlanSpace free, lease.Space());
  const auto search = [&](const LayoutBudget& budget) {
    return SearchLayout({.trace = &trace,
                         .levels = &levels,
                         .row_bytes = identity_.row_bytes,
                         .sample_bytes = samples.sizes()},
                        budget.limits, {}, context_.stop);
  };
  const LayoutBudget budget =
      BudgetForLayout(context_.options, identity_.row_bytes, free.bytes);
  auto choice = search(budget);
  if (choice.ok()) return choice;
  const absl::Status refusal =
      ExplainRefusal(choice.status(), budget, identity_.folder);
  if (!budget.by_disk || !absl::IsResourceExhausted(refusal)) return refusal;
  // Space that plans in use take, or that the disk lacks, may become free; a
  // limit set by an option does not change.
  if (free.alone_bytes <= free.bytes) return refusal;
  choice = search(
      BudgetForLayout(context_.options, identity_.row_bytes, free.alone_bytes));
  if (absl::IsCancelled(choice.status())) return choice;
  if (!choice.ok()) return refusal;
  return free.more_needs_bytes.has_value()
             ? WaitForPlanSpace(refusal, *free.more_needs_bytes)
             : WaitForDiskSpace(refusal);
}

absl::StatusOr<Preparation::Decision> Preparation::Decide(
    PlanLease& lease, plan::AccessTrace& trace, const EncodedSamples& samples) {
  std::optional<MemoryLevels> levels;
  HEARTH_ASSIGN_OR_RETURN(
      LayoutChoice choice,
      Phase("planning", [&]() -> absl::StatusOr<LayoutChoice> {
        Progress("planning", 0, 0);
        HEARTH_ASSIGN_OR_RETURN(
            levels,
            ChooseLevels(trace, context_.options, identity_.row_bytes,
                         context_.features.layout.num_rows, context_.stop));
        return ChooseLayout(lease, trace, samples, *levels);
      }));
  report_.reason = choice.reason;
  if (!levels->gpu_nodes().empty()) {
    Log(absl::StrCat(levels->gpu_nodes().size(), " rows on the GPU"));
  }
  Log(absl::StrCat(levels->cpu_nodes().size(), " rows in memory, ",
                   choice.layout.rows.disk, " in the disk cache; ",
                   choice.reason));
  WarnOfSize(choice.layout);
  return Decision{*std::move(levels), std::move(choice)};
}

absl::StatusOr<PackedLayout> Preparation::Pack(PlanLease& lease,
                                               SampleSpool& spool) {
  HEARTH_ASSIGN_OR_RETURN(Decision decision, Decide(lease, spool, spool));
  LayoutChoice& choice = decision.choice;
  HEARTH_RETURN_IF_ERROR(lease.MakeRoom(DiskBytes(choice.layout)));
  std::optional<store::RowSet> wanted;
  if (context_.dataset.manifest().is_sharded()) {
    HEARTH_ASSIGN_OR_RETURN(wanted, WantedRows(spool, decision.levels));
  }
  HEARTH_ASSIGN_OR_RETURN(
      const store::ScannedFeatures features,
      wanted.has_value() ? context_.dataset.ScanRows(*wanted, context_.stop)
                         : context_.dataset.ScanFeatures(context_.stop));
  const PackInput input = {.trace = &spool,
                           .levels = &decision.levels,
                           .samples = &spool,
                           .features = features.file.get(),
                           .rows = features.rows};
  const PackOptions options = {
      .folder = identity_.folder,
      .plan_id = identity_.id,
      .memory_limit_bytes = context_.options.prepare_memory_bytes,
      .progress =
          [this](const PackProgress& progress) {
            Progress(absl::StrCat("packing, ", progress.stage),
                     progress.done_bytes, progress.total_bytes);
          },
      .threads = context_.samplers,
      .stop = context_.stop,
      .on_scan = context_.on_scan,
      .clock = &context_.clock};
  return Phase("packing", [&] {
    return PackBatches(context_.files, input, choice.segmentation,
                       std::move(choice.layout), options);
  });
}

// The rows that are packed or in memory levels: all others may be elsewhere.
absl::StatusOr<store::RowSet> Preparation::WantedRows(
    plan::AccessTrace& trace, const MemoryLevels& levels) const {
  store::RowSet wanted(context_.features.layout.num_rows);
  for (int64_t batch = 0; batch < trace.num_batches(); ++batch) {
    HEARTH_ASSIGN_OR_RETURN(const absl::Span<const store::NodeId> nodes,
                            trace.Load(batch));
    wanted.Add(nodes);
  }
  wanted.Add(levels.gpu_nodes());
  wanted.Add(levels.cpu_nodes());
  return wanted;
}

// Logs a warning for a plan without a limit that takes many times the features'
// bytes.
void Preparation::WarnOfSize(const PackedLayout& layout) const {
  constexpr double kMuch = 8;
  const double times = static_cast<double>(layout.total_bytes()) /
                       static_cast<double>(context_.features.layout.num_rows *
                                           identity_.row_bytes);
  if (context_.options.disk_limit_bytes > 0 || times < kMuch) return;
  Log(
      absl::StrFormat("the plan takes %.0f times as much disk as the features: "
                      "a disk limit, or "
                      "fewer distinct epochs, would take less",
                      times));
}

// The properties of the plan's record, for people.
plan::PlanProperties Preparation::Describe(const PackedLayout& layout) const {
  int64_t packed = 0;
  for (const Chunk& chunk : layout.chunks) packed += chunk.counts.packed;
  plan::PlanProperties properties = {
      {"dataset", context_.dataset.manifest().name},
      {"passes", absl::StrCat(identity_.passes.size())},
      {"batches", absl::StrCat(identity_.num_shards())},
      {"rows on the GPU", RowsText(layout.rows.gpu, identity_.row_bytes)},
      {"rows in memory", RowsText(layout.rows.cpu, identity_.row_bytes)},
      {"rows in disk cache", RowsText(layout.rows.disk, identity_.row_bytes)},
      {"rows in packs", RowsText(packed, identity_.row_bytes)}};
  if (!passes_.empty()) {
    const Pass& pass = passes_.front();
    properties.insert(properties.begin() + 1,
                      {DescribeSampler(pass.sampler),
                       {"batch size", absl::StrCat(pass.batch_size)},
                       {"data seed", absl::StrCat(pass.sampler.data_seed)}});
    if (pass.history != nullptr) {
      properties.emplace_back(
          "history",
          absl::StrCat("embeddings of ", pass.history->candidates->size(),
                       " nodes, each for fewer than ", pass.history->staleness,
                       " batches"));
    }
  }
  if (!report_.reason.empty()) {
    properties.emplace_back(kLayoutProperty, report_.reason);
  }
  for (const PhaseSeconds& phase : report_.phases) {
    properties.emplace_back(phase.name,
                            absl::StrFormat("%.1f s", phase.seconds));
  }
  return properties;
}

}  // namespace hearth::strategy
