#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <new>

#include "kernels/cuda/hearth_cuda.h"
#include "kernels/cuda/kernels.cuh"

struct HearthCudaStream {
  int device;
  cudaStream_t stream;
  // Whether the stream was made here, and not wrapped.
  bool owned;
};

struct HearthCudaEvent {
  int device;
  cudaEvent_t event;
};

namespace hearth::kernels {
namespace {

// Makes `device` the calling thread's current one for as long as it lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) {
    error_ = cudaGetDevice(&previous_);
    if (error_ == cudaSuccess) error_ = cudaSetDevice(device);
  }
  ~CurrentDevice() {
    if (error_ == cudaSuccess) cudaSetDevice(previous_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

  // Error of making the device current.
  cudaError_t error() const { return error_; }

 private:
  int previous_ = 0;
  cudaError_t error_;
};

// Calls `function` with `device` current.
template <typename F>
int On(int device, const F& function) {
  const CurrentDevice current(device);
  return current.error() == cudaSuccess ? function() : current.error();
}

const char* ErrorText(int error) {
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

int DeviceCount(int* count) { return cudaGetDeviceCount(count); }

int DeviceName(int device, char* name, size_t size) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) std::snprintf(name, size, "%s", properties.name);
  return error;
}

int Allocate(int device, size_t bytes, void** memory) {
  return On(device, [&] { return cudaMalloc(memory, bytes); });
}

int Release(int device, void* memory) {
  return On(device, [&] { return cudaFree(memory); });
}

int StreamCreate(int device, HearthCudaStream** stream) {
  auto* created = new (std::nothrow) HearthCudaStream{device, nullptr, true};
  if (created == nullptr) return cudaErrorMemoryAllocation;
  // Not synchronized with the default stream, which would hide a wait.
  const int error = On(device, [&] {
    return cudaStreamCreateWithFlags(&created->stream, cudaStreamNonBlocking);
  });
  if (error != cudaSuccess) {
    delete created;
    return error;
  }
  *stream = created;
  return cudaSuccess;
}

int StreamDestroy(HearthCudaStream* stream) {
  int error = cudaSuccess;
  if (stream->owned) {
    error =
        On(stream->device, [&] { return cudaStreamDestroy(stream->stream); });
  }
  delete stream;
  return error;
}

int StreamWrap(int device, void* native, HearthCudaStream** stream) {
  auto* wrapped = new (std::nothrow)
      HearthCudaStream{device, static_cast<cudaStream_t>(native), false};
  if (wrapped == nullptr) return cudaErrorMemoryAllocation;
  *stream = wrapped;
  return cudaSuccess;
}

int EventCreate(int device, HearthCudaEvent** event) {
  auto* created = new (std::nothrow) HearthCudaEvent{device, nullptr};
  if (created == nullptr) return cudaErrorMemoryAllocation;
  const int error = On(device, [&] {
    return cudaEventCreateWithFlags(&created->event, cudaEventDisableTiming);
  });
  if (error != cudaSuccess) {
    delete created;
    return error;
  }
  *event = created;
  return cudaSuccess;
}

int EventDestroy(HearthCudaEvent* event) {
  const int error =
      On(event->device, [&] { return cudaEventDestroy(event->event); });
  delete event;
  return error;
}

int EventRecord(HearthCudaEvent* event, HearthCudaStream* stream) {
  return On(stream->device,
            [&] { return cudaEventRecord(event->event, stream->stream); });
}

int StreamWaitEvent(HearthCudaStream* stream, HearthCudaEvent* event) {
  return On(stream->device, [&] {
    return cudaStreamWaitEvent(stream->stream, event->event, 0);
  });
}

int EventSynchronize(HearthCudaEvent* event) {
  return On(event->device, [&] { return cudaEventSynchronize(event->event); });
}

int Copy(void* to, const void* from, size_t bytes, HearthCudaStream* stream) {
  return On(stream->device, [&] {
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream->stream);
  });
}

// The function of the table that queues the work of `kLaunch`.
template <typename Argument,
          cudaError_t (*kLaunch)(const Argument&, cudaStream_t)>
int Queue(const Argument* argument, HearthCudaStream* stream) {
  return On(stream->device, [&] { return kLaunch(*argument, stream->stream); });
}

int AllocatePinned(int device, size_t bytes, void** memory) {
  return On(device,
            [&] { return cudaHostAlloc(memory, bytes, cudaHostAllocMapped); });
}

int ReleasePinned(int device, void* memory) {
  return On(device, [&] { return cudaFreeHost(memory); });
}

int MemoryInfo(int device, size_t* free_bytes, size_t* total_bytes) {
  return On(device, [&] { return cudaMemGetInfo(free_bytes, total_bytes); });
}

// Fails where a GPU sees the memory at another address.
int HostRegister(int device, void* memory, size_t bytes) {
  return On(device, [&] {
    cudaError_t error = cudaHostRegister(memory, bytes, cudaHostRegisterMapped);
    if (error != cudaSuccess) return error;
    void* seen = nullptr;
    error = cudaHostGetDevicePointer(&seen, memory, 0);
    if (error == cudaSuccess && seen != memory) error = cudaErrorNotSupported;
    if (error != cudaSuccess) cudaHostUnregister(memory);
    return error;
  });
}

int HostUnregister(int device, void* memory) {
  return On(device, [&] { return cudaHostUnregister(memory); });
}

static_assert(HEARTH_CUDA_OUT_OF_MEMORY == cudaErrorMemoryAllocation);

constexpr HearthCudaTable kTable = {
    .version = HEARTH_CUDA_VERSION,
    .table_bytes = sizeof(HearthCudaTable),
    .error_text = ErrorText,
    .device_count = DeviceCount,
    .device_name = DeviceName,
    .allocate = Allocate,
    .release = Release,
    .stream_create = StreamCreate,
    .stream_destroy = StreamDestroy,
    .event_create = EventCreate,
    .event_destroy = EventDestroy,
    .event_record = EventRecord,
    .stream_wait_event = StreamWaitEvent,
    .event_synchronize = EventSynchronize,
    .copy = Copy,
    .gather_rows = Queue<HearthCudaGather, LaunchGather>,
    .scatter_rows = Queue<HearthCudaScatter, LaunchScatter>,
    .allocate_pinned = AllocatePinned,
    .release_pinned = ReleasePinned,
    .stream_wrap = StreamWrap,
    .sum_edges = Queue<HearthCudaSum, LaunchSum>,
    .dot_edges = Queue<HearthCudaDots, LaunchDots>,
    .score_edges = Queue<HearthCudaScores, LaunchScores>,
    .softmax_edges = Queue<HearthCudaSoftmax, LaunchSoftmax>,
    .softmax_gradient = Queue<HearthCudaSoftmax, LaunchSoftmaxGradient>,
    .score_gradient = Queue<HearthCudaScoreGradient, LaunchScoreGradient>,
    .activate = Queue<HearthCudaActivate, LaunchActivate>,
    .activation_gradient = Queue<HearthCudaActivate, LaunchActivationGradient>,
    .memory_info = MemoryInfo,
    .host_register = HostRegister,
    .host_unregister = HostUnregister,
    .fill_table = Queue<HearthCudaFillTable, LaunchFillTable>,
    .look_up_nodes = Queue<HearthCudaLookUp, LaunchLookUp>,
    .count_edges = Queue<HearthCudaCountEdges, LaunchCountEdges>,
    .sample_layer = Queue<HearthCudaSampleLayer, LaunchSampleLayer>,
};

}  // namespace
}  // namespace hearth::kernels

extern "C" __attribute__((visibility("default"))) const HearthCudaTable*
hearth_cuda_table(uint32_t version) {
  return version == HEARTH_CUDA_VERSION ? &hearth::kernels::kTable : nullptr;
}
