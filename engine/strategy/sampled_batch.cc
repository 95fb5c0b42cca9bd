#include "engine/strategy/sampled_batch.h"

#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/sample/mini_batch.h"
#include "engine/train/train_step.h"

namespace hearth::strategy {

absl::StatusOr<float*> SampledBatch::TakeInputs(int64_t feature_dim,
                                                BufferPool& pool) {
  feature_dim_ = feature_dim;
  const uint64_t bytes = static_cast<uint64_t>(num_rows()) *
                         static_cast<uint64_t>(feature_dim) * sizeof(float);
  if (input_pool_ != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(input_memory_, input_pool_->Take(bytes));
  } else {
    inputs_ = pool.Take();
    HEARTH_RETURN_IF_ERROR(inputs_.buffer().Resize(bytes));
  }
  return const_cast<float*>(InputData());
}

const float* SampledBatch::InputData() const {
  return reinterpret_cast<const float*>(input_memory_ != nullptr
                                            ? input_memory_->data()
                                            : inputs_.buffer().data());
}

train::BatchView SampledBatch::view() const {
  return {.sample = sample_,
          .inputs = InputData(),
          .feature_dim = feature_dim_,
          .input_memory = input_memory_,
          .labels = labels_.view(),
          .batch_labels = batch_labels_.view(),
          .all_labels = all_labels_,
          .top_rows = {},
          .device_rows = device_rows_,
          .rows = rows_};
}

namespace {

using Shards = std::vector<std::unique_ptr<SampledBatch>>;

absl::Status DeliverBatch(const Shards& shards, const Delivery& delivery,
                          const Strategy::Consumer& consumer,
                          PassReport& report) {
  std::vector<train::BatchView> views;
  ++report.batches;
  for (const std::unique_ptr<SampledBatch>& shard : shards) {
    const sample::MiniBatch& sample = shard->sample();
    report.seeds += sample.num_seeds;
    if (sample.top.has_value()) {
      report.pulled += std::ssize(sample.top->pulled);
      report.pushed += std::ssize(sample.top->pushed);
      report.sum_of_ages += sample.top->sum_of_ages;
    }
    report.rows_needed += shard->num_rows();
    report.bytes_needed += shard->num_rows() * delivery.row_bytes;
    if (delivery.count) delivery.count(*shard, report);
    views.push_back(shard->view());
  }
  return consumer(views);
}

}  // namespace

void AddReads(const io::ReadTally& tally, PassReport& report) {
  report.bytes_read = report.bytes_read.value_or(0) + tally.bytes_read;
  report.read_ops = report.read_ops.value_or(0) + tally.requests;
  report.io_wait_seconds =
      report.io_wait_seconds.value_or(0) + tally.wait_seconds;
}

absl::Status Deliver(pipeline::Pipeline& pipeline, const Delivery& delivery,
                     const Strategy::Consumer& consumer, std::stop_token stop,
                     PassReport& report) {
  const double start = delivery.clock.SteadySeconds();
  const auto measure = [&] {
    report.seconds = delivery.clock.SteadySeconds() - start;
    report.stages = pipeline.Stats();
  };
  // Shards of the next batch that have arrived.
  Shards shards;
  const absl::Status status = pipeline.Run(
      delivery.range.count,
      [&](int64_t index) -> std::unique_ptr<pipeline::Item> {
        const int64_t number = delivery.range.first + index;
        std::optional<std::vector<store::NodeId>> seeds;
        if (delivery.requests != nullptr) {
          seeds = delivery.requests->Await(number);
          if (!seeds.has_value()) return nullptr;
        }
        std::unique_ptr<SampledBatch> batch =
            delivery.make ? delivery.make(number)
                          : std::make_unique<SampledBatch>(number);
        if (seeds.has_value()) batch->set_seeds(*std::move(seeds));
        if (!delivery.input_pools.empty()) {
          batch->UseInputPool(
              *delivery
                   .input_pools[static_cast<size_t>(number % delivery.shards)]);
        }
        return batch;
      },
      [&](std::unique_ptr<pipeline::Item> item) {
        shards.emplace_back(static_cast<SampledBatch*>(item.release()));
        if (static_cast<int64_t>(shards.size()) < delivery.shards) {
          return absl::OkStatus();
        }
        measure();
        const absl::Status consumed =
            DeliverBatch(shards, delivery, consumer, report);
        shards.clear();
        return consumed;
      },
      std::move(stop));
  measure();
  return status;
}

}  // namespace hearth::strategy
