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
#include "engine/store/dataset.h"
#include "engine/strategy/pass.h"
#include "engine/strategy/strategy.h"
#include "engine/train/train_step.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::testing {

/// `pass` with its batch sizes, by a dry run over `dataset`. All epochs get
/// those of epoch key 0, so that another epoch may have a larger batch.
strategy::Pass Measured(const store::Dataset& dataset, strategy::Pass pass);

/// A digest of everything of a batch that a trainer can see. Expects the labels
/// to be valid.
std::string Fingerprint(const train::BatchView& batch);

/// The stream of a model on a fake GPU, and the inputs of a batch that wait
/// there.
class ModelOnFake {
 public:
  explicit ModelOnFake(const cuda::FakeCuda& fake);
  ~ModelOnFake();

  /// Queues a copy of the rows; those of a batch before must have been taken.
  absl::Status Begin(const train::BatchView& batch);

  /// Waits: the rows.
  absl::StatusOr<std::vector<float>> Take();

 private:
  const cuda::Device device_;
  HearthCudaStream* native_ = nullptr;
  cuda::Memory inputs_;
  size_t elements_ = 0;
  std::unique_ptr<cuda::Stream> stream_;
};

/// Runs a pass whose rows stay on the GPU. Each of the models takes its rows a
/// batch later, as steps do that nobody waits for. Appends the fingerprints of
/// the batches, of one shard each, to `batches`. NOT_FOUND if rows are not on
/// the GPU.
absl::Status RunOnGpu(strategy::Strategy& strategy, strategy::Pass pass,
                      absl::Span<ModelOnFake> models,
                      std::vector<std::string>& batches,
                      strategy::PassReport& report);

}  // namespace hearth::testing

#endif  // HEARTH_TESTS_CONFORMANCE_TEST_PASS_H_
