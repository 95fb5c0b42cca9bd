#include "engine/strategy/device_staging.h"

#include "engine/base/round_up.h"
#include "engine/base/status_macros.h"

namespace hearth::strategy {
namespace {

// Alignment of each block: kernels read it fastest.
constexpr uint64_t kAlignment = 256;

}  // namespace

HearthCudaElement CudaElement(store::DType dtype) {
  switch (dtype) {
    case store::DType::kFloat16:
      return HEARTH_CUDA_FLOAT16;
    case store::DType::kBFloat16:
      return HEARTH_CUDA_BFLOAT16;
    default:
      return HEARTH_CUDA_FLOAT32;
  }
}

void DeviceStaging::Begin() {
  blocks_.clear();
  bytes_ = 0;
}

template <typename T>
DeviceStaging::Block DeviceStaging::Add(absl::Span<const T> values) {
  const Block block = {.host = values.data(),
                       .bytes = values.size() * sizeof(T),
                       .offset = bytes_};
  bytes_ += RoundUp(block.bytes, kAlignment);
  blocks_.push_back(block);
  return block;
}

DeviceStaging::Part DeviceStaging::AddReached(
    const std::byte* rows, absl::Span<const int64_t> slots,
    absl::Span<const int32_t> positions) {
  return {.rows = rows, .slots = Add(slots), .positions = Add(positions)};
}

DeviceStaging::Part DeviceStaging::AddCopied(
    absl::Span<const std::byte> rows, absl::Span<const int32_t> positions) {
  return {.copied = Add(rows), .positions = Add(positions)};
}

DeviceStaging::Part DeviceStaging::AddRowsOf(
    const Part& copied, absl::Span<const int64_t> slots,
    absl::Span<const int32_t> positions) {
  return {.copied = copied.copied,
          .slots = Add(slots),
          .positions = Add(positions)};
}

absl::Status DeviceStaging::QueueCopies(cuda::Stream& stream) {
  if (memory_.size() < bytes_) {
    if (memory_.size() > 0) HEARTH_RETURN_IF_ERROR(stream.Wait());
    // Given back first, so that there is place for the larger one.
    memory_ = {};
    HEARTH_ASSIGN_OR_RETURN(
        memory_,
        cuda::Memory::Allocate(device_, cuda::Memory::Kind::kDevice, bytes_));
  }
  for (const Block& block : blocks_) {
    HEARTH_RETURN_IF_ERROR(
        stream.Copy(memory_.data() + block.offset, block.host, block.bytes));
  }
  return absl::OkStatus();
}

template <typename T>
const T* DeviceStaging::Copied(const Block& block) const {
  return reinterpret_cast<const T*>(memory_.data() + block.offset);
}

HearthCudaScatterPart DeviceStaging::At(const Part& part) const {
  return {
      .rows = part.rows != nullptr ? part.rows : Copied<std::byte>(part.copied),
      .slots = part.slots.bytes > 0 ? Copied<int64_t>(part.slots) : nullptr,
      .positions = Copied<int32_t>(part.positions),
      .count = static_cast<int64_t>(part.positions.bytes / sizeof(int32_t))};
}

}  // namespace hearth::strategy
