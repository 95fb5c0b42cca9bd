#ifndef HEARTH_TESTS_CONFORMANCE_HOOKS_H_
#define HEARTH_TESTS_CONFORMANCE_HOOKS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/block_device.h"
#include "engine/store/dataset.h"

/// A clock and a dataset by which tests stop, block or fail strategies at any
/// point.

namespace hearth::testing {

/// A clock that requests a stop when it is read the nth time. A pipeline reads
/// the clock whenever a thread begins or ends to wait or to work, so that stops
/// reach every stage in every state.
class StoppingClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch(); }
  double SteadySeconds() const override {
    if (looks_++ == stop_at_) stop_->request_stop();
    return Clock::Real().SteadySeconds();
  }
  void StopAt(int64_t look, std::stop_source& stop) {
    looks_ = 0;
    stop_at_ = look;
    stop_ = &stop;
  }
  int64_t looks() const { return looks_; }

 private:
  mutable std::atomic<int64_t> looks_ = 0;
  int64_t stop_at_ = -1;
  std::stop_source* stop_ = nullptr;
};

/// A dataset with a hook before each read of features and of stored indices.
/// The hook may block, request a stop, or fail the read. Thread-safe if the
/// hook is.
class HookedDataset final : public store::Dataset {
 public:
  /// `attempt` counts from 0 since the last SetHook. 0 lets the read through,
  /// a negative errno fails it.
  using Hook = std::function<int(int64_t attempt)>;

  /// `base` must outlive this.
  explicit HookedDataset(const store::Dataset& base);

  /// REQUIRES: no read is going on.
  void SetHook(Hook hook);

  /// Attempts since the last SetHook.
  int64_t attempts() const { return state_->attempts; }

  const store::Manifest& manifest() const override;
  const std::string& path() const override;
  absl::Status CheckUnchanged() const override;
  absl::StatusOr<std::unique_ptr<store::LoadedTopology>> LoadTopology(
      store::TopologyResidency residency, const std::stop_token& stop,
      size_t edge_type) const override;
  absl::StatusOr<std::unique_ptr<store::LoadedFeatures>> LoadFeatures(
      store::Residency residency, const std::stop_token& stop,
      size_t node_type) const override;
  absl::StatusOr<store::StoredFeatures> OpenFeatures(
      const io::BlockDeviceOptions& options, size_t node_type) const override;
  absl::StatusOr<store::StoredTopology> OpenTopology(
      const io::BlockDeviceOptions& options, const std::stop_token& stop,
      size_t edge_type) const override;
  absl::StatusOr<std::unique_ptr<io::ReadableFile>> ScanFeatures(
      const std::stop_token& stop, size_t node_type) const override;
  absl::StatusOr<std::unique_ptr<store::RowChecksums>> LoadRowChecksums(
      const std::stop_token& stop, size_t node_type) const override;
  absl::Status VerifyFeatures(const std::stop_token& stop,
                              size_t node_type) const override;
  absl::StatusOr<store::Labels> LoadLabels(size_t node_type) const override;
  absl::StatusOr<store::Split> LoadSplit(size_t node_type) const override;

 private:
  struct State {
    Hook hook;
    std::atomic<int64_t> attempts = 0;
  };
  class Device;

  const store::Dataset& base_;
  const std::shared_ptr<State> state_;
};

}  // namespace hearth::testing

#endif  // HEARTH_TESTS_CONFORMANCE_HOOKS_H_
