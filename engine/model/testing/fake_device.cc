#include "engine/model/testing/fake_device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/cuda/stream.h"

namespace hearth::model {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

void Check(const absl::Status& status) {
  TORCH_CHECK(status.ok(), std::string(status.message()));
}

// Numbers of streams: the default stream, and the stream of the pool.
constexpr c10::StreamId kDefault = 0;
constexpr c10::StreamId kOfPool = 1;
constexpr c10::StreamId kNumStreams = 2;

thread_local c10::StreamId current_stream = kDefault;

// A set of streams: bit i is stream number i.
using StreamSet = uint32_t;
StreamSet SetOf(c10::StreamId stream) { return StreamSet{1} << stream; }

// The plug-in's side of the device. Work is queued in the current stream.
class Memory {
 public:
  void Open(const cuda::Device& plugin) {
    absl::MutexLock lock(&mutex_);
    plugin_ = plugin;
    for (Lane& lane : lanes_) {
      Check(cuda::ToStatus(
          plugin, plugin.table->stream_create(plugin.number, &lane.native),
          "making a stream"));
      auto stream = cuda::Stream::Wrap(plugin, lane.native);
      Check(stream.status());
      lane.stream = *std::move(stream);
    }
  }

  // Waits for tensors that threads of autograd still hold: these may free them
  // shortly after a backward pass has returned.
  void Close() {
    absl::MutexLock lock(&mutex_);
    const absl::Time deadline = absl::Now() + absl::Minutes(1);
    while (live_ > 0 && !all_freed_.WaitWithDeadline(&mutex_, deadline)) {
    }
    for (c10::StreamId stream = 0; stream < kNumStreams; ++stream) {
      lanes_[stream].stream.reset();
      (void)plugin_.table->stream_destroy(lanes_[stream].native);
      ReleaseFreed(stream);
    }
  }

  void* native(c10::StreamId stream) {
    absl::MutexLock lock(&mutex_);
    return lanes_[stream].native;
  }

  void* Allocate(size_t bytes) {
    absl::MutexLock lock(&mutex_);
    void* const memory = Allocate(plugin_.table->allocate, bytes);
    used_by_[memory] = SetOf(current_stream);
    return memory;
  }

  void Free(void* memory) {
    absl::MutexLock lock(&mutex_);
    freed_[memory] = {.pending = used_by_.extract(memory).mapped(),
                      .release = plugin_.table->release};
    if (--live_ == 0) all_freed_.SignalAll();
  }

  // Records that a stream uses memory, in addition to the stream for which it
  // was allocated.
  void NoteUse(void* memory, c10::StreamId stream) {
    absl::MutexLock lock(&mutex_);
    used_by_.at(memory) |= SetOf(stream);
  }

  void* AllocatePinned(size_t bytes) {
    absl::MutexLock lock(&mutex_);
    void* const memory = Allocate(plugin_.table->allocate_pinned, bytes);
    pinned_[reinterpret_cast<uintptr_t>(memory)] = {.bytes = bytes};
    return memory;
  }

  void FreePinned(void* memory) {
    absl::MutexLock lock(&mutex_);
    const auto block = pinned_.extract(reinterpret_cast<uintptr_t>(memory));
    freed_[memory] = {.pending = block.mapped().used_by,
                      .release = plugin_.table->release_pinned};
    if (--live_ == 0) all_freed_.SignalAll();
  }

  bool IsPinned(const void* pointer) {
    absl::MutexLock lock(&mutex_);
    return PinnedAt(pointer) != nullptr;
  }

  // Queues a copy. LibTorch remembers the streams that copy from and to pinned
  // memory.
  void QueueCopy(void* to, const void* from, size_t bytes) {
    absl::MutexLock lock(&mutex_);
    for (const void* const end : {static_cast<const void*>(to), from}) {
      Pinned* const block = PinnedAt(end);
      if (block != nullptr) block->used_by |= SetOf(current_stream);
    }
    Check(lanes_[current_stream].stream->Copy(to, from, bytes));
  }

  // Queues a copy and waits for it, and for all earlier work.
  void Copy(void* to, const void* from, size_t bytes) {
    absl::MutexLock lock(&mutex_);
    Check(lanes_[current_stream].stream->Copy(to, from, bytes));
    Wait(current_stream);
    // Nothing waits only for copies, which a GPU would have done by now.
    if (freed_.size() > kMostFreed) Wait(kOfPool);
  }

  // Makes the stream's later work wait for the event.
  void Block(void* event, c10::StreamId stream) {
    absl::MutexLock lock(&mutex_);
    Check(cuda::ToStatus(
        plugin_,
        plugin_.table->stream_wait_event(lanes_[stream].native,
                                         static_cast<HearthCudaEvent*>(event)),
        "waiting for an event"));
  }

  // Creates the event if it is null, and records it after the queued work.
  void Record(void** event, c10::StreamId stream) {
    absl::MutexLock lock(&mutex_);
    auto* made = static_cast<HearthCudaEvent*>(*event);
    if (made == nullptr) {
      Check(cuda::ToStatus(plugin_,
                           plugin_.table->event_create(plugin_.number, &made),
                           "making an event"));
      *event = made;
    }
    Check(cuda::ToStatus(
        plugin_, plugin_.table->event_record(made, lanes_[stream].native),
        "recording an event"));
  }

  void Await(void* event) {
    const HearthCudaTable* const table = Table();
    Check(cuda::ToStatus(
        {table, 0},
        table->event_synchronize(static_cast<HearthCudaEvent*>(event)),
        "waiting for an event"));
  }

  void Destroy(void* event) {
    (void)Table()->event_destroy(static_cast<HearthCudaEvent*>(event));
  }

 private:
  struct Lane {
    HearthCudaStream* native = nullptr;
    std::unique_ptr<cuda::Stream> stream = nullptr;
  };
  struct Pinned {
    size_t bytes = 0;
    StreamSet used_by = 0;
  };
  struct Freed {
    // Streams that may still use the memory.
    StreamSet pending = 0;
    int (*release)(int device, void* memory) = nullptr;
  };
  static constexpr size_t kMostFreed = 16;

  // The pinned memory at `pointer`; null if there is none.
  Pinned* PinnedAt(const void* pointer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    auto block = pinned_.upper_bound(address);
    if (block == pinned_.begin()) return nullptr;
    --block;
    return address - block->first < block->second.bytes ? &block->second
                                                        : nullptr;
  }

  void Wait(c10::StreamId stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Check(lanes_[stream].stream->Wait());
    ReleaseFreed(stream);
  }

  void* Allocate(int (*allocate)(int, size_t, void**), size_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    void* memory = nullptr;
    const absl::Status status = cuda::ToStatus(
        plugin_, allocate(plugin_.number, bytes, &memory), "allocating");
    TORCH_CHECK_WITH(OutOfMemoryError, !absl::IsResourceExhausted(status),
                     std::string(status.message()));
    Check(status);
    ++live_;
    return memory;
  }

  const HearthCudaTable* Table() {
    absl::MutexLock lock(&mutex_);
    return plugin_.table;
  }

  // Frees memory after a stream has passed everything that was queued before.
  void ReleaseFreed(c10::StreamId stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (auto entry = freed_.begin(); entry != freed_.end();) {
      auto& [memory, freed] = *entry;
      freed.pending &= ~SetOf(stream);
      if (freed.pending != 0) {
        ++entry;
        continue;
      }
      (void)freed.release(plugin_.number, memory);
      entry = freed_.erase(entry);
    }
  }

  absl::Mutex mutex_;
  cuda::Device plugin_ ABSL_GUARDED_BY(mutex_);
  std::array<Lane, kNumStreams> lanes_ ABSL_GUARDED_BY(mutex_);
  // Number of allocations that tensors still hold.
  int64_t live_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::CondVar all_freed_;
  // Streams that use each piece of device memory.
  std::map<void*, StreamSet> used_by_ ABSL_GUARDED_BY(mutex_);
  // Pinned memory by its address.
  std::map<uintptr_t, Pinned> pinned_ ABSL_GUARDED_BY(mutex_);
  // Freed memory that queued work may still need.
  std::map<void*, Freed> freed_ ABSL_GUARDED_BY(mutex_);
};

Memory& TheMemory() {
  static auto& memory = *new Memory;
  return memory;
}

class Allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const memory = bytes == 0 ? nullptr : TheMemory().Allocate(bytes);
    return {memory, memory, &Free, c10::Device(at::kPrivateUse1, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    TheMemory().Copy(to, from, bytes);
  }

 private:
  static void Free(void* memory) {
    if (memory != nullptr) TheMemory().Free(memory);
  }
};

Allocator& TheAllocator() {
  static auto& allocator = *new Allocator;
  return allocator;
}

class PinnedAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    void* const memory =
        bytes == 0 ? nullptr : TheMemory().AllocatePinned(bytes);
    return {memory, memory, &Free, c10::Device(at::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void Free(void* memory) {
    if (memory != nullptr) TheMemory().FreePinned(memory);
  }
};

// The only device.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return at::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return device;
  }
  c10::Device getDevice() const override { return {at::kPrivateUse1, 0}; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_stream);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, kOfPool);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return c10::Stream(c10::Stream::UNSAFE, stream.device(),
                       std::exchange(current_stream, stream.id()));
  }
  void* getStreamNativeHandle(c10::Stream stream) const override {
    return TheMemory().native(stream.id());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex,
              c10::EventFlag) const override {
    TheMemory().Record(event, stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    TheMemory().Block(event, stream.id());
  }
  void recordDataPtrOnStream(const c10::DataPtr& data,
                             const c10::Stream& stream) const override {
    TheMemory().NoteUse(data.get(), stream.id());
  }
  void synchronizeEvent(void* event) const override {
    TheMemory().Await(event);
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    if (event != nullptr) TheMemory().Destroy(event);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// Tells autograd that the device exists and is in use.
struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  bool isPinnedPtr(const void* pointer) const override {
    return TheMemory().IsPinned(pointer);
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static auto& allocator = *new PinnedAllocator;
    return &allocator;
  }
};

const bool hooked = [] {
  static auto& hooks = *new Hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::register_privateuse1_backend("fake");
  return true;
}();

at::Tensor Empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout>, std::optional<at::Device>,
                 std::optional<bool>,
                 std::optional<at::MemoryFormat> memory_format) {
  return at::detail::empty_generic(size, &TheAllocator(), kKeys,
                                   dtype.value_or(at::kFloat), memory_format);
}

at::Tensor EmptyStrided(at::IntArrayRef size, at::IntArrayRef stride,
                        std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout>, std::optional<at::Device>,
                        std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &TheAllocator(), kKeys,
                                           dtype.value_or(at::kFloat));
}

// Bytes from a tensor's first element to its last.
size_t Extent(const at::Tensor& tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(),
                                          tensor.itemsize());
}

// A non-empty tensor's elements in the host's memory, with the same strides.
at::Tensor OnHost(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  at::Tensor result = at::detail::empty_strided_cpu(
      tensor.sizes(), tensor.strides(), tensor.scalar_type());
  TheMemory().Copy(result.mutable_data_ptr(), tensor.const_data_ptr(),
                   Extent(tensor));
  return result;
}

// Whether a copy needs no wait: as on a GPU, from or to pinned memory.
bool CanQueue(const at::Tensor& from, const at::Tensor& to) {
  if (from.scalar_type() != to.scalar_type() || !from.is_contiguous() ||
      !to.is_contiguous() || from.sizes() != to.sizes()) {
    return false;
  }
  const at::Tensor& host = from.is_cpu() ? from : to;
  return !host.is_cpu() || TheMemory().IsPinned(host.const_data_ptr());
}

at::Tensor CopyFrom(const at::Tensor& from, const at::Tensor& to,
                    bool non_blocking) {
  if (to.numel() == 0) return to;
  if (non_blocking && CanQueue(from, to)) {
    TheMemory().QueueCopy(to.mutable_data_ptr(), from.const_data_ptr(),
                          Extent(to));
    return to;
  }
  // Bytes between the elements of `to` must not change.
  at::Tensor host = OnHost(to);
  host.copy_(OnHost(from).expand(to.sizes()));
  if (!to.is_cpu()) {
    TheMemory().Copy(to.mutable_data_ptr(), host.const_data_ptr(), Extent(to));
  }
  return to;
}

const at::Tensor& Resize(const at::Tensor& self, at::IntArrayRef size,
                         std::optional<at::MemoryFormat>) {
  const at::Tensor other =
      Empty(size, self.scalar_type(), {}, {}, {}, std::nullopt);
  at::TensorImpl* const tensor = self.unsafeGetTensorImpl();
  if (other.storage().nbytes() > self.storage().nbytes()) {
    TORCH_CHECK(self.numel() == 0, "elements would have to be kept");
    tensor->set_storage_keep_dtype(other.storage());
  }
  tensor->set_sizes_contiguous(size);
  return self;
}

at::Tensor CopyFromAndResize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) Resize(to, from.sizes(), std::nullopt);
  return CopyFrom(from, to, false);
}

void OnProcessor(const c10::OperatorHandle& operation,
                 torch::jit::Stack* stack) {
  at::native::cpu_fallback(operation, stack);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &Empty);
  library.impl("empty_strided", &EmptyStrided);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("resize_", &Resize);
  library.impl("_copy_from", &CopyFrom);
  library.impl("_copy_from_and_resize", &CopyFromAndResize);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&OnProcessor>());
}

}  // namespace

FakeDevice::FakeDevice(const cuda::Device& plugin) {
  c10::SetAllocator(at::kPrivateUse1, &TheAllocator());
  TheMemory().Open(plugin);
}

FakeDevice::~FakeDevice() { TheMemory().Close(); }

}  // namespace hearth::model
