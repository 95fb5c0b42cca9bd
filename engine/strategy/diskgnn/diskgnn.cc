#include "engine/strategy/diskgnn/diskgnn.h"

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
#include "engine/io/read_queues.h"
#include "engine/plan/plan_lease.h"
#include "engine/plan/plan_store.h"
#include "engine/store/labels.h"
#include "engine/store/row_format.h"
#include "engine/strategy/buffer_pool.h"
#include "engine/strategy/diskgnn/cuda_row_assembler.h"
#include "engine/strategy/diskgnn/diskgnn_pass.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout_choice.h"
#include "engine/strategy/diskgnn/plan_identity.h"
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
    // The plan of other passes would take memory beside what preparing takes.
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
                             .disk_bytes = DiskBytes(plan_->layout()),
                             .reason = ""};
  }

  const DiskgnnOptions options_;
  const PipelineOptions pipeline_;
  const store::Dataset& dataset_;
  const StrategyResources resources_;
  const store::Labels labels_;
  const store::StoredFeatures features_;
  // The plans of this strategy alone, where the daemon has no store.
  std::optional<plan::PlanStore> own_plans_;
  // The lease of the plan that is open or rests, and the plan: null until
  // prepared, and while it rests.
  std::optional<plan::PlanLease> lease_;
  std::shared_ptr<PreparedPlan> plan_;
  // The lease of the plan that was made ahead.
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
  if (options.gpu_cache_bytes > 0 &&
      std::holds_alternative<std::monostate>(gpu)) {
    return absl::FailedPreconditionError(
        absl::StrCat("gpu_cache_bytes: ", options.gpu_cache_bytes,
                     ", but there is no GPU to keep rows on"));
  }
  return absl::OkStatus();
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

}  // namespace hearth::strategy
