#ifndef HEARTH_ENGINE_SAMPLE_DEVICE_WORKSPACE_H_
#define HEARTH_ENGINE_SAMPLE_DEVICE_WORKSPACE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/stream.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::sample {

/// The sizes of a batch that the memory to sample it follows from.
struct DeviceRoom {
  /// Nodes that may be met by the end of a layer.
  int64_t nodes = 0;
  /// Edges of a layer.
  int64_t edges = 0;

  /// Device memory for that.
  uint64_t DeviceBytes() const;
};

/// The stream and the memory of one sampler on a GPU. Memory stays from batch
/// to batch; it grows only for a batch that is larger than any before. Used by
/// one thread at a time.
class DeviceWorkspace {
 public:
  /// Arrays on the device of the nodes met so far, and of a layer's
  /// destinations.
  struct NodeArrays {
    int64_t* nodes = nullptr;
    int64_t* starts = nullptr;
    int64_t* degrees = nullptr;
    int64_t* indptr = nullptr;
    int64_t* scratch = nullptr;
    HearthCudaNodeTable table = {};
  };

  /// Arrays on the device of a layer's edges.
  struct EdgeArrays {
    int64_t* sources = nullptr;
    int32_t* indices = nullptr;
    uint32_t* ranks = nullptr;
  };

  /// Sizes and damage of a layer, for the host, in pinned memory.
  struct Answer {
    HearthCudaDamage damage;
    int64_t num_edges;
    uint32_t num_new_nodes;
  };

  /// The host's memory that one pins.
  static constexpr uint64_t kPinnedBytes = sizeof(Answer);

  /// Errors of making a stream and of allocating.
  static absl::StatusOr<std::unique_ptr<DeviceWorkspace>> Create(
      const cuda::Device& device);
  DeviceWorkspace(const DeviceWorkspace&) = delete;
  DeviceWorkspace& operator=(const DeviceWorkspace&) = delete;

  /// Makes room for `nodes` nodes. Of the first `kept` ones, and of the indptr
  /// of as many, everything stays but the table; true if that is to be filled
  /// anew. May wait. RESOURCE_EXHAUSTED, after which the workspace is of no
  /// use, if the device has no such memory.
  absl::StatusOr<bool> ReserveNodes(int64_t nodes, int64_t kept);

  /// The same for edges, of which nothing stays.
  absl::Status ReserveEdges(int64_t edges);

  cuda::Stream& stream() { return *stream_; }
  const NodeArrays& nodes() const { return nodes_; }
  const EdgeArrays& edges() const { return edges_; }
  HearthCudaDamage* damage() const {
    return reinterpret_cast<HearthCudaDamage*>(damage_.data());
  }
  Answer& answer() { return *reinterpret_cast<Answer*>(answer_.data()); }

 private:
  explicit DeviceWorkspace(const cuda::Device& device) : device_(device) {}

  absl::Status KeepNodes(const NodeArrays& to, int64_t count);

  const cuda::Device device_;
  DeviceRoom room_;
  cuda::Memory node_memory_;
  cuda::Memory edge_memory_;
  cuda::Memory damage_;
  cuda::Memory answer_;
  NodeArrays nodes_;
  EdgeArrays edges_;
  // Waits when destroyed, before the memory goes.
  std::unique_ptr<cuda::Stream> stream_;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_DEVICE_WORKSPACE_H_
