#include "engine/strategy/addressable/addressable.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/base/status_macros.h"
#include "engine/cache/assemble.h"
#include "engine/io/row_reader.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/labels.h"
#include "engine/store/residency.h"
#include "engine/strategy/batch_delivery.h"
#include "engine/strategy/buffer_pool.h"
#include "engine/strategy/sample_stage.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampled_topology.h"

namespace hearth::strategy {
namespace {

// Batches between the stages. Assembled ones are big: one waits while one is
// trained.
constexpr int kSampledWaiting = 2;
constexpr int kAssembledWaiting = 1;

class AddressableStrategy final : public Strategy {
 public:
  AddressableStrategy(store::Residency residency,
                      const PipelineOptions& pipeline,
                      const StrategyResources& resources)
      : residency_(residency),
        options_(pipeline),
        clock_(resources.clock),
        row_check_(residency == store::Residency::kMemory
                       ? nullptr
                       : resources.row_check) {}

  absl::Status Open(const store::Dataset& dataset,
                    const StrategyResources& resources) {
    HEARTH_ASSIGN_OR_RETURN(labels_, dataset.LoadLabels());
    HEARTH_ASSIGN_OR_RETURN(
        topology_,
        LoadSampledTopology(dataset, residency_, options_, resources));
    HEARTH_ASSIGN_OR_RETURN(features_,
                            dataset.LoadFeatures(residency_, resources.stop));
    return absl::OkStatus();
  }

  absl::Status Run(const Pass& pass, const Consumer& consumer,
                   std::stop_token stop, PassReport& report) override {
    const std::vector<store::NodeId> seeds = pass.order->Epoch(pass.epoch_key);
    report = {};
    if (residency_ == store::Residency::kMemory) {
      report.bytes_read = 0;
      report.read_ops = 0;
      report.io_wait_seconds = 0;
    }
    std::vector<pipeline::Stage> stages = SampleStages(
        pass, seeds, topology_.With(labels_),
        {.threads = options_.samplers, .queue_capacity = kSampledWaiting});
    stages.push_back(AssembleStage(pass));
    const std::unique_ptr<pipeline::Pipeline> pipeline =
        pipeline::NewPipeline(std::move(stages), "train", clock_);
    const Delivery delivery = {
        .clock = clock_,
        .range = ShardsOf(pass, static_cast<int64_t>(seeds.size())),
        .shards = pass.shards,
        .row_bytes = features_->row_bytes()};
    return Deliver(*pipeline, delivery, consumer, std::move(stop), report);
  }

  void Rest() override {
    buffers_.Clear();
    topology_.Rest();
  }

 private:
  pipeline::Stage AssembleStage(const Pass& pass) {
    return {.name = "assemble",
            .width = options_.extractors,
            .queue_capacity = QueueCapacity(pass, kAssembledWaiting),
            .work = [this](int thread, pipeline::Item& item) {
              return Assemble(static_cast<SampledBatch&>(item));
            }};
  }

  absl::Status Assemble(SampledBatch& batch) {
    HEARTH_ASSIGN_OR_RETURN(float* const inputs,
                            batch.TakeInputs(features_->dim(), buffers_));
    cache::AssembleRows(*features_, batch.sample().input_nodes, inputs);
    HEARTH_RETURN_IF_ERROR(features_->status());
    return CheckRows(batch.sample().input_nodes);
  }

  // DATA_LOSS naming the file and the first row that is damaged.
  absl::Status CheckRows(absl::Span<const store::NodeId> nodes) const {
    if (row_check_ == nullptr) return absl::OkStatus();
    for (const store::NodeId node : nodes) {
      if (row_check_->Matches(node, features_->row(node))) continue;
      return absl::DataLossError(
          absl::StrCat(features_->PlaceOf(node),
                       " is damaged (its checksum does not match)"));
    }
    return absl::OkStatus();
  }

  const store::Residency residency_;
  const PipelineOptions options_;
  const Clock& clock_;
  const std::shared_ptr<const io::RowCheck> row_check_;
  store::Labels labels_;
  SampledTopology topology_;
  std::unique_ptr<store::LoadedFeatures> features_;
  BufferPool buffers_;
};

store::Residency ResidencyOf(const MemoryOptions& /*options*/) {
  return store::Residency::kMemory;
}

store::Residency ResidencyOf(const MmapOptions& options) {
  return options.read_ahead ? store::Residency::kMappedWithReadAhead
                            : store::Residency::kMapped;
}

absl::StatusOr<std::unique_ptr<Strategy>> New(
    store::Residency residency, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  auto strategy =
      std::make_unique<AddressableStrategy>(residency, pipeline, resources);
  HEARTH_RETURN_IF_ERROR(strategy->Open(dataset, resources));
  return strategy;
}

MemoryEstimate Estimate(store::Residency residency, const MemoryBasis& basis) {
  MemoryEstimate estimate;
  uint64_t topology = basis.sampled_topology_bytes();
  if (residency == store::Residency::kMemory) {
    estimate.Add("features", basis.feature_bytes(),
                 /*kept=*/true);
    topology = basis.indptr_bytes() + basis.indices_bytes();
  }
  estimate.Add("topology", topology, /*kept=*/true);
  // One batch is with the trainer.
  const int assembled =
      basis.pipeline.extractors + (kAssembledWaiting + 1) * basis.shards;
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = basis.pipeline.samplers +
                         kSampledWaiting * basis.shards + assembled,
              .assembled = assembled},
             estimate);
  return estimate;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewAddressableStrategy(
    const MemoryOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  return New(ResidencyOf(options), pipeline, dataset, resources);
}

absl::StatusOr<std::unique_ptr<Strategy>> NewAddressableStrategy(
    const MmapOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  return New(ResidencyOf(options), pipeline, dataset, resources);
}

absl::StatusOr<MemoryEstimate> EstimateAddressableMemory(
    const MemoryOptions& options, const MemoryBasis& basis) {
  return Estimate(ResidencyOf(options), basis);
}

absl::StatusOr<MemoryEstimate> EstimateAddressableMemory(
    const MmapOptions& options, const MemoryBasis& basis) {
  return Estimate(ResidencyOf(options), basis);
}

std::vector<BudgetOf<MemoryOptions>> AddressableBudgets(
    const MemoryOptions& /*options*/, const MemoryBasis& basis) {
  return ThreadBudgets<MemoryOptions>(basis.pipeline);
}

std::vector<BudgetOf<MmapOptions>> AddressableBudgets(
    const MmapOptions& /*options*/, const MemoryBasis& basis) {
  return ThreadBudgets<MmapOptions>(basis.pipeline);
}

}  // namespace hearth::strategy
