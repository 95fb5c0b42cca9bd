#include "engine/strategy/addressable/addressable.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/cache/assemble.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/io/row_reader.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/device_buffers.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"
#include "engine/train/train_step.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::strategy {

namespace {

// Features in pinned host memory, from which a GPU gathers the rows of batches
// over its bus into buffers of its own memory. Used by one thread at a time.
class PinnedFeatures {
 public:
  // Pins `features`, one table in memory, which outlive the result. Errors of
  // cuda::Registration.
  static absl::StatusOr<std::unique_ptr<PinnedFeatures>> Register(
      const cuda::Device& device, const store::LoadedFeatures& features);

  PinnedFeatures(const PinnedFeatures&) = delete;
  PinnedFeatures& operator=(const PinnedFeatures&) = delete;

  // Queues a gather of the rows of `nodes`. `nodes` outlive the returned rows,
  // whose end waits for the gather. RESOURCE_EXHAUSTED if the device has no
  // memory; INTERNAL if it fails.
  absl::StatusOr<std::unique_ptr<const train::DeviceRows>> Gather(
      absl::Span<const store::NodeId> nodes);

  // Frees its device memory. REQUIRES: no rows are left.
  void Rest();

  // Device memory at most, with `batches` batches at a time of up to `rows`
  // rows of `dim` float32 columns: the rows, and one list of nodes.
  static uint64_t DeviceBytes(int64_t rows, int64_t dim, int batches);

 private:
  PinnedFeatures(const cuda::Device& device,
                 const store::LoadedFeatures& features)
      : device_(device), features_(features), buffers_(device) {}

  absl::Status Queue(absl::Span<const store::NodeId> nodes, std::byte* out);

  const cuda::Device device_;
  const store::LoadedFeatures& features_;
  cuda::Registration pinned_;
  // The nodes of the batch that was queued last, in device memory.
  cuda::Memory nodes_;
  // Destroyed (which waits for its work) before the memory that the work uses,
  // and after the buffers, whose readers wait for the work.
  std::unique_ptr<cuda::Stream> stream_;
  DeviceBufferPool buffers_;
};

absl::StatusOr<std::unique_ptr<PinnedFeatures>> PinnedFeatures::Register(
    const cuda::Device& device, const store::LoadedFeatures& features) {
  std::unique_ptr<PinnedFeatures> made(new PinnedFeatures(device, features));
  const auto bytes =
      static_cast<size_t>(features.num_rows() * features.row_bytes());
  HEARTH_ASSIGN_OR_RETURN(made->pinned_, cuda::Registration::Register(
                                             device, {features.rows(), bytes}));
  HEARTH_ASSIGN_OR_RETURN(made->stream_, cuda::Stream::Create(device));
  return made;
}

absl::StatusOr<std::unique_ptr<const train::DeviceRows>> PinnedFeatures::Gather(
    absl::Span<const store::NodeId> nodes) {
  const uint64_t bytes =
      nodes.size() * sizeof(float) * static_cast<uint64_t>(features_.dim());
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<DeviceBufferPool::Lease> buffer,
                          buffers_.Take(bytes, *stream_));
  absl::Status status = Queue(nodes, buffer->data());
  if (status.ok()) status = buffer->Fill(*stream_);
  if (!status.ok()) {
    stream_->Wait().IgnoreError();
    return status;
  }
  return buffer;
}

absl::Status PinnedFeatures::Queue(absl::Span<const store::NodeId> nodes,
                                   std::byte* out) {
  const uint64_t bytes = nodes.size() * sizeof(store::NodeId);
  if (bytes == 0) return absl::OkStatus();
  if (nodes_.size() < bytes) {
    HEARTH_RETURN_IF_ERROR(stream_->Wait());
    // Given back first, so that there is place for the larger one.
    nodes_ = {};
    HEARTH_ASSIGN_OR_RETURN(
        nodes_,
        cuda::Memory::Allocate(device_, cuda::Memory::Kind::kDevice, bytes));
  }
  HEARTH_RETURN_IF_ERROR(stream_->Copy(nodes_.data(), nodes.data(), bytes));
  HearthCudaGather gather = {};
  gather.source = features_.rows();
  gather.element = CudaElement(features_.dtype());
  gather.dim = features_.dim();
  gather.indices = reinterpret_cast<const int64_t*>(nodes_.data());
  gather.count = std::ssize(nodes);
  gather.out = reinterpret_cast<float*>(out);
  return stream_->Gather(gather);
}

// No work is queued: the end of all rows has waited for it.
void PinnedFeatures::Rest() {
  buffers_.Clear();
  nodes_ = {};
}

uint64_t PinnedFeatures::DeviceBytes(int64_t rows, int64_t dim, int batches) {
  const auto widened = dim * static_cast<int64_t>(sizeof(float));
  return static_cast<uint64_t>(
      rows * (batches * widened + static_cast<int64_t>(sizeof(store::NodeId))));
}

// Batches that may wait between the stages. Assembled ones are big: one waits
// while one is trained.
constexpr int kSampledWaiting = 2;
constexpr int kAssembledWaiting = 1;

// Shards with input rows at a time: one is assembled, the shards of one batch
// wait, those of another are with the trainer.
int AssembledAtOnce(int shards) { return 1 + (kAssembledWaiting + 1) * shards; }

// Whether the GPU that samples gathers rows, too: if it is the one that keeps
// rows, and there is one node type.
bool GathersOnGpu(store::Residency residency, const PipelineOptions& pipeline,
                  const store::Manifest& manifest) {
  return residency == store::Residency::kMemory &&
         pipeline.sampling_gpu == kRowsOnGpu.gpu &&
         manifest.node_types.size() == 1;
}

class AddressableBatch final : public SampledBatch {
 public:
  using SampledBatch::SampledBatch;

  // The input rows, if they stay on a GPU.
  std::unique_ptr<const train::DeviceRows> device_rows;
};

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
    const auto* const gpu = std::get_if<cuda::Device>(&resources.gpu);
    if (gpu != nullptr &&
        GathersOnGpu(residency_, options_, dataset.manifest())) {
      HEARTH_ASSIGN_OR_RETURN(pinned_,
                              PinnedFeatures::Register(*gpu, *features_));
    }
    return absl::OkStatus();
  }

  absl::Status Run(const Pass& pass, const Consumer& consumer,
                   std::stop_token stop, PassReport& report) override {
    const std::vector<store::NodeId> seeds = SeedsOf(pass);
    report = {};
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadTeam> assemblers,
                            ThreadTeam::Create(options_.extractors));
    if (residency_ == store::Residency::kMemory) {
      report.bytes_read = 0;
      report.read_ops = 0;
      report.io_wait_seconds = 0;
    }
    std::vector<pipeline::Stage> stages = SampleStages(
        pass, seeds, topology_.With(labels_),
        {.threads = options_.samplers, .queue_capacity = kSampledWaiting});
    stages.push_back(AssembleStage(pass, *assemblers));
    const std::unique_ptr<pipeline::Pipeline> pipeline =
        pipeline::NewPipeline(std::move(stages), "train", clock_);
    const Delivery delivery = {
        .clock = clock_,
        .range = ShardsOf(pass, static_cast<int64_t>(seeds.size())),
        .shards = pass.shards,
        .requests = pass.requests,
        .input_pools = pass.input_pools,
        .row_bytes = features_->row_bytes(),
        .make = [](int64_t number) {
          return std::make_unique<AddressableBatch>(number);
        }};
    return Deliver(*pipeline, delivery, consumer, std::move(stop), report);
  }

  void Rest() override {
    buffers_.Clear();
    if (pinned_ != nullptr) pinned_->Rest();
    topology_.Rest();
  }

 private:
  pipeline::Stage AssembleStage(const Pass& pass, ThreadTeam& assemblers) {
    return {.name = "assemble",
            .queue_capacity = QueueCapacity(pass, kAssembledWaiting),
            .work = [this, on_gpu = pass.rows_on_gpu && pinned_ != nullptr,
                     &assemblers](int /*thread*/, pipeline::Item& item) {
              auto& batch = static_cast<AddressableBatch&>(item);
              return on_gpu ? Gather(batch)
                            : AssembleAddressable(*features_, row_check_.get(),
                                                  assemblers, buffers_, batch);
            }};
  }

  absl::Status Gather(AddressableBatch& batch) {
    HEARTH_ASSIGN_OR_RETURN(batch.device_rows,
                            pinned_->Gather(batch.sample().input_nodes));
    batch.LeaveInputs(features_->dim(), *batch.device_rows);
    return absl::OkStatus();
  }

  const store::Residency residency_;
  const PipelineOptions options_;
  const Clock& clock_;
  const std::shared_ptr<const io::RowCheck> row_check_;
  store::Labels labels_;
  SampledTopology topology_;
  std::unique_ptr<store::LoadedFeatures> features_;
  // Null where the CPU assembles rows.
  std::unique_ptr<PinnedFeatures> pinned_;
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
    if (basis.pipeline.topology != TopologyPlace::kMapped) {
      topology = basis.indptr_bytes() + basis.indices_bytes();
    }
  }
  estimate.Add("topology", topology, /*kept=*/true);
  const int assembled = AssembledAtOnce(basis.shards);
  AddBatches(basis,
             {.samplers = basis.pipeline.samplers,
              .sampled = basis.pipeline.samplers +
                         kSampledWaiting * basis.shards + assembled,
              .assembled = assembled},
             estimate);
  if (GathersOnGpu(residency, basis.pipeline, basis.manifest)) {
    estimate.Add(
        "gpu batch",
        PinnedFeatures::DeviceBytes(basis.batches.WithMargin().num_inputs(),
                                    basis.row_format().dim, assembled),
        /*kept=*/false, kRowsOnGpu);
  }
  return estimate;
}

// DATA_LOSS naming the file and the first row that is damaged.
absl::Status CheckRows(const store::LoadedFeatures& features,
                       const io::RowCheck* check,
                       absl::Span<const store::NodeId> nodes) {
  if (check == nullptr) return absl::OkStatus();
  for (const store::NodeId node : nodes) {
    if (check->Matches(node, features.row(node))) continue;
    return absl::DataLossError(absl::StrCat(
        features.PlaceOf(node), " is damaged (its checksum does not match)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AssembleAddressable(const store::LoadedFeatures& features,
                                 const io::RowCheck* check,
                                 ThreadTeam& assemblers, BufferPool& buffers,
                                 SampledBatch& batch) {
  const int64_t dim = features.dim();
  HEARTH_ASSIGN_OR_RETURN(float* const inputs, batch.TakeInputs(dim, buffers));
  const absl::Span<const store::NodeId> nodes = batch.sample().input_nodes;
  constexpr int64_t kRows = cache::kRowsPerPart;
  return assemblers.TryRun(
      (std::ssize(nodes) + kRows - 1) / kRows, [&](int64_t part) {
        const int64_t first = part * kRows;
        const absl::Span<const store::NodeId> some =
            nodes.subspan(first, kRows);
        cache::AssembleRows(features, some, inputs + first * dim);
        HEARTH_RETURN_IF_ERROR(features.status());
        return CheckRows(features, check, some);
      });
}

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

// Samplers alone: extractors share one batch and hold no memory of their own.
std::vector<BudgetOf<MemoryOptions>> AddressableBudgets(
    const MemoryOptions& /*options*/, const MemoryBasis& basis) {
  return {ThreadBudgets<MemoryOptions>(basis.pipeline).back()};
}

std::vector<BudgetOf<MmapOptions>> AddressableBudgets(
    const MmapOptions& /*options*/, const MemoryBasis& basis) {
  return {ThreadBudgets<MmapOptions>(basis.pipeline).back()};
}

}  // namespace hearth::strategy
