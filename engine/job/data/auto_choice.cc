// A choice, step by step:
//   1. Take the choice of an earlier run, if it still fits.
//   2. If everything fits into memory, it is `memory`.
//   3. Reserve memory; sample some batches, and train a few of them.
//   4. Fit each candidate into memory and price it.
//   5. Keep the cheapest, and log it.
#include "engine/job/data/auto_choice.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "engine/base/byte_size.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/job/data/opened_job.h"
#include "engine/job/data/step_timer.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/machine/disk_profile.h"
#include "engine/store/strict_json.h"
#include "engine/strategy/forecast.h"
#include "engine/strategy/pricing/price.h"
#include "engine/strategy/pricing/workload.h"
#include "nlohmann/json.hpp"

namespace hearth::strategy {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(BudgetCut, option, unit, asked, chosen)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommonBudgets, cpu_cache_bytes,
                                   gpu_cache_bytes, staging_bytes, io_depth,
                                   first_epochs)

}  // namespace hearth::strategy

namespace hearth::job {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AutoCandidate, strategy, cpu_cache_bytes,
                                   io_depth, first_epochs, refusal, seconds,
                                   prepare_seconds, first_epoch_seconds,
                                   epoch_seconds, bytes_read, disk_bytes,
                                   memory_bytes, plan_exists, cuts)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(AutoChoice, strategy, budgets, reason,
                                   candidates, read_bytes_per_second,
                                   write_bytes_per_second, reads_per_second,
                                   sample_seconds, step_seconds, processors,
                                   sampled_batches, before, is_final,
                                   slow_epoch_seconds, trained_epochs)

namespace {

using nlohmann::json;
using strategy::CommonBudgets;
using strategy::MemoryEstimate;
using strategy::StrategyOptions;

constexpr char kFile[] = "auto.json";
constexpr int kFormat = 2;
constexpr uint64_t kMaxFileBytes = 1 << 20;
// Depths that are tried where the job names none: the strategy's own, and a
// large one.
constexpr int kDepths[] = {0, 256};
// Epochs prepared before the first batch that are tried: the strategy's own,
// and as many as it may prepare together.
constexpr double kFirstEpochs[] = {0, 8};
// An evaluation takes so much of the time of a training step: it has no
// backward pass.
constexpr double kEvaluationShare = 0.35;
// Steps in which the cache is made smaller, until no thread has to go.
constexpr uint64_t kCacheSteps = 16;
// Caches are multiples of this.
constexpr uint64_t kCacheUnit = uint64_t{1} << 20;
// Another strategy takes over if it promises so much of the time that the
// chosen one would go on to take.
constexpr double kWorthChanging = 0.7;
// Candidates that the reason names after the chosen one.
constexpr size_t kMostNamed = 3;

std::string SecondsText(double seconds) {
  return seconds < 10 ? absl::StrFormat("%.1f s", seconds)
                      : absl::StrFormat("%.0f s", seconds);
}

// Index of a strategy in StrategyKinds(); nullopt for an unknown name.
std::optional<size_t> KindNamed(const std::string& name) {
  const auto kinds = strategy::StrategyKinds();
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].name == name) return i;
  }
  return std::nullopt;
}

// Chooses the strategy of one job.
class Selection {
 public:
  Selection(const JobEnvironment& environment, const AutoBasis& basis,
            Observer& observer, const std::stop_token& stop)
      : environment_(environment),
        basis_(basis),
        budgets_(*basis.data.automatic),
        kinds_(basis.passes.Kinds()),
        observer_(observer),
        stop_(stop) {}

  absl::StatusOr<AutoChoice> Run() {
    HEARTH_ASSIGN_OR_RETURN(std::optional<AutoChoice> choice, TakeKept());
    if (choice.has_value() && choice->slow_epoch_seconds > 0) {
      HEARTH_ASSIGN_OR_RETURN(choice, ChooseAgain(*choice));
    } else if (choice.has_value()) {
      observer_.OnLog(
          Severity::kInfo,
          absl::StrCat("strategy auto goes on with ", choice->strategy,
                       choice->before.empty()
                           ? ", chosen when the job first began"
                           : ", which took over from " + choice->before));
      return *std::move(choice);
    } else {
      HEARTH_ASSIGN_OR_RETURN(choice, Choose());
      observer_.OnLog(Severity::kInfo,
                      absl::StrCat("strategy auto chose ", choice->reason));
    }
    if (!basis_.folder.empty()) {
      const absl::Status kept =
          WriteAutoChoice(environment_.files, basis_.folder, *choice);
      // A job that has trained does not end for it: it would choose again.
      if (!kept.ok() && trained_epochs_ == 0) return kept;
      if (!kept.ok()) {
        observer_.OnLog(Severity::kWarning,
                        absl::StrCat("the choice of the strategy is not kept: ",
                                     kept.message()));
      }
    }
    return *std::move(choice);
  }

 private:
  // The job's data with a strategy.
  absl::StatusOr<MemoryFit> Fit(const StrategyOptions& strategy) const {
    BatchOptions data = basis_.data;
    data.strategy = strategy::WithAutoBudgets(
        strategy, basis_.dataset.manifest(), MostBytes());
    return FitToMemory(environment_, basis_.dataset, UseOf(data), stop_);
  }

  StrategyUse UseOf(const BatchOptions& data) const {
    return {.data = data,
            .pipeline = basis_.job.pipeline,
            .labels = basis_.labels,
            .passes = kinds_,
            .embedding_width = train::HiddenWidth(basis_.job.train.model),
            .model = basis_.model,
            .partition = basis_.partition};
  }

  uint64_t MostBytes() const { return environment_.memory.most_bytes(); }

  uint64_t AllRowsBytes() const {
    return strategy::MemoryBasis{
        .manifest = basis_.dataset.manifest(), .pipeline = {}, .batches = {}}
        .all_rows_bytes();
  }

  bool Fits(const MemoryFit& fit) const {
    return fit.estimate.TotalBytes() <= MostBytes();
  }

  // The choice of an earlier run, if it fits. A damaged one counts as none.
  absl::StatusOr<std::optional<AutoChoice>> TakeKept() {
    if (basis_.folder.empty()) return std::nullopt;
    absl::StatusOr<AutoChoice> kept =
        ReadAutoChoice(environment_.files, basis_.folder);
    if (absl::IsNotFound(kept.status())) return std::nullopt;
    if (absl::IsDataLoss(kept.status())) {
      observer_.OnLog(Severity::kWarning,
                      absl::StrCat(kept.status().message(),
                                   "; the strategy is chosen again"));
      return std::nullopt;
    }
    HEARTH_RETURN_IF_ERROR(kept.status());
    HEARTH_ASSIGN_OR_RETURN(const MemoryFit fit, Fit(StrategyOf(*kept)));
    if (!Fits(fit)) {
      observer_.OnLog(Severity::kInfo,
                      absl::StrCat("strategy auto had chosen ", kept->strategy,
                                   ", which does not fit into memory now: the "
                                   "strategy is chosen again"));
      is_final_ = kept->is_final;
      return std::nullopt;
    }
    return *std::move(kept);
  }

  // The choice for the epochs that are left, if those trained were slower than
  // told: the strategy is left only for one that is much faster.
  absl::StatusOr<AutoChoice> ChooseAgain(AutoChoice kept) {
    trained_epochs_ = kept.trained_epochs;
    fresh_ = absl::ZeroDuration();
    const double measured = std::exchange(kept.slow_epoch_seconds, 0);
    kept.is_final = true;
    HEARTH_ASSIGN_OR_RETURN(const MemoryFit fit, Fit(StrategyOf(kept)));
    const strategy::MemoryEstimate sampling = SamplingMemory(fit.batches);
    if (sampling.TotalBytes() > MostBytes()) return kept;
    AutoChoice again = {.budgets = budgets_,
                        .before = kept.strategy,
                        .is_final = true,
                        .trained_epochs = trained_epochs_};
    HEARTH_RETURN_IF_ERROR(Measure(fit.batches, sampling, again));
    HEARTH_RETURN_IF_ERROR(AddCandidates(fit.batches, again));
    double seconds = 0;
    for (AutoCandidate& candidate : again.candidates) {
      if (candidate.strategy != kept.strategy) continue;
      candidate.refusal.clear();
      candidate.seconds +=
          (measured - candidate.epoch_seconds) * workload_.epochs -
          candidate.prepare_seconds;
      candidate.prepare_seconds = 0;
      candidate.epoch_seconds = measured;
      seconds = candidate.seconds;
    }
    again.reason = RankCandidates(again.candidates);
    const AutoCandidate& best = again.candidates.front();
    if (best.strategy == kept.strategy ||
        best.seconds > kWorthChanging * seconds) {
      observer_.OnLog(Severity::kInfo,
                      absl::StrCat("strategy auto stays with ", kept.strategy,
                                   ": for the other epochs, ", again.reason));
      return kept;
    }
    Take(best, again);
    observer_.OnLog(
        Severity::kInfo,
        absl::StrCat("strategy auto: ", again.strategy, " takes over from ",
                     again.before, ": for the other epochs, ", again.reason));
    return again;
  }

  absl::StatusOr<AutoChoice> Choose() {
    const StrategyOptions memory = strategy::MemoryOptions();
    HEARTH_ASSIGN_OR_RETURN(const MemoryFit fit, Fit(memory));
    AutoChoice choice = {.strategy = strategy::Name(memory),
                         .budgets = budgets_,
                         .is_final = is_final_};
    const bool memory_fits =
        Fits(fit) && RefusalOf(*KindNamed(choice.strategy)).empty();
    if (memory_fits && !basis_.compares_all) {
      choice.reason = absl::StrCat(choice.strategy, ": it takes ",
                                   FormatByteSize(fit.estimate.TotalBytes()),
                                   " of ", FormatByteSize(MostBytes()));
      choice.candidates.push_back({.strategy = choice.strategy,
                                   .memory_bytes = fit.estimate.TotalBytes()});
      return choice;
    }
    const strategy::MemoryEstimate sampling = SamplingMemory(fit.batches);
    if (sampling.TotalBytes() > MostBytes()) {
      HEARTH_ASSIGN_OR_RETURN(choice.strategy, FirstThatFits());
      choice.budgets.cpu_cache_bytes = 0;
      choice.reason = absl::StrCat(choice.strategy,
                                   ": memory is too short to compare prices");
      return choice;
    }
    HEARTH_RETURN_IF_ERROR(Measure(fit.batches, sampling, choice));
    HEARTH_RETURN_IF_ERROR(AddCandidates(fit.batches, choice));
    auto& all = choice.candidates;
    if (std::all_of(all.begin(), all.end(), [](const AutoCandidate& candidate) {
          return !candidate.refusal.empty();
        })) {
      return RefuseAll("is refused: " + all.back().strategy + " " +
                       all.back().refusal);
    }
    choice.reason = RankCandidates(all);
    const auto chosen = memory_fits
                            ? std::find_if(all.begin(), all.end(),
                                           [&](const AutoCandidate& candidate) {
                                             return candidate.strategy ==
                                                    strategy::Name(memory);
                                           })
                            : all.begin();
    if (memory_fits) {
      choice.reason = absl::StrCat(
          chosen->strategy, ": all rows fit into memory; ", choice.reason);
    }
    Take(*chosen, choice);
    return choice;
  }

  static void Take(const AutoCandidate& chosen, AutoChoice& choice) {
    choice.strategy = chosen.strategy;
    choice.budgets.cpu_cache_bytes = chosen.cpu_cache_bytes;
    choice.budgets.io_depth = chosen.io_depth;
    choice.budgets.first_epochs = chosen.first_epochs;
  }

  // Batches of the job, by their seeds.
  double BatchesOf(int64_t seeds) const {
    return static_cast<double>(seeds) /
           static_cast<double>(basis_.data.batch_size);
  }

  bool Evaluates() const {
    return basis_.job.HasModel() && !basis_.job.feed.has_value();
  }

  // Batches that are kept to train on them.
  int Kept() const { return Evaluates() ? StepTimer::kBatches : 0; }

  // The memory that Measure holds at most.
  MemoryEstimate SamplingMemory(const strategy::BatchBound& batches) const {
    const StrategyUse use = UseOf(basis_.data);
    strategy::MemoryBasis memory =
        BasisOf(environment_, basis_.dataset, use, batches);
    memory.pipeline.sampling_gpu = std::nullopt;
    MemoryEstimate estimate = strategy::EstimateSamplingMemory(memory, Kept());
    AddJobShares(use, batches, estimate);
    return estimate;
  }

  // The name of the first strategy that fits without a cache; those that
  // prepare nothing come first. RESOURCE_EXHAUSTED as CheckFits if none does.
  absl::StatusOr<std::string> FirstThatFits() const {
    const auto kinds = strategy::StrategyKinds();
    for (const bool prepares : {false, true}) {
      for (size_t i = 0; i < kinds.size(); ++i) {
        if (kinds[i].prepares != prepares || !RefusalOf(i).empty()) continue;
        CommonBudgets budgets = budgets_;
        budgets.cpu_cache_bytes = 0;
        HEARTH_ASSIGN_OR_RETURN(const MemoryFit fit,
                                Fit(strategy::WithCommonBudgets(i, budgets)));
        if (Fits(fit)) return std::string(kinds[i].name);
      }
    }
    return RefuseAll("does not fit into memory");
  }

  // RESOURCE_EXHAUSTED: the least that a job takes is told by a strategy that
  // keeps no rows.
  absl::Status RefuseAll(absl::string_view reason) const {
    HEARTH_ASSIGN_OR_RETURN(const MemoryFit least,
                            Fit(strategy::MmapOptions()));
    HEARTH_RETURN_IF_ERROR(
        CheckFits(environment_, UseOf(basis_.data), least.estimate));
    return absl::ResourceExhaustedError(
        absl::StrCat("strategy auto: every strategy ", reason));
  }

  // Samples and times, and sets workload_ and disk_; holds `sampling`.
  absl::Status Measure(const strategy::BatchBound& batches,
                       const MemoryEstimate& sampling, AutoChoice& choice) {
    const TrainJobOptions& job = basis_.job;
    const BatchOptions& data = basis_.data;
    const bool has_steps = Evaluates();
    const int kept = Kept();
    MemoryLedger::Reservation reservation;
    HEARTH_RETURN_IF_ERROR(environment_.memory.Reserve(sampling, reservation));
    strategy::Workload work;
    work.epochs = static_cast<double>(job.data.epochs - trained_epochs_);
    // A feed's client ends it when it likes: an epoch is priced.
    if (job.feed.has_value()) work.epochs = 1;
    if (job.part == TrainPart::kTest) work.epochs = 0;
    work.distinct_epochs =
        std::min(static_cast<double>(data.NumEpochKeys()),
                 std::max(1.0, static_cast<double>(job.data.epochs)));
    work.periods =
        data.refresh_epochs > 0
            ? std::ceil(work.epochs / static_cast<double>(data.refresh_epochs))
            : 1;
    work.validates = Evaluates() && basis_.passes.num_valid() > 0;
    work.tests = Evaluates() && basis_.passes.num_test() > 0 &&
                 job.part != TrainPart::kTraining;
    work.training.batches = BatchesOf(basis_.passes.num_train());
    work.validation.batches = BatchesOf(basis_.passes.num_valid());
    work.test.batches = BatchesOf(basis_.passes.num_test());
    double all = work.training.batches * work.epochs;
    if (work.validates) all += work.validation.batches * work.epochs;
    if (work.tests) all += work.test.batches;

    strategy::Pass pass = basis_.passes.Training(0);
    pass.history = nullptr;
    pass.batches = batches;
    strategy::PipelineOptions pipeline = job.pipeline;
    pipeline.sampling_gpu = std::nullopt;
    const strategy::PreparationListener listener = ListenFor(observer_);
    const strategy::ForecastContext context = {
        .dataset = basis_.dataset,
        .labels = basis_.labels,
        .files = environment_.files,
        .read_queues = environment_.read_queues,
        .clock = environment_.clock,
        .pipeline = pipeline,
        .plans = environment_.plans,
        .scratch_folder = {},
        .listener = listener,
        .stop = stop_};
    strategy::ForecastRequest request = {
        .passes = {&pass, 1},
        .num_training = 1,
        .time_training = nullptr,
        .most_batches = strategy::BatchesToSample(all)};
    HEARTH_ASSIGN_OR_RETURN(
        strategy::SampledWorkload sampled,
        strategy::SampleWorkload(context, request, kept,
                                 /*repeats=*/work.distinct_epochs <= 1));
    work.rows = sampled.workload.rows;
    work.edges = sampled.workload.edges;
    work.lists = sampled.workload.lists;
    work.sample_seconds = sampled.workload.sample_seconds;
    work.sampled_batches = sampled.workload.sampled_batches;
    work.misses = sampled.workload.misses;
    work.train_threads =
        job.train.train_threads * static_cast<int>(data.trainers);
    if (has_steps) {
      HEARTH_ASSIGN_OR_RETURN(work.training.step_seconds,
                              TimeSteps(pass, sampled));
      work.validation.step_seconds =
          kEvaluationShare * work.training.step_seconds;
      work.test.step_seconds = work.validation.step_seconds;
    }
    workload_ = std::move(work);
    reservation = {};
    HEARTH_ASSIGN_OR_RETURN(
        disk_, ProfileOf(environment_, basis_.dataset, stop_, fresh_));
    choice.read_bytes_per_second = disk_.BytesPerSecond(1);
    choice.write_bytes_per_second = disk_.write_bytes_per_second;
    choice.reads_per_second = disk_.ReadsPerSecond(1, machine::kDeepReads, 0);
    choice.sample_seconds = workload_.sample_seconds;
    choice.step_seconds = workload_.training.step_seconds;
    choice.processors = UsableProcessors();
    choice.sampled_batches = workload_.sampled_batches;
    return absl::OkStatus();
  }

  absl::StatusOr<double> TimeSteps(
      const strategy::Pass& pass,
      const strategy::SampledWorkload& sampled) const {
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<train::TrainStep> step,
        NewModel(environment_, basis_.job, basis_.dataset, basis_.passes));
    StepTimer timer({.dataset = basis_.dataset,
                     .labels = basis_.labels,
                     .clock = environment_.clock,
                     .pass = pass},
                    *step);
    for (size_t i = 0; i < sampled.samples.size(); ++i) {
      HEARTH_RETURN_IF_ERROR(timer.Add(sampled.picks[i], sampled.samples[i]));
    }
    return timer.SecondsPerBatch();
  }

  // What is tried of reads in flight, and of epochs prepared before the first
  // batch.
  static std::vector<std::pair<int, double>> Settings() {
    std::vector<std::pair<int, double>> settings;
    for (const int depth : kDepths) {
      for (const double epochs : kFirstEpochs) {
        settings.emplace_back(depth, epochs);
      }
    }
    return settings;
  }

  // Prices every strategy with every setting; of each strategy the cheapest
  // becomes a candidate.
  absl::Status AddCandidates(const strategy::BatchBound& batches,
                             AutoChoice& choice) const {
    const auto kinds = strategy::StrategyKinds();
    for (size_t i = 0; i < kinds.size(); ++i) {
      AutoCandidate best = {.strategy = std::string(kinds[i].name),
                            .refusal = RefusalOf(i)};
      if (best.refusal.empty()) {
        best.refusal = "no setting fits";
        std::vector<StrategyOptions> tried;
        for (const auto& [depth, first_epochs] : Settings()) {
          CommonBudgets budgets = budgets_;
          if (budgets.io_depth == 0) budgets.io_depth = depth;
          budgets.first_epochs = first_epochs;
          const StrategyOptions options =
              strategy::WithCommonBudgets(i, budgets);
          if (std::count(tried.begin(), tried.end(), options) > 0) continue;
          tried.push_back(options);
          HEARTH_ASSIGN_OR_RETURN(const AutoCandidate priced,
                                  PriceOne(i, budgets, batches));
          if (!best.refusal.empty() ||
              (priced.refusal.empty() && priced.seconds < best.seconds)) {
            best = priced;
          }
        }
      }
      choice.candidates.push_back(std::move(best));
    }
    return absl::OkStatus();
  }

  // Why the job cannot have the strategy with this index; empty if it can.
  std::string RefusalOf(size_t index) const {
    const strategy::StrategyKind& kind = strategy::StrategyKinds()[index];
    if (!kind.exact) return "gives other batches";
    if (kind.needs_partition && !basis_.data.partition_order.has_value()) {
      return "needs order partition";
    }
    if (basis_.job.pipeline.sampling_gpu.has_value() && !kind.samples_on_gpu) {
      return "samples on no GPU";
    }
    // The client of a feed may ask for batches of its own seeds.
    if (basis_.job.feed.has_value() && !kind.takes_requests) {
      return "answers no requests of feeds";
    }
    const StrategyOptions options =
        strategy::WithCommonBudgets(index, budgets_);
    const absl::Status topology =
        strategy::CheckTopology(options, basis_.job.pipeline);
    if (!topology.ok()) return std::string(topology.message());
    // A budget that is given is the most memory that rows may take.
    if (std::holds_alternative<strategy::MemoryOptions>(options) &&
        budgets_.cpu_cache_bytes < AllRowsBytes()) {
      return absl::StrCat("keeps all rows, ", FormatByteSize(AllRowsBytes()),
                          ", and cpu-cache allows ",
                          FormatByteSize(budgets_.cpu_cache_bytes));
    }
    return "";
  }

  absl::StatusOr<AutoCandidate> PriceOne(
      size_t kind, CommonBudgets budgets,
      const strategy::BatchBound& batches) const {
    HEARTH_ASSIGN_OR_RETURN(const MemoryFit fit, FitCache(kind, budgets));
    const StrategyOptions& options = fit.chosen.strategy;
    AutoCandidate candidate = {
        .strategy = std::string(strategy::StrategyKinds()[kind].name),
        .cpu_cache_bytes = budgets.cpu_cache_bytes,
        .io_depth = budgets.io_depth,
        .first_epochs = budgets.first_epochs,
        .memory_bytes = fit.estimate.TotalBytes(),
        .cuts = fit.cuts};
    if (!Fits(fit)) {
      candidate.refusal =
          absl::StrCat("does not fit (it takes ",
                       FormatByteSize(candidate.memory_bytes), " of memory)");
      return candidate;
    }
    BatchOptions data = basis_.data;
    data.strategy = options;
    strategy::MemoryBasis memory =
        BasisOf(environment_, basis_.dataset, UseOf(data), batches);
    memory.pipeline = fit.chosen.pipeline;
    const std::vector<strategy::Pass> passes =
        strategy::KindOf(options).makes_plans ? basis_.passes.OfPeriod(0)
                                              : std::vector<strategy::Pass>();
    const absl::StatusOr<strategy::Price> price = strategy::PriceOf(
        options, {.work = workload_,
                  .disk = disk_,
                  .processors = UsableProcessors(),
                  .page_cache_bytes =
                      strategy::LikelyPageCacheBytes(candidate.memory_bytes),
                  .basis = memory,
                  .checks_rows = fit.rows == RowVerification::kEachRow,
                  .files = &environment_.files,
                  .plans = &environment_.plans,
                  .passes = passes});
    if (absl::IsResourceExhausted(price.status())) {
      candidate.refusal = std::string(price.status().message());
      return candidate;
    }
    HEARTH_RETURN_IF_ERROR(price.status());
    const auto bytes = [](double value) {
      return static_cast<uint64_t>(std::llround(value));
    };
    candidate.seconds = price->Total(workload_);
    candidate.prepare_seconds = price->prepare_seconds;
    candidate.first_epoch_seconds = price->first_epoch_seconds;
    candidate.epoch_seconds = price->epoch_seconds;
    candidate.bytes_read = bytes(price->bytes_read);
    candidate.disk_bytes = bytes(price->disk_bytes);
    candidate.plan_exists = price->plan_exists;
    return candidate;
  }

  // Threads and queues that are cut. Memory for other ends than the cache may
  // go: rows in memory are worth more, as measured with diskgnn.
  static int64_t NarrowCuts(const MemoryFit& fit) {
    return std::count_if(fit.cuts.begin(), fit.cuts.end(),
                         [](const strategy::BudgetCut& cut) {
                           return cut.unit != strategy::BudgetUnit::kBytes;
                         });
  }

  // Fits a strategy into memory. A cache that is left to the engine is the
  // largest for which no threads and queues are cut; sets `budgets` to it.
  absl::StatusOr<MemoryFit> FitCache(size_t kind,
                                     CommonBudgets& budgets) const {
    const auto fit = [&] {
      return Fit(strategy::WithCommonBudgets(kind, budgets));
    };
    if (budgets.cpu_cache_bytes != strategy::kAutoBytes) return fit();
    const StrategyOptions automatic =
        strategy::WithCommonBudgets(kind, budgets);
    budgets.cpu_cache_bytes = 0;
    if (strategy::WithCommonBudgets(kind, budgets) == automatic) return fit();
    HEARTH_ASSIGN_OR_RETURN(MemoryFit least, fit());
    // Caches, with their bookkeeping, take at most twice their bytes.
    const strategy::MemoryBasis memory = BasisOf(
        environment_, basis_.dataset, UseOf(basis_.data), least.batches);
    const uint64_t taken = least.estimate.TotalBytes();
    const uint64_t left = MostBytes() > taken ? MostBytes() - taken : 0;
    const uint64_t most = std::min(left, memory.all_rows_bytes());
    for (uint64_t step = kCacheSteps; step > 0; --step) {
      budgets.cpu_cache_bytes =
          most / kCacheSteps * step / kCacheUnit * kCacheUnit;
      if (budgets.cpu_cache_bytes == 0) break;
      HEARTH_ASSIGN_OR_RETURN(MemoryFit tried, fit());
      if (Fits(tried) && NarrowCuts(tried) <= NarrowCuts(least)) return tried;
    }
    budgets.cpu_cache_bytes = 0;
    return least;
  }

  const JobEnvironment& environment_;
  const AutoBasis& basis_;
  const CommonBudgets budgets_;
  const std::vector<strategy::Pass> kinds_;
  Observer& observer_;
  const std::stop_token& stop_;
  // Epochs that are not priced, and the age up to which the disk's profile is
  // taken.
  int64_t trained_epochs_ = 0;
  // Whether an earlier choice was final.
  bool is_final_ = false;
  absl::Duration fresh_ = machine::kFreshProfile;
  strategy::Workload workload_;
  machine::DiskProfile disk_;
};

}  // namespace

absl::StatusOr<AutoChoice> ChooseStrategy(const JobEnvironment& environment,
                                          const AutoBasis& basis,
                                          Observer& observer,
                                          const std::stop_token& stop) {
  return Selection(environment, basis, observer, stop).Run();
}

bool PromisesMore(const AutoChoice& choice, double epoch_seconds,
                  int64_t epochs) {
  if (choice.is_final) return false;
  const auto left = static_cast<double>(epochs);
  return std::any_of(choice.candidates.begin(), choice.candidates.end(),
                     [&](const AutoCandidate& candidate) {
                       return candidate.refusal.empty() &&
                              candidate.strategy != choice.strategy &&
                              candidate.prepare_seconds +
                                      candidate.epoch_seconds * left <=
                                  kWorthChanging * epoch_seconds * left;
                     });
}

StrategyOptions StrategyOf(const AutoChoice& choice) {
  return strategy::WithCommonBudgets(KindNamed(choice.strategy).value_or(0),
                                     choice.budgets);
}

absl::Status WriteAutoChoice(io::FileSystem& files, const std::string& folder,
                             const AutoChoice& choice) {
  return io::WriteFileAtomically(
      files, io::JoinPath(folder, kFile),
      store::SealJson({{"format", kFormat}, {"choice", json(choice)}}));
}

absl::StatusOr<AutoChoice> ReadAutoChoice(io::FileSystem& files,
                                          const std::string& folder) {
  AutoChoice choice;
  HEARTH_RETURN_IF_ERROR(
      store::ReadSealedJson(files, io::JoinPath(folder, kFile), kMaxFileBytes,
                            kFormat, [&](const json& object) {
                              object.at("choice").get_to(choice);
                              return KindNamed(choice.strategy).has_value();
                            }));
  return choice;
}

std::string RankCandidates(std::vector<AutoCandidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const AutoCandidate& one, const AutoCandidate& other) {
                     return std::pair(!one.refusal.empty(), one.seconds) <
                            std::pair(!other.refusal.empty(), other.seconds);
                   });
  const AutoCandidate& best = candidates.front();
  std::string reason =
      absl::StrCat(best.strategy, ": ", SecondsText(best.seconds), " in all");
  if (best.prepare_seconds >= 0.05) {
    absl::StrAppend(&reason, ", of which ", SecondsText(best.prepare_seconds),
                    " preparing");
  }
  for (size_t i = 1; i < candidates.size() && i <= kMostNamed; ++i) {
    if (!candidates[i].refusal.empty()) break;
    absl::StrAppend(&reason, "; ", candidates[i].strategy, " ",
                    SecondsText(candidates[i].seconds));
  }
  for (const AutoCandidate& candidate : candidates) {
    if (candidate.strategy == "memory" && !candidate.refusal.empty()) {
      absl::StrAppend(&reason, "; memory does not fit");
    }
  }
  return reason;
}

}  // namespace hearth::job
