#ifndef HEARTH_TESTS_CONFORMANCE_TEST_PASS_H_
#define HEARTH_TESTS_CONFORMANCE_TEST_PASS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cuda/device.h"
#include "engine/cuda/stream.h"
#include "engine/cuda/testing/fake_cuda.h"
#include "engine/store/array_type.h"
#include "engine/store/dataset.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "kernels/cuda/hearth_cuda.h"

/// Passes of tests: with measured batch sizes, run for models on a fake GPU,
/// and compared by fingerprints.

namespace hearth::testing {

/// `pass` with batch sizes measured on `dataset`. Always measured with epoch
/// key 0, so that another epoch may have a larger batch.
strategy::Pass Measured(const store::Dataset& dataset, strategy::Pass pass);

/// `dataset` with a copy of its features in rows of `dtype`
/// (store/converted_rows.h), which is made in `folder`.
std::unique_ptr<store::Dataset> Converted(
    std::unique_ptr<store::Dataset> dataset, store::DType dtype,
    const std::string& folder);

/// The input rows of a batch in host memory, dense or in place: [input nodes,
/// feature_dim].
std::vector<float> InputsOf(const train::BatchView& batch);

/// A digest of everything that a trainer can see of a batch. Expects the labels
/// to be valid.
std::string Fingerprint(const train::BatchView& batch);

/// A model on a fake GPU: its stream, and the input rows that it has copied.
class ModelOnFake {
 public:
  explicit ModelOnFake(const cuda::FakeCuda& fake);
  ~ModelOnFake();

  /// Queues a copy of the batch's rows. REQUIRES: the rows of the batch before
  /// were taken.
  absl::Status Begin(const train::BatchView& batch);

  /// Waits for the copy and returns the rows.
  absl::StatusOr<std::vector<float>> Take();

 private:
  const cuda::Device device_;
  HearthCudaStream* native_ = nullptr;
  cuda::Memory inputs_;
  size_t elements_ = 0;
  std::unique_ptr<cuda::Stream> stream_;
};

/// Runs a pass with rows that stay on the GPU. Each model takes its rows one
/// batch later, as training steps that nobody waits for. Appends the
/// fingerprints of the batches, which have one shard each, to `batches`.
/// NOT_FOUND if rows are not on the GPU.
absl::Status RunOnGpu(strategy::Strategy& strategy, strategy::Pass pass,
                      absl::Span<ModelOnFake> models,
                      std::vector<std::string>& batches,
                      strategy::PassReport& report);

}  // namespace hearth::testing

#endif  // HEARTH_TESTS_CONFORMANCE_TEST_PASS_H_
