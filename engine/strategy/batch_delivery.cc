#include "engine/strategy/batch_delivery.h"

#include <utility>

#include "engine/base/status_macros.h"

namespace hearth::strategy {
namespace {

absl::Status DeliverBatch(const SampledBatch& batch, const Delivery& delivery,
                          const Strategy::Consumer& consumer,
                          PassReport& report) {
  HEARTH_RETURN_IF_ERROR(consumer(batch.view()));
  ++report.batches;
  report.rows_needed += batch.num_rows();
  report.bytes_needed += batch.num_rows() * delivery.row_bytes;
  if (delivery.count) delivery.count(batch, report);
  return absl::OkStatus();
}

}  // namespace

absl::Status Deliver(pipeline::Pipeline& pipeline, const Delivery& delivery,
                     const Strategy::Consumer& consumer, std::stop_token stop,
                     PassReport& report) {
  const double start = delivery.clock.SteadySeconds();
  const auto measure = [&] {
    report.seconds = delivery.clock.SteadySeconds() - start;
    report.stages = pipeline.Stats();
  };
  const absl::Status status = pipeline.Run(
      delivery.num_batches,
      [&](int64_t number) -> std::unique_ptr<pipeline::Item> {
        const int64_t batch = delivery.first_batch + number;
        if (delivery.make) return delivery.make(batch);
        return std::make_unique<SampledBatch>(batch);
      },
      [&](pipeline::Item& item) {
        measure();
        return DeliverBatch(static_cast<const SampledBatch&>(item), delivery,
                            consumer, report);
      },
      std::move(stop));
  measure();
  return status;
}

}  // namespace hearth::strategy
