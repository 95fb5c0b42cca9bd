#include "tests/conformance/hooks.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/io/testing/faults.h"

namespace hearth::testing {

class HookedDataset::Device final : public io::InterceptingDevice {
 public:
  Device(std::unique_ptr<io::BlockDevice> base, std::shared_ptr<State> state)
      : InterceptingDevice(std::move(base)), state_(std::move(state)) {}

  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) override {
    const int64_t attempt = state_->attempts++;
    const int error = state_->hook ? state_->hook(attempt) : 0;
    return error != 0 ? error : base().ReadOnce(offset, out);
  }

 private:
  const std::shared_ptr<State> state_;
};

HookedDataset::HookedDataset(const store::Dataset& base)
    : base_(base), state_(std::make_shared<State>()) {}

void HookedDataset::SetHook(Hook hook) {
  state_->hook = std::move(hook);
  state_->attempts = 0;
}

const store::Manifest& HookedDataset::manifest() const {
  return base_.manifest();
}

const std::string& HookedDataset::path() const { return base_.path(); }

absl::Status HookedDataset::CheckUnchanged() const {
  return base_.CheckUnchanged();
}

absl::StatusOr<std::unique_ptr<store::LoadedTopology>>
HookedDataset::LoadTopology(store::TopologyResidency residency,
                            const std::stop_token& stop,
                            size_t edge_type) const {
  return base_.LoadTopology(residency, stop, edge_type);
}

absl::StatusOr<std::unique_ptr<store::LoadedFeatures>>
HookedDataset::LoadFeatures(store::Residency residency,
                            const std::stop_token& stop,
                            size_t node_type) const {
  return base_.LoadFeatures(residency, stop, node_type);
}

absl::StatusOr<store::StoredFeatures> HookedDataset::OpenFeatures(
    const io::BlockDeviceOptions& options, size_t node_type) const {
  HEARTH_ASSIGN_OR_RETURN(store::StoredFeatures features,
                          base_.OpenFeatures(options, node_type));
  features.device =
      std::make_unique<Device>(std::move(features.device), state_);
  return features;
}

absl::StatusOr<store::StoredTopology> HookedDataset::OpenTopology(
    const io::BlockDeviceOptions& options, const std::stop_token& stop,
    size_t edge_type) const {
  HEARTH_ASSIGN_OR_RETURN(store::StoredTopology topology,
                          base_.OpenTopology(options, stop, edge_type));
  topology.indices =
      std::make_unique<Device>(std::move(topology.indices), state_);
  return topology;
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>> HookedDataset::ScanFeatures(
    const std::stop_token& stop, size_t node_type) const {
  return base_.ScanFeatures(stop, node_type);
}

absl::StatusOr<std::unique_ptr<store::RowChecksums>>
HookedDataset::LoadRowChecksums(const std::stop_token& stop,
                                size_t node_type) const {
  return base_.LoadRowChecksums(stop, node_type);
}

absl::Status HookedDataset::VerifyFeatures(const std::stop_token& stop,
                                           size_t node_type) const {
  return base_.VerifyFeatures(stop, node_type);
}

absl::StatusOr<store::Labels> HookedDataset::LoadLabels(
    size_t node_type) const {
  return base_.LoadLabels(node_type);
}

absl::StatusOr<store::Split> HookedDataset::LoadSplit(size_t node_type) const {
  return base_.LoadSplit(node_type);
}

}  // namespace hearth::testing
