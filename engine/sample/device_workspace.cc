#include "engine/sample/device_workspace.h"

#include <bit>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/round_up.h"
#include "engine/base/status_macros.h"

namespace hearth::sample {
namespace {

using cuda::Memory;

// Arrays begin at multiples of it.
constexpr uint64_t kAlignment = 256;
// The most slots of a table (HearthCudaNodeTable).
constexpr uint64_t kMostSlots = uint64_t{1} << 31;

// Lays arrays out in one piece of memory, one behind the other.
class Layout {
 public:
  // With null, tells how much memory that takes.
  explicit Layout(std::byte* memory) : memory_(memory) {}

  template <typename T>
  void Add(int64_t count, T*& array) {
    array =
        memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + bytes_);
    bytes_ += RoundUp(static_cast<uint64_t>(count) * sizeof(T), kAlignment);
  }

  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* const memory_;
  uint64_t bytes_ = 0;
};

// At most two thirds of a table are in use.
uint64_t SlotsFor(int64_t nodes) {
  const auto count = static_cast<uint64_t>(nodes);
  return std::bit_ceil(count + count / 2 + 2);
}

uint64_t LayOut(int64_t count, std::byte* memory,
                DeviceWorkspace::NodeArrays& arrays) {
  Layout layout(memory);
  layout.Add(count, arrays.nodes);
  layout.Add(count, arrays.starts);
  layout.Add(count, arrays.degrees);
  layout.Add(count + 1, arrays.indptr);
  layout.Add(HEARTH_CUDA_SCAN_ROOM(count + 1), arrays.scratch);
  arrays.table.slots = static_cast<int64_t>(SlotsFor(count));
  layout.Add(arrays.table.slots, arrays.table.nodes);
  layout.Add(arrays.table.slots, arrays.table.positions);
  return layout.bytes();
}

uint64_t LayOut(int64_t count, std::byte* memory,
                DeviceWorkspace::EdgeArrays& arrays) {
  Layout layout(memory);
  layout.Add(count, arrays.sources);
  layout.Add(count, arrays.indices);
  layout.Add(count + 1 + HEARTH_CUDA_SCAN_ROOM(count + 1), arrays.ranks);
  return layout.bytes();
}

template <typename Arrays>
uint64_t BytesOf(int64_t count) {
  Arrays arrays;
  return LayOut(count, nullptr, arrays);
}

}  // namespace

uint64_t DeviceRoom::DeviceBytes() const {
  return BytesOf<DeviceWorkspace::NodeArrays>(nodes) +
         BytesOf<DeviceWorkspace::EdgeArrays>(edges) + kAlignment;
}

absl::StatusOr<std::unique_ptr<DeviceWorkspace>> DeviceWorkspace::Create(
    const cuda::Device& device) {
  std::unique_ptr<DeviceWorkspace> made(new DeviceWorkspace(device));
  HEARTH_ASSIGN_OR_RETURN(made->damage_,
                          Memory::Allocate(device, Memory::Kind::kDevice,
                                           sizeof(HearthCudaDamage)));
  HEARTH_ASSIGN_OR_RETURN(
      made->answer_,
      Memory::Allocate(device, Memory::Kind::kPinned, kPinnedBytes));
  HEARTH_ASSIGN_OR_RETURN(made->stream_, cuda::Stream::Create(device));
  return made;
}

absl::StatusOr<bool> DeviceWorkspace::ReserveNodes(int64_t nodes,
                                                   int64_t kept) {
  if (nodes <= room_.nodes && nodes_.nodes != nullptr) return false;
  if (SlotsFor(nodes) > kMostSlots) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a batch that may have ", nodes, " nodes is too large for a GPU"));
  }
  if (kept == 0) {
    // Both at once would take more than the estimate.
    HEARTH_RETURN_IF_ERROR(stream_->Wait());
    node_memory_ = Memory();
  }
  HEARTH_ASSIGN_OR_RETURN(Memory memory,
                          Memory::Allocate(device_, Memory::Kind::kDevice,
                                           BytesOf<NodeArrays>(nodes)));
  NodeArrays arrays;
  LayOut(nodes, memory.data(), arrays);
  if (kept > 0) HEARTH_RETURN_IF_ERROR(KeepNodes(arrays, kept));
  node_memory_ = std::move(memory);
  nodes_ = arrays;
  room_.nodes = nodes;
  return true;
}

absl::Status DeviceWorkspace::KeepNodes(const NodeArrays& to, int64_t count) {
  const uint64_t bytes = static_cast<uint64_t>(count) * sizeof(int64_t);
  HEARTH_RETURN_IF_ERROR(stream_->Copy(to.nodes, nodes_.nodes, bytes));
  HEARTH_RETURN_IF_ERROR(stream_->Copy(to.starts, nodes_.starts, bytes));
  HEARTH_RETURN_IF_ERROR(stream_->Copy(to.degrees, nodes_.degrees, bytes));
  HEARTH_RETURN_IF_ERROR(
      stream_->Copy(to.indptr, nodes_.indptr, bytes + sizeof(int64_t)));
  // The old memory goes.
  return stream_->Wait();
}

absl::Status DeviceWorkspace::ReserveEdges(int64_t edges) {
  if (edges <= room_.edges && edges_.ranks != nullptr) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(stream_->Wait());
  edge_memory_ = Memory();
  HEARTH_ASSIGN_OR_RETURN(edge_memory_,
                          Memory::Allocate(device_, Memory::Kind::kDevice,
                                           BytesOf<EdgeArrays>(edges)));
  LayOut(edges, edge_memory_.data(), edges_);
  room_.edges = edges;
  return absl::OkStatus();
}

}  // namespace hearth::sample
