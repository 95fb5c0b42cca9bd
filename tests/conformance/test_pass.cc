#include "tests/conformance/test_pass.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/cache/assemble.h"
#include "engine/io/file_system.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/array_type.h"
#include "engine/store/converted_rows.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/topology.h"
#include "engine/strategy/sampling.h"
#include "gtest/gtest.h"

namespace hearth::testing {

strategy::Pass Measured(const store::Dataset& dataset, strategy::Pass pass) {
  const auto labels = dataset.LoadLabels();
  EXPECT_TRUE(labels.ok()) << labels.status();
  const auto topology = dataset.LoadTopology(store::Residency::kMapped);
  EXPECT_TRUE(topology.ok()) << topology.status();
  strategy::Pass first = pass;
  first.epoch_key = 0;
  const auto batches = strategy::MeasureBatches(
      first, first.order->Epoch(0), {**topology, *labels},
      {.clock = Clock::Real()}, std::stop_token());
  EXPECT_TRUE(batches.ok()) << batches.status();
  pass.batches = *batches;
  return pass;
}

namespace {

template <typename T>
void Append(Sha256& digest, const T* data, size_t count) {
  digest.Update(absl::Span<const std::byte>(
      reinterpret_cast<const std::byte*>(data), count * sizeof(T)));
}

}  // namespace

std::unique_ptr<store::Dataset> Converted(
    std::unique_ptr<store::Dataset> dataset, store::DType dtype,
    const std::string& folder) {
  io::FileSystem& files = io::FileSystem::Posix();
  EXPECT_EQ(files.RemoveTree(folder), absl::OkStatus());
  EXPECT_EQ(files.CreateDirectory(folder), absl::OkStatus());
  EXPECT_EQ(store::WriteConverted(
                files, *dataset, folder,
                {.dtype = dtype, .threads = 2, .progress = {}, .stop = {}}),
            absl::OkStatus());
  auto copy = *store::OpenConverted(files, folder, dataset->manifest(), dtype,
                                    /*record=*/nullptr);
  return store::WithConverted(std::move(dataset), std::move(copy));
}

std::vector<float> InputsOf(const train::BatchView& batch) {
  const size_t count = batch.sample.input_nodes.size();
  const auto dim = static_cast<size_t>(batch.feature_dim);
  if (!batch.rows.has_value()) {
    return {batch.inputs, batch.inputs + count * dim};
  }
  const train::RowsInPlace& rows = *batch.rows;
  EXPECT_EQ(batch.inputs, nullptr);
  EXPECT_EQ(rows.format.dim, batch.feature_dim);
  std::vector<float> inputs(count * dim);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t address = rows.addresses[i];
    const bool in_slot = address < rows.num_slots;
    const std::byte* const row =
        (in_slot ? rows.slots : rows.landed) +
        (address - (in_slot ? 0 : rows.num_slots)) * rows.format.row_bytes();
    cache::WidenRow(rows.format, row, inputs.data() + i * dim);
  }
  return inputs;
}

std::string Fingerprint(const train::BatchView& batch) {
  Sha256 digest;
  const auto& nodes = batch.sample.input_nodes;
  Append(digest, nodes.data(), nodes.size());
  Append(digest, batch.sample.in_degrees.data(),
         batch.sample.in_degrees.size());
  Append(digest, batch.sample.node_types.data(),
         batch.sample.node_types.size());
  for (const sample::Block& block : batch.sample.blocks) {
    Append(digest, block.indptr.data(), block.indptr.size());
    Append(digest, block.indices.data(), block.indices.size());
    Append(digest, block.weights.data(), block.weights.size());
    Append(digest, block.edge_types.data(), block.edge_types.size());
  }
  if (batch.sample.top.has_value()) {
    const sample::TopLayer& top = *batch.sample.top;
    Append(digest, top.nodes.data(), top.nodes.size());
    Append(digest, top.in_degrees.data(), top.in_degrees.size());
    for (const auto* positions : {&top.computed, &top.pulled, &top.pushed}) {
      const size_t count = positions->size();
      Append(digest, &count, 1);
      Append(digest, positions->data(), count);
    }
  }
  const std::vector<float> inputs = InputsOf(batch);
  Append(digest, inputs.data(), inputs.size());
  const store::LabelsView& labels = batch.labels;
  EXPECT_TRUE(labels.ValidateLabeled().ok());
  Append(digest, labels.classes.data(), labels.classes.size());
  Append(digest, labels.bits.data(), labels.bits.size());
  Append(digest, labels.targets.data(), labels.targets.size());
  return digest.HexDigest();
}

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
