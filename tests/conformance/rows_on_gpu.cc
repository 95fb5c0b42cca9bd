#include "tests/conformance/rows_on_gpu.h"

#include <cstdint>
#include <optional>

#include "engine/base/status_macros.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/labels.h"
#include "gtest/gtest.h"
#include "tests/conformance/batch_fingerprint.h"

namespace hearth::testing {
namespace {

// A batch whose rows the models have not taken yet.
struct Waiting {
  sample::MiniBatch sample;
  store::Labels labels;
  int64_t feature_dim = 0;
};

}  // namespace

ModelOnFake::ModelOnFake(const cuda::FakeCuda& fake) : device_(fake.device()) {
  EXPECT_EQ(cuda::FakeCuda::table().stream_create(0, &native_), 0);
  stream_ = *cuda::Stream::Wrap(device_, native_);
}

ModelOnFake::~ModelOnFake() {
  stream_.reset();
  (void)cuda::FakeCuda::table().stream_destroy(native_);
}

absl::Status ModelOnFake::Begin(const train::BatchView& batch) {
  elements_ =
      batch.sample.input_nodes.size() * static_cast<size_t>(batch.feature_dim);
  HEARTH_ASSIGN_OR_RETURN(
      inputs_, cuda::Memory::Allocate(device_, cuda::Memory::Kind::kDevice,
                                      elements_ * sizeof(float)));
  return batch.device_rows->QueueCopy(native_,
                                      reinterpret_cast<float*>(inputs_.data()));
}

absl::StatusOr<std::vector<float>> ModelOnFake::Take() {
  std::vector<float> rows(elements_);
  absl::Status status =
      stream_->Copy(rows.data(), inputs_.data(), rows.size() * sizeof(float));
  status.Update(stream_->Wait());
  inputs_ = {};
  if (!status.ok()) return status;
  return rows;
}

absl::Status RunOnGpu(strategy::Strategy& strategy, strategy::Pass pass,
                      absl::Span<ModelOnFake> models,
                      std::vector<std::string>& batches,
                      strategy::PassReport& report) {
  pass.rows_on_gpu = true;
  std::optional<Waiting> waiting;
  const auto take = [&]() -> absl::Status {
    if (!waiting.has_value()) return absl::OkStatus();
    std::vector<std::string> fingerprints;
    for (ModelOnFake& model : models) {
      HEARTH_ASSIGN_OR_RETURN(const std::vector<float> rows, model.Take());
      fingerprints.push_back(Fingerprint({.sample = waiting->sample,
                                          .inputs = rows.data(),
                                          .feature_dim = waiting->feature_dim,
                                          .labels = waiting->labels.view()}));
    }
    EXPECT_EQ(fingerprints.front(), fingerprints.back());
    batches.push_back(fingerprints.front());
    return absl::OkStatus();
  };
  HEARTH_RETURN_IF_ERROR(strategy.Run(
      pass,
      [&](absl::Span<const train::BatchView> shards) -> absl::Status {
        const train::BatchView& batch = shards.front();
        EXPECT_EQ(batch.inputs, nullptr);
        if (batch.device_rows == nullptr) {
          return absl::NotFoundError("rows are not on the GPU");
        }
        HEARTH_RETURN_IF_ERROR(take());
        for (ModelOnFake& model : models) {
          HEARTH_RETURN_IF_ERROR(model.Begin(batch));
        }
        waiting = {
            .sample = batch.sample,
            .labels = store::Labels::Classes(
                {batch.labels.classes.begin(), batch.labels.classes.end()},
                batch.labels.width),
            .feature_dim = batch.feature_dim};
        return absl::OkStatus();
      },
      {}, report));
  return take();
}

}  // namespace hearth::testing
