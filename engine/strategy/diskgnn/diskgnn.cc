#include "engine/strategy/diskgnn/diskgnn.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/cache/direct_cache.h"
#include "engine/cache/row_memory.h"
#include "engine/io/read_plan.h"
#include "engine/io/read_queue.h"
#include "engine/machine/machine_probe.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/feature_rows.h"
#include "engine/store/labels.h"
#include "engine/strategy/device_buffers.h"
#include "engine/strategy/diskgnn/diskgnn_pass.h"
#include "engine/strategy/diskgnn/diskgnn_plan.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/popularity_model.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/packing/pack_batches.h"
#include "engine/strategy/diskgnn/preparation.h"
#include "engine/strategy/diskgnn/row_assembler.h"
#include "engine/strategy/packing/file_range.h"
#include "engine/strategy/packing/offline_sampling.h"
#include "engine/strategy/packing/pass_digest.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/strategy_plans.h"

namespace hearth::strategy {

namespace {

class DiskgnnStrategy final : public Strategy {
 public:
  DiskgnnStrategy(const DiskgnnOptions& options,
                  const PipelineOptions& pipeline,
                  const store::Dataset& dataset,
                  const StrategyResources& resources, store::Labels labels,
                  store::StoredFeatures features)
      : options_(options),
        pipeline_(pipeline),
        dataset_(dataset),
        resources_(resources),
        labels_(std::move(labels)),
        features_(std::move(features)) {}

  absl::StatusOr<PreparationReport> Prepare(const PassSequence& sequence,
                                            const PreparationListener& listener,
                                            std::stop_token stop) override {
    inputs_.Clear();
    reads_.Clear();
    if (plan_ == nullptr) Wake();
    HEARTH_RETURN_IF_ERROR(dataset_.CheckUnchanged());
    const PreparationContext context = Context(listener, std::move(stop));
    Preparation preparation(context, sequence.passes);
    if (plan_ != nullptr && plan_->identity() == preparation.identity() &&
        !plan_->damaged()) {
      return Reused(listener);
    }
    // A plan of other passes would take memory while this one is prepared.
    Close();
    HEARTH_ASSIGN_OR_RETURN(Preparation::Opened opened, preparation.Open());
    // Pieces are to be made first.
    if (opened.plan == nullptr) return preparation.report();
    lease_.emplace(std::move(opened.lease));
    plan_ = std::move(opened.plan);
    ahead_.reset();
    return preparation.report();
  }

  absl::StatusOr<PreparationReport> PrepareAhead(
      const PassSequence& sequence, const PreparationListener& listener,
      std::stop_token stop) override {
    const PreparationContext context = Context(listener, std::move(stop));
    Preparation preparation(context, sequence.passes);
    HEARTH_ASSIGN_OR_RETURN(plan::PlanLease lease, preparation.MakeAhead());
    // The lease keeps the plan until it is opened.
    ahead_.emplace(std::move(lease));
    return preparation.report();
  }

  absl::Status Run(const Pass& pass, const Consumer& consumer,
                   std::stop_token stop, PassReport& report) override {
    report = {};
    if (plan_ == nullptr) Wake();
    const std::vector<store::NodeId> seeds = pass.order->Epoch(pass.epoch_key);
    const PlannedPass* planned =
        plan_ == nullptr ? nullptr : plan_->Find(DigestOfPass(pass, seeds));
    if (planned == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "strategy diskgnn was not prepared for this pass (epoch key ",
          pass.epoch_key, ", ", seeds.size(), " seeds)"));
    }
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<DiskgnnPass> run,
        DiskgnnPass::Make({.plan = *plan_,
                           .labels = labels_,
                           .format = format(),
                           .read_queues = resources_.read_queues,
                           .clock = resources_.clock,
                           .inputs = inputs_,
                           .reads = reads_,
                           .gpu_cache = options_.gpu_cache_bytes > 0,
                           .loaders = pipeline_.extractors,
                           .io_depth = options_.io_depth},
                          pass, seeds, *planned));
    return run->Run(consumer, std::move(stop), report);
  }

  void Rest() override {
    inputs_.Clear();
    reads_.Clear();
    ahead_.reset();
    if (plan_ == nullptr) return;
    plan_->assembler().Rest();
    lease_->Rest(std::move(plan_));
  }

 private:
  store::RowFormat format() const {
    return {.dim = features_.dim, .dtype = features_.dtype};
  }

  PreparationContext Context(const PreparationListener& listener,
                             std::stop_token stop) {
    return {.dataset = dataset_,
            .labels = labels_,
            .features = features_,
            .files = resources_.files,
            .clock = resources_.clock,
            .options = options_,
            .placement = {.format = format(), .gpu = resources_.gpu},
            .samplers = pipeline_.samplers,
            .topology = pipeline_.topology,
            .plans = plans_.store(),
            .on_scan = resources_.on_scan,
            .listener = listener,
            .stop = std::move(stop)};
  }

  // After Rest: takes the plan back, if the plan store still has it.
  void Wake() {
    if (!lease_.has_value()) return;
    plan_ = std::static_pointer_cast<OpenPlan>(lease_->Wake());
    if (plan_ == nullptr) Close();
  }

  void Close() {
    plan_.reset();
    lease_.reset();
  }

  absl::StatusOr<PreparationReport> Reused(
      const PreparationListener& listener) {
    if (listener.log) {
      listener.log(absl::StrCat("plan ", plan_->identity().name,
                                " reused, as it is open"));
    }
    HEARTH_RETURN_IF_ERROR(lease_->Share());
    return PreparationReport{.plan = plan_->identity().name,
                             .reused = true,
                             .phases = {},
                             .disk_bytes = DiskBytes(plan_->layout()),
                             .reason = ""};
  }

  const DiskgnnOptions options_;
  const PipelineOptions pipeline_;
  const store::Dataset& dataset_;
  const StrategyResources resources_;
  const store::Labels labels_;
  const store::StoredFeatures features_;
  StrategyPlans plans_{resources_};
  // The lease of the plan that is open or rests; the open plan, null until
  // prepared and while it rests.
  std::optional<plan::PlanLease> lease_;
  std::shared_ptr<OpenPlan> plan_;
  // The lease of the plan that PrepareAhead made.
  std::optional<plan::PlanLease> ahead_;
  BufferPool inputs_;
  BufferPool reads_;
};

absl::Status Validate(const DiskgnnOptions& options,
                      const PipelineOptions& pipeline, const Gpu& gpu) {
  HEARTH_RETURN_IF_ERROR(pipeline.Validate());
  if (options.prepare_memory_bytes == 0) {
    return absl::InvalidArgumentError(
        "prepare_memory_bytes: nothing can be prepared in 0 bytes");
  }
  const auto most = static_cast<int>(io::kMaxReadDepth);
  if (options.io_depth < 1 || options.io_depth > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "io_depth: ", options.io_depth, " is not within 1 .. ", most));
  }
  return CheckGpuCache(options.gpu_cache_bytes, gpu);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewDiskgnnStrategy(
    const DiskgnnOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  HEARTH_RETURN_IF_ERROR(Validate(options, pipeline, resources.gpu));
  HEARTH_ASSIGN_OR_RETURN(store::Labels labels, dataset.LoadLabels());
  HEARTH_ASSIGN_OR_RETURN(store::StoredFeatures features,
                          dataset.manifest().is_sharded()
                              ? dataset.LayOutFeatures()
                              : dataset.OpenFeatures({}));
  return std::make_unique<DiskgnnStrategy>(
      InBytes(options, features.layout.num_rows, features.layout.row_bytes),
      pipeline, dataset, resources, std::move(labels), std::move(features));
}

namespace {

// The most memory that kAutoBytes stands for, plus 4 bytes a node, without
// which a graph of 268 million nodes could not be packed.
constexpr uint64_t kMostAutoPacking = uint64_t{1} << 30;

uint64_t FeatureBytes(const MemoryBasis& basis) {
  return static_cast<uint64_t>(basis.num_nodes()) *
         static_cast<uint64_t>(basis.row_bytes());
}

// Bytes of the rows of all nodes, aligned to a page.
uint64_t AllRowBytes(const MemoryBasis& basis) {
  return FeatureBytes(basis) + kPageBytes;
}

PackBound PackBoundOf(const MemoryBasis& basis) {
  const sample::BatchShape largest = basis.batches.WithMargin();
  return {.num_nodes = basis.num_nodes(),
          .row_bytes = basis.row_bytes(),
          .num_batches = basis.total_batches * basis.shards,
          .batch_nodes = largest.num_inputs(),
          .sample_bytes = largest.MemoryBytes()};
}

// Memory of packing without its partitions of the features: buffers, and a page
// for each batch and each segment (PlanPackMemory).
uint64_t PackingBytes(const MemoryBasis& basis) {
  constexpr uint64_t kBuffers = uint64_t{64} << 20;
  return kBuffers + 2 * kPageBytes *
                        static_cast<uint64_t>(basis.total_batches) *
                        static_cast<uint64_t>(basis.shards);
}

// The most memory that packing uses: its partitions take at most twice the
// features.
uint64_t MostPackingBytes(const MemoryBasis& basis) {
  return 2 * FeatureBytes(basis) + PackingBytes(basis);
}

// Rows in the memory levels; bytes of the list of their nodes and of the table
// of all nodes.
struct LevelBytes {
  uint64_t held_rows = 0;
  uint64_t bytes = 0;
};

LevelBytes LevelsOf(const DiskgnnOptions& options, const MemoryBasis& basis) {
  const auto nodes = static_cast<uint64_t>(basis.num_nodes());
  const uint64_t row_bytes =
      std::max<uint64_t>(1, static_cast<uint64_t>(basis.row_bytes()));
  const uint64_t held =
      std::min(nodes, options.gpu_cache_bytes / row_bytes +
                          options.cpu_cache_bytes / row_bytes);
  return {.held_rows = held, .bytes = 4 * nodes + 8 * held};
}

// Rows of a batch that are read, at most: rows in the memory levels are not.
uint64_t RowsRead(const DiskgnnOptions& options, const MemoryBasis& basis) {
  const uint64_t held = LevelsOf(options, basis).held_rows;
  return std::min(
      static_cast<uint64_t>(basis.batches.WithMargin().num_inputs()),
      static_cast<uint64_t>(basis.num_nodes()) - held);
}

// Memory of the largest of the steps up to the choice of the layout: sampling
// (the topology); ranking (counts and the most popular nodes); search (levels,
// and the tables of a planner, of no more nodes than all batches have).
uint64_t SearchBytes(const DiskgnnOptions& options, const MemoryBasis& basis) {
  const auto nodes = static_cast<uint64_t>(basis.num_nodes());
  const auto [held, levels] = LevelsOf(options, basis);
  const uint64_t accesses =
      static_cast<uint64_t>(basis.total_batches * basis.shards) *
      static_cast<uint64_t>(basis.batches.WithMargin().num_inputs());
  const uint64_t searching =
      4 * nodes + static_cast<uint64_t>(SegmentPlanner::kBytesPerRow) *
                      std::min(nodes - held, accesses);
  return std::max({OfflineTopologyBytes(basis, basis.total_batches),
                   levels + 4 * nodes + 8 * held, levels + searching});
}

// Memory of the largest of all steps before training: SearchBytes, or levels
// and the packing limit, or loading the GPU cache.
uint64_t PlanningBytes(const DiskgnnOptions& options,
                       const MemoryBasis& basis) {
  return std::max(
      {SearchBytes(options, basis),
       LevelsOf(options, basis).bytes +
           std::min(options.prepare_memory_bytes, MostPackingBytes(basis)),
       // On the way to the GPU.
       options.gpu_cache_bytes > 0 ? kGpuLoadBytes : 0});
}

// Bytes of the disk cache, as far as options tell; without size and limit, half
// of the rows of the longest pass.
uint64_t DiskCacheBytes(const DiskgnnOptions& options,
                        const MemoryBasis& basis) {
  uint64_t bytes = UINT64_MAX;
  if (options.disk_cache_bytes.has_value()) bytes = *options.disk_cache_bytes;
  if (options.disk_limit_bytes > 0) {
    bytes = std::min(bytes, options.disk_limit_bytes);
  }
  if (bytes < UINT64_MAX) return bytes;
  return static_cast<uint64_t>(basis.batches.WithMargin().num_inputs() *
                               basis.row_bytes() * basis.num_batches *
                               basis.shards / 2);
}

// Memory of all reading threads: requests in flight, and lists of pages.
uint64_t ReadBytes(const DiskgnnOptions& options, const MemoryBasis& basis) {
  constexpr uint64_t kBytesPerPage =
      2 * 16 + sizeof(int64_t) + io::kPlanBytesPerRow;
  const auto row_bytes = static_cast<uint64_t>(basis.row_bytes());
  const uint64_t pages_of_row = row_bytes / kPageBytes + 2;
  return static_cast<uint64_t>(basis.pipeline.extractors) *
         (DiskgnnPass::StagingBytes(options.io_depth) +
          RowsRead(options, basis) * pages_of_row * kBytesPerPage);
}

// Bytes of planning in addition to a running job: those beyond `later`, the
// bytes held only once the plan is open; all bytes if the next plan is made
// while passes run.
uint64_t BesideRunning(const DiskgnnOptions& options, const MemoryBasis& basis,
                       uint64_t later) {
  const uint64_t planning = PlanningBytes(options, basis);
  if (basis.prepares_ahead) return planning;
  // On the way to the GPU.
  const uint64_t loading = options.gpu_cache_bytes > 0 ? kGpuLoadBytes : 0;
  return std::max(planning > later ? planning - later : 0, loading);
}

}  // namespace

absl::StatusOr<MemoryEstimate> EstimateDiskgnnMemory(
    const DiskgnnOptions& options, const MemoryBasis& basis) {
  const sample::BatchShape largest = basis.batches.WithMargin();
  const auto rows = static_cast<uint64_t>(largest.num_inputs());
  const auto row_bytes = static_cast<uint64_t>(basis.row_bytes());
  const int loaders = basis.pipeline.extractors;
  const bool has_gpu = options.gpu_cache_bytes > 0;
  const int read = DiskgnnPass::ReadAtOnce(loaders, basis.shards, has_gpu);
  const int assembled = DiskgnnPass::AssembledAtOnce(basis.shards);
  // Positions and rows, with the capacity that lists have grown to, and the
  // encoded table, each range aligned to a page.
  constexpr uint64_t kTableBytesPerRow =
      3 * (sizeof(int32_t) + sizeof(int64_t));
  const uint64_t read_bytes =
      RowsRead(options, basis) * row_bytes + 2 * kPageBytes;
  // Rows and reads come first: planning holds neither.
  MemoryEstimate estimate;
  estimate.Add("cache", std::min(options.cpu_cache_bytes, AllRowBytes(basis)),
               /*kept=*/true);
  const DiskgnnOptions limited =
      InBytes(options, basis.num_nodes(), basis.row_bytes());
  estimate.Add("checksums",
               DiskCacheBytes(limited, basis) / kPageBytes * sizeof(uint32_t),
               /*kept=*/true);
  estimate.Add("reads", ReadBytes(options, basis));
  estimate.Add("buffers", static_cast<uint64_t>(read) *
                              (cache::AlignedBuffer::MemoryBytes(read_bytes) +
                               rows * kTableBytesPerRow));
  estimate.Add("planning",
               BesideRunning(options, basis, estimate.TotalBytes()));
  if (has_gpu) {
    estimate.Add("gpu cache",
                 std::min(options.gpu_cache_bytes, AllRowBytes(basis)),
                 /*kept=*/true, kRowsOnGpu);
    // CudaRowAssembler's buffers: widened rows of all batches that may stay
    // there (counted in host memory, too, since it depends on the pass where
    // they are); rows of one batch as they were read, and where they go, each
    // part aligned.
    const uint64_t widened =
        rows * static_cast<uint64_t>(basis.row_format().dim) * sizeof(float);
    estimate.Add("gpu batch",
                 static_cast<uint64_t>(assembled) * widened +
                     rows * kTableBytesPerRow + read_bytes + kPageBytes,
                 /*kept=*/true, kRowsOnGpu);
  }
  // While sampling offline: the samplers' batches, and those that wait to be
  // written. Graph loaders hold the bytes of their chunks, too.
  const int offline = OfflineSamples(basis);
  const int online =
      2 * loaders + DiskgnnPass::kLoadedWaiting * basis.shards +
      DiskgnnPass::ReadAtOnce(loaders, basis.shards, /*rows_on_gpu=*/false) +
      assembled;
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = basis.prepares_ahead ? offline + online
                                              : std::max(offline, online),
              .assembled = assembled},
             estimate);
  return estimate;
}

DiskgnnOptions WithMeasuredDiskgnnBudgets(DiskgnnOptions options,
                                          const MemoryBasis& basis) {
  if (options.prepare_memory_bytes == kAutoBytes) {
    options.prepare_memory_bytes = std::min(
        UsefulPackMemory(PackBoundOf(basis), basis.pipeline.samplers),
        kMostAutoPacking +
            sizeof(uint32_t) * static_cast<uint64_t>(basis.num_nodes()));
  }
  return options;
}

std::vector<BudgetOf<DiskgnnOptions>> DiskgnnBudgets(
    const DiskgnnOptions& options, const MemoryBasis& basis) {
  using Chosen = Configuration<DiskgnnOptions>;
  std::vector<BudgetOf<DiskgnnOptions>> budgets =
      ThreadBudgets<DiskgnnOptions>(basis.pipeline);
  const uint64_t packing = EnoughPackMemory(PackBoundOf(basis));
  budgets.push_back(
      {.budget = {.option = "prepare-memory",
                  .asked = options.prepare_memory_bytes,
                  .least = std::min(options.prepare_memory_bytes, packing),
                  .useful = MostPackingBytes(basis),
                  .step = uint64_t{1} << 20},
       .set = [](uint64_t bytes, Chosen& chosen) {
         chosen.strategy.prepare_memory_bytes = bytes;
       }});
  budgets.push_back({.budget = CacheBudget("cpu-cache", options.cpu_cache_bytes,
                                           AllRowBytes(basis)),
                     .set = [](uint64_t bytes, Chosen& chosen) {
                       chosen.strategy.cpu_cache_bytes = bytes;
                     }});
  return budgets;
}

MemoryEstimate EstimateDiskgnnForecastMemory(const DiskgnnOptions& options,
                                             const MemoryBasis& basis) {
  MemoryEstimate estimate;
  // The steps follow each other; the counts of a sample are held during all of
  // them.
  estimate.Add("planning", std::max(SearchBytes(options, basis) +
                                        PopularityModel::MemoryBytes(
                                            basis.total_batches * basis.shards),
                                    machine::kProbeBytes));
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = OfflineSamples(basis),
              .assembled = basis.shards},
             estimate);
  return estimate;
}

}  // namespace hearth::strategy
