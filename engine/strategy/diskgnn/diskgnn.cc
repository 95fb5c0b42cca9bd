#include "engine/strategy/diskgnn/diskgnn.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/cache/direct_cache.h"
#include "engine/io/coalesce.h"
#include "engine/io/read_queues.h"
#include "engine/plan/layout/packed_layout.h"
#include "engine/plan/layout/segment_planner.h"
#include "engine/plan/plan_lease.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/labels.h"
#include "engine/strategy/buffer_pool.h"
#include "engine/strategy/diskgnn/cuda_row_assembler.h"
#include "engine/strategy/diskgnn/diskgnn_pass.h"
#include "engine/strategy/diskgnn/plan_key.h"
#include "engine/strategy/diskgnn/preparation.h"
#include "engine/strategy/diskgnn/prepared_plan.h"
#include "engine/strategy/diskgnn/row_assembler.h"

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
        features_(std::move(features)) {
    if (resources_.plans != nullptr) return;
    own_plans_.emplace(
        resources_.files, resources_.clock,
        plan::PlanStore::Options{.folder = resources_.scratch_folder});
  }

  absl::StatusOr<PreparationReport> Prepare(absl::Span<const Pass> passes,
                                            const PreparationListener& listener,
                                            std::stop_token stop) override {
    inputs_.Clear();
    reads_.Clear();
    if (plan_ == nullptr) Wake();
    HEARTH_RETURN_IF_ERROR(dataset_.CheckUnchanged());
    const PreparationContext context = Context(listener, std::move(stop));
    Preparation preparation(context, passes);
    if (plan_ != nullptr && plan_->identity() == preparation.identity() &&
        !plan_->damaged()) {
      return Reused(listener);
    }
    // What was kept for other passes would be beside what preparing takes.
    Close();
    HEARTH_ASSIGN_OR_RETURN(Preparation::Opened opened, preparation.Open());
    lease_.emplace(std::move(opened.lease));
    plan_ = std::move(opened.plan);
    ahead_.reset();
    return preparation.report();
  }

  absl::StatusOr<PreparationReport> PrepareAhead(
      absl::Span<const Pass> passes, const PreparationListener& listener,
      std::stop_token stop) override {
    const PreparationContext context = Context(listener, std::move(stop));
    Preparation preparation(context, passes);
    HEARTH_ASSIGN_OR_RETURN(plan::PlanLease lease, preparation.MakeAhead());
    // So that it stays until it is opened.
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
  cache::RowFormat format() const {
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
            .plans = own_plans_.has_value() ? *own_plans_ : *resources_.plans,
            .listener = listener,
            .stop = std::move(stop)};
  }

  // After Rest: the plan, if it is still there.
  void Wake() {
    if (!lease_.has_value()) return;
    plan_ = std::static_pointer_cast<PreparedPlan>(lease_->Wake());
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
                             .disk_bytes = plan_->layout().total_bytes() +
                                           plan::PlanStore::kRecordBytes,
                             .reason = ""};
  }

  const DiskgnnOptions options_;
  const PipelineOptions pipeline_;
  const store::Dataset& dataset_;
  const StrategyResources resources_;
  const store::Labels labels_;
  const store::StoredFeatures features_;
  // Where the daemon has none.
  std::optional<plan::PlanStore> own_plans_;
  // Of the plan that is open or rests, and the plan: null until prepared, and
  // while it rests.
  std::optional<plan::PlanLease> lease_;
  std::shared_ptr<PreparedPlan> plan_;
  // Of the plan that was made ahead.
  std::optional<plan::PlanLease> ahead_;
  BufferPool inputs_;
  BufferPool reads_;
};

// `options` with a limit in bytes alone.
DiskgnnOptions InBytes(DiskgnnOptions options, int64_t num_rows,
                       int64_t row_bytes) {
  if (options.disk_limit_ratio > 0) {
    options.disk_limit_bytes = static_cast<uint64_t>(
        std::max(1.0, options.disk_limit_ratio * static_cast<double>(num_rows) *
                          static_cast<double>(row_bytes)));
    options.disk_limit_ratio = 0;
  }
  return options;
}

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
  if (options.gpu_cache_bytes > 0 &&
      std::holds_alternative<std::monostate>(gpu)) {
    return absl::FailedPreconditionError(
        absl::StrCat("gpu_cache_bytes: ", options.gpu_cache_bytes,
                     ", but there is no GPU to keep rows on"));
  }
  return absl::OkStatus();
}

// What packing holds at most beside partitions of the features, which are at
// most twice as large as all of them: buffers, and a page for each batch and
// each segment (plan::PlanPackMemory).
uint64_t PackingBytes(const MemoryBasis& basis) {
  constexpr uint64_t kBuffers = uint64_t{64} << 20;
  return kBuffers + 2 * plan::kPageBytes *
                        static_cast<uint64_t>(basis.total_batches) *
                        static_cast<uint64_t>(basis.shards);
}

// The most that one of the steps before training takes: the indptr while
// batches are sampled; counts, levels and a planner's tables while the layout
// is searched; levels beside the limit while it is packed.
uint64_t PlanningBytes(const DiskgnnOptions& options,
                       const MemoryBasis& basis) {
  const auto nodes = static_cast<uint64_t>(basis.nodes().num_nodes);
  const uint64_t row_bytes =
      std::max<uint64_t>(1, static_cast<uint64_t>(basis.row_bytes()));
  const uint64_t held =
      std::min(nodes, options.gpu_cache_bytes / row_bytes +
                          options.cpu_cache_bytes / row_bytes);
  const uint64_t levels = 4 * nodes + 8 * held;
  const uint64_t searching =
      4 * nodes + static_cast<uint64_t>(plan::SegmentPlanner::kBytesPerRow) *
                      (nodes - held);
  return std::max(
      {basis.edges().indptr.file_size_bytes,
       // Counts, and the most popular nodes in their order.
       levels + 4 * nodes + 8 * held, levels + searching,
       levels + std::min(options.prepare_memory_bytes,
                         2 * nodes * row_bytes + PackingBytes(basis)),
       // On the way to the GPU.
       options.gpu_cache_bytes > 0 ? kGpuLoadBytes : 0});
}

// Bytes of the disk cache, as far as the options tell: with neither a size nor
// a limit, half of the rows of the longest pass.
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

// Of each reading thread: requests in flight, and which pages are wanted.
uint64_t ReadBytes(const DiskgnnOptions& options, const MemoryBasis& basis) {
  constexpr uint64_t kBytesPerPage =
      2 * 16 + sizeof(int64_t) + io::kPlanBytesPerRow;
  const auto row_bytes = static_cast<uint64_t>(basis.row_bytes());
  const uint64_t pages_of_row = row_bytes / plan::kPageBytes + 2;
  const auto rows =
      static_cast<uint64_t>(basis.batches.WithMargin().num_inputs());
  return static_cast<uint64_t>(basis.pipeline.extractors) *
         (DiskgnnPass::StagingBytes(options.io_depth) +
          rows * pages_of_row * kBytesPerPage);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewDiskgnnStrategy(
    const DiskgnnOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  HEARTH_RETURN_IF_ERROR(Validate(options, pipeline, resources.gpu));
  HEARTH_ASSIGN_OR_RETURN(store::Labels labels, dataset.LoadLabels());
  HEARTH_ASSIGN_OR_RETURN(store::StoredFeatures features,
                          dataset.OpenFeatures({}));
  return std::make_unique<DiskgnnStrategy>(
      InBytes(options, features.layout.num_rows, features.layout.row_bytes),
      pipeline, dataset, resources, std::move(labels), std::move(features));
}

MemoryEstimate EstimateDiskgnnMemory(const DiskgnnOptions& options,
                                     const MemoryBasis& basis) {
  const sample::BatchShape largest = basis.batches.WithMargin();
  const auto rows = static_cast<uint64_t>(largest.num_inputs());
  const auto row_bytes = static_cast<uint64_t>(basis.row_bytes());
  const int loaders = basis.pipeline.extractors;
  const int read = DiskgnnPass::ReadAtOnce(loaders, basis.shards);
  const int assembled = DiskgnnPass::AssembledAtOnce(basis.shards);
  // Positions and rows, with the room that lists have grown to, and the table's
  // own bytes, each range from a page on.
  constexpr uint64_t kTableBytesPerRow =
      3 * (sizeof(int32_t) + sizeof(int64_t));
  const uint64_t read_bytes = rows * row_bytes + 2 * plan::kPageBytes;
  MemoryEstimate estimate;
  estimate.Add("cache", options.cpu_cache_bytes, /*kept=*/true);
  const DiskgnnOptions limited =
      InBytes(options, basis.nodes().num_nodes, basis.row_bytes());
  estimate.Add(
      "checksums",
      DiskCacheBytes(limited, basis) / plan::kPageBytes * sizeof(uint32_t),
      /*kept=*/true);
  estimate.Add("planning", PlanningBytes(options, basis));
  estimate.Add("reads", ReadBytes(options, basis));
  // Offline: a sampler's batches, and those that wait to be written. Graph
  // loaders have their chunks' bytes besides.
  const int offline = basis.pipeline.samplers + 3 * basis.shards;
  const int online = 2 * loaders + DiskgnnPass::kLoadedWaiting * basis.shards +
                     read + assembled;
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = basis.prepares_ahead ? offline + online
                                              : std::max(offline, online),
              .assembled = assembled},
             estimate);
  estimate.shares.back().bytes +=
      static_cast<uint64_t>(read) *
      (read_bytes + read_bytes / 8 + rows * kTableBytesPerRow);
  return estimate;
}

}  // namespace hearth::strategy
