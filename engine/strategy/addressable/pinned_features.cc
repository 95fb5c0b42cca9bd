#include "engine/strategy/addressable/pinned_features.h"

#include <cstddef>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/strategy/device_staging.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::strategy {

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
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<DeviceRooms::Lease> room,
                          rooms_.Take(bytes, *stream_));
  absl::Status status = Queue(nodes, room->data());
  if (status.ok()) status = room->Fill(*stream_);
  if (!status.ok()) {
    stream_->Wait().IgnoreError();
    return status;
  }
  return room;
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

// Nothing is queued: who had rows waited.
void PinnedFeatures::Rest() {
  rooms_.Clear();
  nodes_ = {};
}

uint64_t PinnedFeatures::DeviceBytes(int64_t rows, int64_t dim, int rooms) {
  const auto widened = dim * static_cast<int64_t>(sizeof(float));
  return static_cast<uint64_t>(
      rows * (rooms * widened + static_cast<int64_t>(sizeof(store::NodeId))));
}

}  // namespace hearth::strategy
