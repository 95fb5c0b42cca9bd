#include "engine/strategy/addressable/addressable.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/process.h"
#include "engine/base/status_macros.h"
#include "engine/cache/aligned_buffer.h"
#include "engine/cache/assemble.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/labels.h"

namespace hearth::strategy {
namespace {

// Buffers that batches have left behind. A batch's input rows are hundreds of
// megabytes: fresh pages for each would cost more than the copy.
class BufferPool {
 public:
  cache::AlignedBuffer Take() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    if (free_.empty()) return {};
    cache::AlignedBuffer buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }

  void Return(cache::AlignedBuffer buffer) ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    free_.push_back(std::move(buffer));
  }

 private:
  absl::Mutex mutex_;
  std::vector<cache::AlignedBuffer> free_ ABSL_GUARDED_BY(mutex_);
};

// A batch on its way through the stages.
class BatchItem final : public pipeline::Item {
 public:
  BatchItem(int64_t batch, BufferPool& buffers)
      : batch_(batch), buffers_(buffers), inputs_(buffers.Take()) {}
  ~BatchItem() override { buffers_.Return(std::move(inputs_)); }

  int64_t batch() const { return batch_; }
  sample::MiniBatch& sample() { return sample_; }
  cache::AlignedBuffer& inputs() { return inputs_; }
  store::Labels& labels() { return labels_; }

 private:
  const int64_t batch_;
  BufferPool& buffers_;
  sample::MiniBatch sample_;
  cache::AlignedBuffer inputs_;
  store::Labels labels_;
};

class AddressableStrategy final : public Strategy {
 public:
  AddressableStrategy(store::Residency residency,
                      const PipelineOptions& pipeline, const Clock& clock)
      : residency_(residency), options_(pipeline), clock_(clock) {}

  absl::Status Open(const store::Dataset& dataset) {
    HEARTH_ASSIGN_OR_RETURN(labels_, dataset.LoadLabels());
    HEARTH_ASSIGN_OR_RETURN(topology_, dataset.LoadTopology(residency_));
    HEARTH_ASSIGN_OR_RETURN(features_, dataset.LoadFeatures(residency_));
    return absl::OkStatus();
  }

  absl::Status Run(const Pass& pass, const Consumer& consumer,
                   std::stop_token stop, PassReport& report) override {
    const std::vector<store::NodeId> seeds = pass.order->Epoch(pass.epoch_key);
    const int64_t num_batches =
        NumBatches(static_cast<int64_t>(seeds.size()), pass.batch_size) -
        pass.first_batch;
    report = {};
    const std::unique_ptr<pipeline::Pipeline> pipeline =
        MakePipeline(pass, seeds);
    const double start = clock_.SteadySeconds();
    const auto measure = [&] {
      report.seconds = clock_.SteadySeconds() - start;
      report.stages = pipeline->Stats();
      if (residency_ == store::Residency::kMemory) {
        report.bytes_read = 0;
        report.read_ops = 0;
        report.io_wait_seconds = 0;
      }
    };
    const absl::Status status = pipeline->Run(
        num_batches,
        [&](int64_t number) {
          return std::make_unique<BatchItem>(pass.first_batch + number,
                                             buffers_);
        },
        [&](pipeline::Item& item) {
          measure();
          return Deliver(static_cast<BatchItem&>(item), consumer, report);
        },
        std::move(stop));
    measure();
    return status;
  }

 private:
  std::unique_ptr<pipeline::Pipeline> MakePipeline(
      const Pass& pass, const std::vector<store::NodeId>& seeds) {
    std::vector<std::unique_ptr<sample::NeighborSampler>> samplers;
    for (int i = 0; i < options_.samplers; ++i) {
      samplers.push_back(
          sample::NewNeighborSampler(topology_->view(), pass.sampler));
    }
    pipeline::Stage sample_stage = {
        .name = "sample",
        .width = options_.samplers,
        .queue_capacity = 2,
        .work = [this, &pass, &seeds,
                 samplers = std::make_shared<decltype(samplers)>(
                     std::move(samplers))](int thread, pipeline::Item& item) {
          Sample(pass, seeds, *(*samplers)[thread],
                 static_cast<BatchItem&>(item));
          return absl::OkStatus();
        }};
    pipeline::Stage assemble_stage = {
        .name = "assemble",
        .width = options_.extractors,
        // Assembled batches are big: one waits while one is trained.
        .queue_capacity = 1,
        .work = [this](int thread, pipeline::Item& item) {
          return Assemble(static_cast<BatchItem&>(item));
        }};
    return pipeline::NewPipeline(
        {std::move(sample_stage), std::move(assemble_stage)}, "train", clock_);
  }

  void Sample(const Pass& pass, const std::vector<store::NodeId>& seeds,
              sample::NeighborSampler& sampler, BatchItem& item) const {
    const auto begin = static_cast<size_t>(item.batch() * pass.batch_size);
    const absl::Span<const store::NodeId> batch_seeds =
        absl::MakeConstSpan(seeds).subspan(
            begin, static_cast<size_t>(pass.batch_size));
    item.sample() =
        sampler.Sample({.epoch_key = pass.epoch_key,
                        .batch = static_cast<uint64_t>(item.batch())},
                       batch_seeds);
    item.labels() = labels_.Gather(batch_seeds);
  }

  absl::Status Assemble(BatchItem& item) const {
    const auto bytes = item.sample().input_nodes.size() *
                       static_cast<size_t>(features_->dim()) * sizeof(float);
    HEARTH_RETURN_IF_ERROR(item.inputs().Resize(bytes));
    cache::AssembleRows(*features_, item.sample().input_nodes,
                        reinterpret_cast<float*>(item.inputs().data()));
    return absl::OkStatus();
  }

  absl::Status Deliver(BatchItem& item, const Consumer& consumer,
                       PassReport& report) const {
    const auto rows = static_cast<int64_t>(item.sample().input_nodes.size());
    HEARTH_RETURN_IF_ERROR(consumer(
        {.sample = item.sample(),
         .inputs = reinterpret_cast<const float*>(item.inputs().data()),
         .feature_dim = features_->dim(),
         .labels = item.labels().view()}));
    ++report.batches;
    report.rows_needed += rows;
    report.bytes_needed += rows * features_->row_bytes();
    return absl::OkStatus();
  }

  const store::Residency residency_;
  const PipelineOptions options_;
  const Clock& clock_;
  store::Labels labels_;
  std::unique_ptr<store::LoadedTopology> topology_;
  std::unique_ptr<store::LoadedFeatures> features_;
  BufferPool buffers_;
};

// Refuses to load what this machine has no memory for.
absl::Status CheckMemory(const store::Manifest& manifest) {
  uint64_t needed = 0;
  for (const store::NodeTypeEntry& type : manifest.node_types) {
    needed += type.features.file_size_bytes;
  }
  for (const store::EdgeTypeEntry& type : manifest.edge_types) {
    needed += type.indptr.file_size_bytes + type.indices.file_size_bytes;
  }
  const uint64_t available = AvailableMemoryBytes();
  if (available == 0 || needed <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "strategy memory needs ", FormatByteSize(needed), " for dataset ",
      manifest.name, ", but ", FormatByteSize(available),
      " are available; --strategy mmap needs no memory for features"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewAddressableStrategy(
    store::Residency residency, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const Clock& clock) {
  if (residency == store::Residency::kMemory) {
    HEARTH_RETURN_IF_ERROR(CheckMemory(dataset.manifest()));
  }
  auto strategy =
      std::make_unique<AddressableStrategy>(residency, pipeline, clock);
  HEARTH_RETURN_IF_ERROR(strategy->Open(dataset));
  return strategy;
}

}  // namespace hearth::strategy
