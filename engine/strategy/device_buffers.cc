#include "engine/strategy/device_buffers.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"

// The life of a buffer of a pool:
//
//  1. Take: the buffer that came back first, since its copies are likely done.
//     The writer's stream waits for them; where the buffer is too small, the
//     host waits and allocates it again.
//  2. The writer queues the work that fills it; Fill records an event behind
//     that work.
//  3. QueueCopy: the reader's stream waits for that event, copies the rows, and
//     records an event of its own.
//  4. The lease ends: the host waits for the filling, which reads memory of the
//     batch. Models have waited for it, or it is about to be done.

namespace hearth::strategy {

struct DeviceBufferPool::Buffer {
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  // An error means that the device does no more work.
  ~Buffer() { AwaitCopies().IgnoreError(); }

  // The host waits for copies of the rows.
  absl::Status AwaitCopies() {
    absl::Status status;
    for (size_t i = 0; i < copies; ++i) status.Update(copied[i]->Wait());
    copies = 0;
    return status;
  }

  // `writer` waits for copies of the rows.
  absl::Status WaitForCopies(cuda::Stream& writer) {
    for (size_t i = 0; i < copies; ++i) {
      HEARTH_RETURN_IF_ERROR(writer.WaitFor(*copied[i]));
    }
    copies = 0;
    return absl::OkStatus();
  }

  cuda::Memory memory;
  // Bytes of the rows that are, or will be, in `memory`.
  uint64_t bytes = 0;
  std::unique_ptr<cuda::Event> filled;
  // Events behind copies of the rows; the first `copies` are in use.
  std::vector<std::unique_ptr<cuda::Event>> copied;
  size_t copies = 0;
};

DeviceBufferPool::Lease::Lease(DeviceBufferPool& pool,
                               std::unique_ptr<Buffer> buffer)
    : pool_(pool), buffer_(std::move(buffer)) {}

DeviceBufferPool::Lease::~Lease() {
  const absl::Status filled =
      filled_ ? buffer_->filled->Wait() : absl::OkStatus();
  pool_.Return(std::move(buffer_), filled);
}

std::byte* DeviceBufferPool::Lease::data() const {
  return buffer_->memory.data();
}

absl::Status DeviceBufferPool::Lease::Fill(cuda::Stream& writer) {
  HEARTH_RETURN_IF_ERROR(writer.Record(*buffer_->filled));
  filled_ = true;
  return absl::OkStatus();
}

absl::Status DeviceBufferPool::Lease::QueueCopy(void* stream, float* to) const {
  return pool_.QueueCopy(*buffer_, stream, to);
}

DeviceBufferPool::DeviceBufferPool(const cuda::Device& device)
    : device_(device) {}

DeviceBufferPool::~DeviceBufferPool() { Clear(); }

absl::StatusOr<std::unique_ptr<DeviceBufferPool::Lease>> DeviceBufferPool::Take(
    uint64_t bytes, cuda::Stream& writer) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer, Next());
  if (buffer->memory.size() < bytes) {
    HEARTH_RETURN_IF_ERROR(buffer->AwaitCopies());
    // Given back first, so that there is place for the larger one.
    buffer->memory = {};
    HEARTH_ASSIGN_OR_RETURN(
        buffer->memory,
        cuda::Memory::Allocate(device_, cuda::Memory::Kind::kDevice, bytes));
  }
  HEARTH_RETURN_IF_ERROR(buffer->WaitForCopies(writer));
  buffer->bytes = bytes;
  return std::unique_ptr<Lease>(new Lease(*this, std::move(buffer)));
}

absl::StatusOr<std::unique_ptr<DeviceBufferPool::Buffer>>
DeviceBufferPool::Next() {
  {
    absl::MutexLock lock(&mutex_);
    HEARTH_RETURN_IF_ERROR(failure_);
    if (!free_.empty()) {
      std::unique_ptr<Buffer> buffer = std::move(free_.front());
      free_.pop_front();
      return buffer;
    }
  }
  auto buffer = std::make_unique<Buffer>();
  HEARTH_ASSIGN_OR_RETURN(buffer->filled, cuda::Event::Create(device_));
  return buffer;
}

void DeviceBufferPool::Return(std::unique_ptr<Buffer> buffer,
                              const absl::Status& filled) {
  absl::MutexLock lock(&mutex_);
  failure_.Update(filled);
  free_.push_back(std::move(buffer));
}

absl::Status DeviceBufferPool::QueueCopy(Buffer& buffer, void* stream,
                                         float* to) {
  if (buffer.bytes == 0) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  HEARTH_ASSIGN_OR_RETURN(cuda::Stream* const reader, Reader(stream));
  if (buffer.copied.size() == buffer.copies) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Event> event,
                            cuda::Event::Create(device_));
    buffer.copied.push_back(std::move(event));
  }
  HEARTH_RETURN_IF_ERROR(reader->WaitFor(*buffer.filled));
  HEARTH_RETURN_IF_ERROR(reader->Copy(to, buffer.memory.data(), buffer.bytes));
  const absl::Status status = reader->Record(*buffer.copied[buffer.copies]);
  if (status.ok()) {
    ++buffer.copies;
  } else {
    // Without an event nobody else waits for the copy.
    reader->Wait().IgnoreError();
  }
  return status;
}

absl::StatusOr<cuda::Stream*> DeviceBufferPool::Reader(void* stream) {
  std::unique_ptr<cuda::Stream>& reader = readers_[stream];
  if (reader == nullptr) {
    HEARTH_ASSIGN_OR_RETURN(reader, cuda::Stream::Wrap(device_, stream));
  }
  return reader.get();
}

absl::StatusOr<std::unique_ptr<DeviceBufferPool::Lease>>
DeviceBufferPool::QueueIn(uint64_t bytes, cuda::Stream& writer, Queue queue) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<Lease> lease, Take(bytes, writer));
  if (bytes > 0) HEARTH_RETURN_IF_ERROR(queue(lease->data()));
  return lease;
}

absl::StatusOr<std::unique_ptr<DeviceBufferPool::Lease>> DeviceBufferPool::Fill(
    uint64_t bytes, cuda::Stream& writer, Queue queue) {
  absl::StatusOr<std::unique_ptr<Lease>> lease = QueueIn(bytes, writer, queue);
  absl::Status status = lease.status();
  if (status.ok()) status = (*lease)->Fill(writer);
  if (status.ok()) return lease;
  writer.Wait().IgnoreError();
  return status;
}

absl::Status DeviceBufferPool::FillAndCopy(uint64_t bytes, cuda::Stream& writer,
                                           Queue queue, float* out) {
  const absl::StatusOr<std::unique_ptr<Lease>> lease =
      QueueIn(bytes, writer, queue);
  absl::Status status = lease.status();
  if (status.ok() && bytes > 0) {
    status = writer.Copy(out, (*lease)->data(), bytes);
  }
  status.Update(writer.Wait());
  return status;
}

void DeviceBufferPool::Clear() {
  absl::MutexLock lock(&mutex_);
  free_.clear();
  readers_.clear();
}

namespace {

// Alignment of each block, at which kernels read fastest.
constexpr uint64_t kAlignment = 256;

}  // namespace

HearthCudaElement CudaElement(store::DType dtype) {
  switch (dtype) {
    case store::DType::kFloat16:
      return HEARTH_CUDA_FLOAT16;
    case store::DType::kBFloat16:
      return HEARTH_CUDA_BFLOAT16;
    case store::DType::kScaledInt8:
      return HEARTH_CUDA_SCALED_INT8;
    default:
      return HEARTH_CUDA_FLOAT32;
  }
}

absl::Status CheckGpuCache(uint64_t gpu_cache_bytes, const Gpu& gpu) {
  if (gpu_cache_bytes == 0 || !std::holds_alternative<std::monostate>(gpu)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("gpu_cache_bytes: ", gpu_cache_bytes,
                   ", but there is no GPU to keep rows on"));
}

absl::Status QueueStoredRows(cuda::Stream& stream,
                             const HearthCudaScatterPart& part,
                             absl::Span<const int64_t> rows,
                             absl::Span<const int32_t> positions,
                             int64_t row_bytes, std::byte* to) {
  if (positions.empty()) return absl::OkStatus();
  // A scatter of float32 rows leaves bytes as they are.
  constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));
  if (row_bytes % kFloatBytes == 0) {
    HearthCudaScatter scatter = {};
    scatter.parts[0] = part;
    scatter.element = HEARTH_CUDA_FLOAT32;
    scatter.dim = row_bytes / kFloatBytes;
    scatter.out = reinterpret_cast<float*>(to);
    return stream.Scatter(scatter);
  }
  const auto* from = static_cast<const std::byte*>(part.rows);
  for (size_t i = 0; i < positions.size(); ++i) {
    HEARTH_RETURN_IF_ERROR(stream.Copy(to + positions[i] * row_bytes,
                                       from + rows[i] * row_bytes,
                                       static_cast<uint64_t>(row_bytes)));
  }
  return absl::OkStatus();
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
