#include "engine/strategy/foresight/foresight.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/status.h"
#include "engine/cuda/device.h"
#include "engine/io/read_plan.h"
#include "engine/io/read_queue.h"
#include "engine/machine/disk_profile.h"
#include "engine/plan/plan_store.h"
#include "engine/store/feature_rows.h"
#include "engine/store/labels.h"
#include "engine/strategy/device_buffers.h"
#include "engine/strategy/foresight/fetch_prices.h"
#include "engine/strategy/foresight/foresight_pass.h"
#include "engine/strategy/foresight/generation.h"
#include "engine/strategy/foresight/generation_files.h"
#include "engine/strategy/foresight/generations.h"
#include "engine/strategy/foresight/gpu_slots.h"
#include "engine/strategy/foresight/kept_source.h"
#include "engine/strategy/foresight/row_loader.h"
#include "engine/strategy/foresight/row_slots.h"
#include "engine/strategy/foresight/timeline.h"
#include "engine/strategy/packing/disk_limit.h"
#include "engine/strategy/packing/offline_sampling.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy_plans.h"

namespace hearth::strategy {

namespace {

// Reading features of fewer bytes does not repay measuring the disk.
bool RepaysMeasuring(int64_t num_rows, int64_t row_bytes) {
  constexpr int64_t kLeastBytes = int64_t{256} << 20;
  return num_rows * row_bytes >= kLeastBytes;
}

class ForesightStrategy final : public Strategy {
 public:
  ForesightStrategy(const ForesightOptions& options,
                    const PipelineOptions& pipeline,
                    const store::Dataset& dataset,
                    const StrategyResources& resources, store::Labels labels,
                    store::StoredFeatures features, RowSlots slots)
      : options_(options),
        pipeline_(pipeline),
        dataset_(dataset),
        resources_(resources),
        labels_(std::move(labels)),
        features_(std::move(features)),
        cache_{.slots = std::move(slots)} {}

  absl::StatusOr<PreparationReport> Prepare(const PassSequence& sequence,
                                            const PreparationListener& listener,
                                            std::stop_token stop) override {
    FreeShards();
    HEARTH_RETURN_IF_ERROR(dataset_.CheckUnchanged());
    HEARTH_RETURN_IF_ERROR(TakeRates(stop));
    HEARTH_ASSIGN_OR_RETURN(std::shared_ptr<Generations> generations,
                            GenerationsFor(sequence, stop));
    Replace(std::move(generations));
    const auto& nodes = cache_.slots.nodes();
    const bool is_empty =
        std::all_of(nodes.begin(), nodes.end(),
                    [](uint32_t node) { return node == RowSlots::kFree; });
    return Current()->MakeFirst(is_empty ? &cache_.slots : nullptr, listener,
                                stop);
  }

  absl::StatusOr<PreparationReport> PrepareAhead(
      const PassSequence& /*sequence*/, const PreparationListener& listener,
      std::stop_token stop) override {
    for (;;) {
      const std::shared_ptr<Generations> generations = Current();
      if (generations == nullptr) return PreparationReport();
      auto report = generations->MakeAhead(listener, stop);
      // The job has left its sequence.
      if (!absl::IsAborted(report.status())) return report;
    }
  }

  absl::Status Run(const Pass& pass, const Consumer& consumer,
                   std::stop_token stop, PassReport& report) override {
    report = {};
    HEARTH_ASSIGN_OR_RETURN(const std::optional<int64_t> position,
                            PositionOf(pass, stop));
    if (!position.has_value()) return absl::OkStatus();
    // Other buffers than those of the pass before: both would be too many.
    if (std::exchange(in_place_, pass.rows_in_place) != pass.rows_in_place) {
      FreeShards();
    }
    const RowSource source = {.dataset = dataset_,
                              .features = features_,
                              .read_queues = resources_.read_queues,
                              .clock = resources_.clock,
                              .check = resources_.row_check.get(),
                              .io_depth = options_.io_depth};
    const std::shared_ptr<Generations> generations = Current();
    ForesightPass run({.generations = *generations,
                       .cache = cache_,
                       .labels = labels_,
                       .source = source,
                       .prices = prices_,
                       .clock = resources_.clock,
                       .gpu_slots = GpuSlotsOfCache(),
                       .inputs = inputs_,
                       .reads = reads_,
                       .loaders = pipeline_.extractors},
                      pass, *position);
    return run.Run(consumer, std::move(stop), report);
  }

  void Rest() override {
    FreeShards();
    if (cache_.slots.gpu() != nullptr) cache_.slots.gpu()->Rest();
    Replace(nullptr);
  }

 private:
  void FreeShards() {
    inputs_.Clear();
    reads_.Clear();
  }

  std::optional<uint32_t> GpuSlotsOfCache() const {
    if (options_.gpu_cache_bytes == 0) return std::nullopt;
    return static_cast<uint32_t>(
        SlotsOf(options_, features_.layout.num_rows,
                static_cast<int64_t>(features_.layout.row_bytes))
            .gpu);
  }

  // The generations of an earlier run of the sequence, if the passes that are
  // left can go on with them; else those of what is left.
  absl::StatusOr<std::shared_ptr<Generations>> GenerationsFor(
      const PassSequence& sequence, const std::stop_token& stop) {
    if (sequence.next > 0 && sequence.next < sequence.order.size()) {
      auto earlier =
          std::make_shared<Generations>(context_, TimelineOf(sequence));
      HEARTH_ASSIGN_OR_RETURN(const bool goes_on, earlier->Continue(stop));
      if (goes_on) return earlier;
    }
    return std::make_shared<Generations>(context_, TimelineOf(sequence.Rest()));
  }

  Timeline TimelineOf(PassSequence sequence, int64_t first_shard = 0) const {
    return Timeline(std::move(sequence), options_.first_epochs, first_shard);
  }

  std::shared_ptr<Generations> Current() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    return generations_;
  }

  void Replace(std::shared_ptr<Generations> next) ABSL_LOCKS_EXCLUDED(mutex_) {
    cache_.generations = nullptr;
    cache_.refills = nullptr;
    std::shared_ptr<Generations> before;
    {
      absl::MutexLock lock(&mutex_);
      before = std::exchange(generations_, std::move(next));
    }
    // Two at a time would take twice the memory.
    if (before != nullptr) before->Abandon();
  }

  // The position at which a pass is to be delivered: the next one that is
  // prepared, or will be next; otherwise the job has left its sequence, and
  // another one begins here. Absent if the pass has no shards.
  absl::StatusOr<std::optional<int64_t>> PositionOf(
      const Pass& pass, const std::stop_token& stop) {
    const std::shared_ptr<Generations> generations = Current();
    if (generations == nullptr || !generations->timeline().Knows(pass)) {
      return absl::FailedPreconditionError(
          absl::StrCat("strategy foresight was not prepared for this pass "
                       "(epoch key ",
                       pass.epoch_key, ", ", pass.order->size(), " seeds)"));
    }
    if (ShardsOf(pass, pass.order->size()).count == 0) return std::nullopt;
    const Timeline& timeline = generations->timeline();
    const int64_t shard = pass.first_batch * pass.shards;
    const int64_t expected = cache_.generations == generations.get()
                                 ? cache_.position
                                 : generations->position();
    for (const int64_t from : {expected, int64_t{0}}) {
      const auto position = timeline.Find(pass, shard, from);
      if (position.has_value() && generations->IsNear(*position)) {
        generations->GoOnAt(*position);
        return position;
      }
    }
    FreeShards();
    Replace(std::make_shared<Generations>(
        context_, TimelineOf(timeline.SequenceFrom(pass, expected), shard)));
    HEARTH_RETURN_IF_ERROR(Current()->MakeFirst(nullptr, {}, stop).status());
    return 0;
  }

  // Once, for the prices.
  absl::Status TakeRates(const std::stop_token& stop) {
    if (has_rates_ || !resources_.disk_profile ||
        !RepaysMeasuring(features_.layout.num_rows,
                         features_.layout.row_bytes)) {
      return absl::OkStatus();
    }
    HEARTH_ASSIGN_OR_RETURN(const machine::DiskProfile disk,
                            resources_.disk_profile(stop));
    prices_.SetRates(RatesOf(disk, static_cast<int>(pipeline_.extractors),
                             options_.io_depth, features_.layout.row_bytes));
    has_rates_ = true;
    return absl::OkStatus();
  }

  const ForesightOptions options_;
  const PipelineOptions pipeline_;
  const store::Dataset& dataset_;
  const StrategyResources resources_;
  const store::Labels labels_;
  const store::StoredFeatures features_;
  StrategyPlans plans_{resources_};
  FetchPrices prices_;
  bool has_rates_ = false;
  PlannedCache cache_;
  BufferPool inputs_;
  BufferPool reads_;
  // Whether the last pass left rows in place.
  bool in_place_ = false;
  KeptSource source_{dataset_, labels_, pipeline_.topology, resources_.files};
  const ForesightContext context_ = {
      .dataset = dataset_,
      .labels = labels_,
      .rows = features_.layout,
      .files = resources_.files,
      .clock = resources_.clock,
      .plans = plans_.store(),
      .samplers = pipeline_.samplers,
      .num_slots = cache_.slots.num_slots(),
      .disk_limit_bytes =
          DiskLimitBytes(options_.disk_limit_bytes, options_.disk_limit_ratio,
                         features_.layout.num_rows, features_.layout.row_bytes),
      .source = source_,
      .prices = prices_,
      .on_scan = resources_.on_scan,
      .free_shards = options_.makes_apart
                         ? std::function<void()>([this] { FreeShards(); })
                         : nullptr};
  absl::Mutex mutex_;
  // Of the last Prepare, or since the job left its sequence.
  std::shared_ptr<Generations> generations_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Validate(const ForesightOptions& options,
                      const PipelineOptions& pipeline,
                      const store::StoredFeatures& features, const Gpu& gpu) {
  HEARTH_RETURN_IF_ERROR(pipeline.Validate());
  const auto most = static_cast<int>(io::kMaxReadDepth);
  if (options.io_depth < 1 || options.io_depth > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "io_depth: ", options.io_depth, " is not within 1 .. ", most));
  }
  if (!(options.first_epochs > 0 &&
        options.first_epochs <= Timeline::kMostPasses)) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_epochs: ", options.first_epochs,
                     " is not above 0 and up to ", Timeline::kMostPasses));
  }
  if (features.layout.num_rows >= int64_t{UINT32_MAX}) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy foresight: a graph of ", features.layout.num_rows,
        " nodes; the limit is ", UINT32_MAX - 1));
  }
  return CheckGpuCache(options.gpu_cache_bytes, gpu);
}

// The slots of an EmulatedGpu are in host memory.
absl::StatusOr<RowSlots> MakeSlots(const ForesightOptions& options,
                                   const store::StoredFeatures& features,
                                   const Gpu& gpu) {
  const store::RowFormat format = {.dim = features.dim,
                                   .dtype = features.dtype};
  const SlotCounts counts =
      SlotsOf(options, features.layout.num_rows, format.row_bytes());
  const auto* device = std::get_if<cuda::Device>(&gpu);
  std::unique_ptr<GpuSlots> on_gpu;
  if (counts.gpu > 0 && device != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(on_gpu,
                            GpuSlots::Make(*device, counts.gpu, format));
  }
  return RowSlots::Make(counts.total(), format, std::move(on_gpu));
}

}  // namespace

SlotCounts SlotsOf(const ForesightOptions& options, int64_t num_rows,
                   int64_t row_bytes) {
  // Slots on a GPU have 32-bit numbers with a sign there (GpuSlots).
  const auto rows = static_cast<uint64_t>(num_rows);
  const uint64_t gpu =
      std::min({rows, uint64_t{INT32_MAX},
                options.gpu_cache_bytes / static_cast<uint64_t>(row_bytes)});
  const uint64_t host =
      std::min(rows - gpu,
               options.cpu_cache_bytes / RowSlots::MemoryBytes(1, row_bytes));
  return {.gpu = static_cast<int64_t>(gpu), .host = static_cast<int64_t>(host)};
}

absl::StatusOr<std::unique_ptr<Strategy>> NewForesightStrategy(
    const ForesightOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  HEARTH_ASSIGN_OR_RETURN(store::StoredFeatures features,
                          dataset.manifest().is_sharded()
                              ? dataset.LayOutFeatures()
                              : dataset.OpenFeatures({}));
  HEARTH_RETURN_IF_ERROR(Validate(options, pipeline, features, resources.gpu));
  HEARTH_ASSIGN_OR_RETURN(store::Labels labels, dataset.LoadLabels());
  HEARTH_ASSIGN_OR_RETURN(RowSlots slots,
                          MakeSlots(options, features, resources.gpu));
  return std::make_unique<ForesightStrategy>(
      options, pipeline, dataset, resources, std::move(labels),
      std::move(features), std::move(slots));
}

absl::StatusOr<MemoryEstimate> EstimateForesightMemory(
    const ForesightOptions& options, const MemoryBasis& basis) {
  const int64_t row_bytes = basis.row_bytes();
  const int64_t nodes = basis.num_nodes();
  const SlotCounts counts = SlotsOf(options, nodes, row_bytes);
  const int64_t slots = counts.total();
  const int64_t rows = basis.batches.WithMargin().num_inputs();
  const int64_t loaders = basis.pipeline.extractors;
  const bool has_gpu = options.gpu_cache_bytes > 0;
  MemoryEstimate estimate;
  estimate.Add("cache",
               RowSlots::MemoryBytes(counts.host, row_bytes) +
                   static_cast<uint64_t>(counts.gpu) * sizeof(uint32_t),
               /*kept=*/true);
  // The slots before a shard and how long they have been idle, twice while a
  // plan is made, and their arrangement; the slots at the beginning of passes
  // that come again, twice.
  estimate.Add("slots", static_cast<uint64_t>(slots) *
                                (3 * (sizeof(uint32_t) + sizeof(uint16_t)) +
                                 2 * sizeof(uint32_t)) +
                            RowSlots::ArrangingBytes(slots));
  const int64_t of_passes =
      (options.makes_apart ? basis.total_batches
                           : (Timeline::kMostPasses + 2) * basis.num_batches) *
          basis.shards +
      slots / MostRefillRows(row_bytes) + 1;
  estimate.Add("topology", OfflineTopologyBytes(basis, basis.num_batches),
               /*kept=*/true);
  estimate.Add(
      "reads",
      static_cast<uint64_t>(loaders + 1) *
              RowLoader::MemoryBytes(options.io_depth, row_bytes, rows) +
          cache::AlignedBuffer::MemoryBytes(
              static_cast<uint64_t>(MostRefillRows(row_bytes)) *
                  (static_cast<uint64_t>(row_bytes) + sizeof(uint32_t)) +
              2 * 4096));
  // A plan of a shard has an address for each row, and for each row read its
  // node, its slot and the slot of a row that leaves.
  const int assembled = ForesightPass::AssembledAtOnce(basis.shards);
  const uint64_t read_bytes =
      static_cast<uint64_t>(rows) *
          (static_cast<uint64_t>(row_bytes) + 5 * sizeof(uint32_t)) +
      2 * 4096;
  const uint64_t buffer_bytes = cache::AlignedBuffer::MemoryBytes(read_bytes);
  const uint64_t widened_bytes =
      static_cast<uint64_t>(rows * basis.row_format().dim) * sizeof(float);
  const uint64_t list_bytes =
      static_cast<uint64_t>(rows) * BatchPlaces::kBytesPerRow;
  const int read = ForesightPass::ReadAtOnce(static_cast<int>(loaders),
                                             basis.shards, has_gpu);
  uint64_t buffers = static_cast<uint64_t>(read) * buffer_bytes;
  if (has_gpu) {
    buffers += static_cast<uint64_t>(assembled) * list_bytes + kGpuLoadBytes;
    estimate.Add("gpu cache", static_cast<uint64_t>(counts.gpu * row_bytes),
                 /*kept=*/true, kRowsOnGpu);
    // GpuSlots' buffers: input rows of all batches that may stay there (counted
    // in host memory, too, since it depends on the pass where they are); rows
    // of one batch as they were read, and the lists; rows that move.
    estimate.Add("gpu batch",
                 static_cast<uint64_t>(assembled) * widened_bytes + list_bytes +
                     read_bytes + GpuSlots::MovingBytes(row_bytes),
                 /*kept=*/true, kRowsOnGpu);
  } else {
    // In place shards keep what was read instead of input rows.
    const uint64_t input_bytes =
        cache::AlignedBuffer::MemoryBytes(widened_bytes);
    buffers +=
        list_bytes + static_cast<uint64_t>(assembled) *
                         (buffer_bytes - std::min(buffer_bytes, input_bytes));
  }
  estimate.Add("buffers", buffers);
  uint64_t making = MakingBytes(nodes, slots, row_bytes, rows, of_passes,
                                basis.pipeline.samplers, options.makes_apart);
  const int offline = OfflineSamples(basis);
  const int online = static_cast<int>(2 * loaders) +
                     2 * ForesightPass::kLoadedWaiting * basis.shards +
                     assembled;
  int sampled = offline + online;
  if (options.makes_apart) {
    // Assembled shards are with the trainer; others hold no buffers then.
    const int idle = has_gpu ? read - assembled : read;
    making -= std::min(making, static_cast<uint64_t>(idle) * buffer_bytes);
    sampled = std::max(offline + assembled, online);
  }
  estimate.Add("planning", making);
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = sampled,
              .assembled = assembled},
             estimate);
  return estimate;
}

ForesightOptions WithMeasuredForesightBudgets(ForesightOptions options,
                                              const MemoryBasis& basis) {
  options.makes_apart =
      options.first_epochs * static_cast<double>(basis.num_batches) >=
      static_cast<double>(basis.total_batches);
  return options;
}

std::vector<BudgetOf<ForesightOptions>> ForesightBudgets(
    const ForesightOptions& options, const MemoryBasis& basis) {
  std::vector<BudgetOf<ForesightOptions>> budgets =
      ThreadBudgets<ForesightOptions>(basis.pipeline);
  budgets.push_back(
      {.budget = CacheBudget(
           "cpu-cache", options.cpu_cache_bytes,
           RowSlots::MemoryBytes(
               basis.num_nodes() -
                   SlotsOf(options, basis.num_nodes(), basis.row_bytes()).gpu,
               basis.row_bytes())),
       .set = [](uint64_t bytes, Configuration<ForesightOptions>& chosen) {
         chosen.strategy.cpu_cache_bytes = bytes;
       }});
  return budgets;
}

}  // namespace hearth::strategy
