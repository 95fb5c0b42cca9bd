#include "engine/strategy/device_buffers.h"

#include <utility>

#include "engine/base/byte_size.h"
#include "engine/base/status.h"

// A room's life:
//
//  1. Take: the room that came back first, so that its copies are likely done.
//     The writer's stream waits for them. Where it is too small the host does,
//     and it is made anew.
//  2. The writer queues what fills it; Fill records that.
//  3. QueueCopy: the reader's stream waits for the filling, copies, and records
//     that.
//  4. The lease ends: the host waits for the filling, which refers to memory of
//     the batch. Models have waited for it, or it is about to be done.

namespace hearth::strategy {

struct DeviceRooms::Room {
  Room() = default;
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  // A device that fails does nothing more.
  ~Room() { AwaitCopies().IgnoreError(); }

  // The host waits for copies of the rows.
  absl::Status AwaitCopies() {
    absl::Status status;
    for (size_t i = 0; i < copies; ++i) status.Update(copied[i]->Wait());
    copies = 0;
    return status;
  }

  // `writer` waits for them.
  absl::Status WaitForCopies(cuda::Stream& writer) {
    for (size_t i = 0; i < copies; ++i) {
      HEARTH_RETURN_IF_ERROR(writer.WaitFor(*copied[i]));
    }
    copies = 0;
    return absl::OkStatus();
  }

  cuda::Memory memory;
  // Bytes of the rows that are or will be there.
  uint64_t bytes = 0;
  std::unique_ptr<cuda::Event> filled;
  // Each passes when a copy of the rows is done; the first `copies` of them
  // count.
  std::vector<std::unique_ptr<cuda::Event>> copied;
  size_t copies = 0;
};

DeviceRooms::Lease::Lease(DeviceRooms& rooms, std::unique_ptr<Room> room)
    : rooms_(rooms), room_(std::move(room)) {}

DeviceRooms::Lease::~Lease() {
  const absl::Status filled =
      filled_ ? room_->filled->Wait() : absl::OkStatus();
  rooms_.Return(std::move(room_), filled);
}

std::byte* DeviceRooms::Lease::data() const { return room_->memory.data(); }

absl::Status DeviceRooms::Lease::Fill(cuda::Stream& writer) {
  HEARTH_RETURN_IF_ERROR(writer.Record(*room_->filled));
  filled_ = true;
  return absl::OkStatus();
}

absl::Status DeviceRooms::Lease::QueueCopy(void* stream, float* to) const {
  return rooms_.QueueCopy(*room_, stream, to);
}

DeviceRooms::DeviceRooms(const cuda::Device& device) : device_(device) {}

DeviceRooms::~DeviceRooms() { Clear(); }

absl::StatusOr<std::unique_ptr<DeviceRooms::Lease>> DeviceRooms::Take(
    uint64_t bytes, cuda::Stream& writer) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<Room> room, Next());
  if (room->memory.size() < bytes) {
    HEARTH_RETURN_IF_ERROR(room->AwaitCopies());
    // Given back first, so that there is place for the larger one.
    room->memory = {};
    HEARTH_ASSIGN_OR_RETURN(
        room->memory,
        cuda::Memory::Allocate(device_, cuda::Memory::Kind::kDevice, bytes));
  }
  HEARTH_RETURN_IF_ERROR(room->WaitForCopies(writer));
  room->bytes = bytes;
  return std::unique_ptr<Lease>(new Lease(*this, std::move(room)));
}

absl::StatusOr<std::unique_ptr<DeviceRooms::Room>> DeviceRooms::Next() {
  {
    absl::MutexLock lock(&mutex_);
    HEARTH_RETURN_IF_ERROR(failure_);
    if (!free_.empty()) {
      std::unique_ptr<Room> room = std::move(free_.front());
      free_.pop_front();
      return room;
    }
  }
  auto room = std::make_unique<Room>();
  HEARTH_ASSIGN_OR_RETURN(room->filled, cuda::Event::Create(device_));
  return room;
}

void DeviceRooms::Return(std::unique_ptr<Room> room,
                         const absl::Status& filled) {
  absl::MutexLock lock(&mutex_);
  failure_.Update(filled);
  free_.push_back(std::move(room));
}

absl::Status DeviceRooms::QueueCopy(Room& room, void* stream, float* to) {
  if (room.bytes == 0) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  HEARTH_ASSIGN_OR_RETURN(cuda::Stream* const reader, Reader(stream));
  if (room.copied.size() == room.copies) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Event> event,
                            cuda::Event::Create(device_));
    room.copied.push_back(std::move(event));
  }
  HEARTH_RETURN_IF_ERROR(reader->WaitFor(*room.filled));
  HEARTH_RETURN_IF_ERROR(reader->Copy(to, room.memory.data(), room.bytes));
  const absl::Status status = reader->Record(*room.copied[room.copies]);
  if (status.ok()) {
    ++room.copies;
  } else {
    // Nobody else will.
    reader->Wait().IgnoreError();
  }
  return status;
}

absl::StatusOr<cuda::Stream*> DeviceRooms::Reader(void* stream) {
  std::unique_ptr<cuda::Stream>& reader = readers_[stream];
  if (reader == nullptr) {
    HEARTH_ASSIGN_OR_RETURN(reader, cuda::Stream::Wrap(device_, stream));
  }
  return reader.get();
}

void DeviceRooms::Clear() {
  absl::MutexLock lock(&mutex_);
  free_.clear();
  readers_.clear();
}

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
