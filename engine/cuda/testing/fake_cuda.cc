#include "engine/cuda/testing/fake_cuda.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/cuda/testing/fake_kernels.h"
#include "gtest/gtest.h"

// Pieces of work of a stream are numbered; an event is a stream and the number
// of the last piece before it. Waiting for an event does the stream's work up
// to there, on the waiting thread.

struct HearthCudaStream {
  // The stream that does the work: this stream, or the one that it wraps.
  HearthCudaStream* wrapped = this;
  std::deque<std::function<int()>> work;
  int64_t queued = 0;
  int64_t done = 0;
  // Error of the first work that failed: all later work fails with it.
  int error = 0;
};

struct HearthCudaEvent {
  HearthCudaStream* stream = nullptr;
  int64_t after = 0;
};

namespace hearth::cuda {
namespace {

constexpr int kInvalidValue = 1;
constexpr int kAlreadyRegistered = 712;

struct State {
  absl::Mutex mutex;
  FakeCuda::Work work ABSL_GUARDED_BY(mutex) = FakeCuda::Work::kAtOnce;
  bool exists ABSL_GUARDED_BY(mutex) = false;
  FakeMemory memory ABSL_GUARDED_BY(mutex);
  int64_t peak_device_bytes ABSL_GUARDED_BY(mutex) = 0;
  int64_t streams_and_events ABSL_GUARDED_BY(mutex) = 0;
  int64_t scatters ABSL_GUARDED_BY(mutex) = 0;
  int64_t fail_call ABSL_GUARDED_BY(mutex) = 0;
  int fail_with ABSL_GUARDED_BY(mutex) = 0;
  int64_t fail_work ABSL_GUARDED_BY(mutex) = 0;
  bool failed ABSL_GUARDED_BY(mutex) = false;
};

State& TheState() {
  static auto& state = *new State();
  return state;
}

// Counts a call or piece of work down; true if it is the one to fail.
bool Fails(int64_t& countdown, bool& failed) {
  if (countdown == 0 || --countdown > 0) return false;
  failed = true;
  return true;
}

// Counts a call of a function; returns its error code.
int CallError(State& state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
  return Fails(state.fail_call, state.failed) ? state.fail_with : 0;
}

void RunUntil(State& state, HearthCudaStream& stream, int64_t number)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
  while (stream.done < number) {
    const std::function<int()> work = std::move(stream.work.front());
    stream.work.pop_front();
    ++stream.done;
    if (stream.error != 0) continue;
    stream.error =
        Fails(state.fail_work, state.failed) ? FakeCuda::kFailure : work();
  }
}

int Queue(State& state, HearthCudaStream* stream, std::function<int()> work)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
  if (const int error = CallError(state); error != 0) return error;
  stream = stream->wrapped;
  stream->work.push_back(std::move(work));
  ++stream->queued;
  if (state.work == FakeCuda::Work::kAtOnce) {
    RunUntil(state, *stream, stream->queued);
  }
  return 0;
}

const char* ErrorText(int error) {
  switch (error) {
    case HEARTH_CUDA_OUT_OF_MEMORY:
      return "out of memory";
    case FakeCuda::kFailure:
      return "unspecified launch failure";
    case FakeCuda::kIllegalAddress:
      return "an illegal memory access was encountered";
    case kAlreadyRegistered:
      return "part or all of the requested memory range is already mapped";
    default:
      return "invalid argument";
  }
}

int DeviceCount(int* count) {
  *count = 1;
  return 0;
}

int DeviceName(int device, char* name, size_t size) {
  if (device != 0) return kInvalidValue;
  std::snprintf(name, size, "a fake");
  return 0;
}

int AllocateOf(FakeMemory::Kind kind, int device, size_t bytes, void** memory) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  if (device != 0 || bytes == 0) return kInvalidValue;
  if (const int error = CallError(state); error != 0) return error;
  void* const allocated = state.memory.Allocate(kind, bytes);
  if (allocated == nullptr) return HEARTH_CUDA_OUT_OF_MEMORY;
  *memory = allocated;
  state.peak_device_bytes = std::max(
      state.peak_device_bytes, state.memory.bytes(FakeMemory::Kind::kDevice));
  return 0;
}

int ReleaseOf(FakeMemory::Kind kind, void* memory) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  return state.memory.Release(kind, memory) ? 0 : kInvalidValue;
}

int Allocate(int device, size_t bytes, void** memory) {
  return AllocateOf(FakeMemory::Kind::kDevice, device, bytes, memory);
}

int Release(int /*device*/, void* memory) {
  return ReleaseOf(FakeMemory::Kind::kDevice, memory);
}

int AllocatePinned(int device, size_t bytes, void** memory) {
  return AllocateOf(FakeMemory::Kind::kPinned, device, bytes, memory);
}

int ReleasePinned(int /*device*/, void* memory) {
  return ReleaseOf(FakeMemory::Kind::kPinned, memory);
}

int HostRegister(int device, void* memory, size_t bytes) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  if (device != 0 || bytes == 0) return kInvalidValue;
  if (const int error = CallError(state); error != 0) return error;
  return state.memory.Register(memory, bytes) ? 0 : kAlreadyRegistered;
}

int HostUnregister(int /*device*/, void* memory) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  return state.memory.Unregister(memory) ? 0 : kInvalidValue;
}

// A stream or an event.
template <typename Handle>
int Create(int device, Handle** handle) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  if (device != 0) return kInvalidValue;
  if (const int error = CallError(state); error != 0) return error;
  ++state.streams_and_events;
  *handle = new Handle();
  return 0;
}

int StreamWrap(int device, void* native, HearthCudaStream** stream) {
  const int error = Create(device, stream);
  if (error == 0) (*stream)->wrapped = static_cast<HearthCudaStream*>(native);
  return error;
}

// A wrapper has no work of its own.
int StreamDestroy(HearthCudaStream* stream) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  RunUntil(state, *stream, stream->queued);
  --state.streams_and_events;
  delete stream;
  return 0;
}

int EventDestroy(HearthCudaEvent* event) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  --state.streams_and_events;
  delete event;
  return 0;
}

// Counts a call; if it fails, drops the stream's work: a device on which
// recording or waiting failed does nothing more.
int DropOnFailure(State& state, HearthCudaStream* stream)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(state.mutex) {
  const int error = CallError(state);
  if (error != 0 && stream != nullptr) {
    stream->work.clear();
    stream->done = stream->queued;
  }
  return error;
}

int EventRecord(HearthCudaEvent* event, HearthCudaStream* stream) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  stream = stream->wrapped;
  if (const int error = DropOnFailure(state, stream); error != 0) return error;
  *event = {.stream = stream, .after = stream->queued};
  return 0;
}

int EventSynchronize(HearthCudaEvent* event) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  const int error = DropOnFailure(state, event->stream);
  if (error != 0 || event->stream == nullptr) return error;
  RunUntil(state, *event->stream, event->after);
  return event->stream->error;
}

int StreamWaitEvent(HearthCudaStream* stream, HearthCudaEvent* event) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  return Queue(state, stream, [&state, recorded = *event] {
    state.mutex.AssertHeld();
    if (recorded.stream == nullptr) return 0;
    RunUntil(state, *recorded.stream, recorded.after);
    return recorded.stream->error;
  });
}

int Copy(void* to, const void* from, size_t bytes, HearthCudaStream* stream) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  return Queue(state, stream, [&state, to, from, bytes] {
    state.mutex.AssertHeld();
    void* const target = state.memory.ReachFromCopy(to, bytes);
    const void* const source = state.memory.ReachFromCopy(from, bytes);
    if (target == nullptr || source == nullptr) {
      return FakeCuda::kIllegalAddress;
    }
    std::memcpy(target, source, bytes);
    return 0;
  });
}

int GatherRows(const HearthCudaGather* gather, HearthCudaStream* stream) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  if (gather->count < 0 || gather->dim < 0) return kInvalidValue;
  return Queue(state, stream, [&state, gather = *gather] {
    state.mutex.AssertHeld();
    return RunGather(state.memory, gather) ? 0 : FakeCuda::kIllegalAddress;
  });
}

int ScatterRows(const HearthCudaScatter* scatter, HearthCudaStream* stream) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  for (const HearthCudaScatterPart& part : scatter->parts) {
    if (part.count < 0 || scatter->dim < 0) return kInvalidValue;
  }
  return Queue(state, stream, [&state, scatter = *scatter] {
    state.mutex.AssertHeld();
    ++state.scatters;
    return RunScatter(state.memory, scatter) ? 0 : FakeCuda::kIllegalAddress;
  });
}

// The function of the table that queues a GPU's own kernel, emulated.
template <typename Argument, bool (*kRun)(const FakeMemory&, Argument)>
int QueueKernel(const Argument* argument, HearthCudaStream* stream) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  return Queue(state, stream, [&state, argument = *argument] {
    state.mutex.AssertHeld();
    return kRun(state.memory, argument) ? 0 : FakeCuda::kIllegalAddress;
  });
}

int MemoryInfo(int device, size_t* free_bytes, size_t* total_bytes) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  if (device != 0) return kInvalidValue;
  if (const int error = CallError(state); error != 0) return error;
  const auto taken =
      static_cast<size_t>(state.memory.bytes(FakeMemory::Kind::kDevice));
  *total_bytes = FakeCuda::kTotalBytes;
  *free_bytes = FakeCuda::kTotalBytes - std::min(FakeCuda::kTotalBytes, taken);
  return 0;
}

constexpr HearthCudaTable kTable = {
    .version = HEARTH_CUDA_VERSION,
    .table_bytes = sizeof(HearthCudaTable),
    .error_text = ErrorText,
    .device_count = DeviceCount,
    .device_name = DeviceName,
    .allocate = Allocate,
    .release = Release,
    .stream_create = Create<HearthCudaStream>,
    .stream_destroy = StreamDestroy,
    .event_create = Create<HearthCudaEvent>,
    .event_destroy = EventDestroy,
    .event_record = EventRecord,
    .stream_wait_event = StreamWaitEvent,
    .event_synchronize = EventSynchronize,
    .copy = Copy,
    .gather_rows = GatherRows,
    .scatter_rows = ScatterRows,
    .allocate_pinned = AllocatePinned,
    .release_pinned = ReleasePinned,
    .stream_wrap = StreamWrap,
    .sum_edges = QueueKernel<HearthCudaSum, RunSum>,
    .dot_edges = QueueKernel<HearthCudaDots, RunDots>,
    .score_edges = QueueKernel<HearthCudaScores, RunScores>,
    .softmax_edges = QueueKernel<HearthCudaSoftmax, RunSoftmax>,
    .softmax_gradient = QueueKernel<HearthCudaSoftmax, RunSoftmaxGradient>,
    .score_gradient = QueueKernel<HearthCudaScoreGradient, RunScoreGradient>,
    .activate = QueueKernel<HearthCudaActivate, RunActivate>,
    .activation_gradient =
        QueueKernel<HearthCudaActivate, RunActivationGradient>,
    .memory_info = MemoryInfo,
    .host_register = HostRegister,
    .host_unregister = HostUnregister,
    .fill_table = QueueKernel<HearthCudaFillTable, RunFillTable>,
    .look_up_nodes = QueueKernel<HearthCudaLookUp, RunLookUp>,
    .count_edges = QueueKernel<HearthCudaCountEdges, RunCountEdges>,
    .sample_layer = QueueKernel<HearthCudaSampleLayer, RunSampleLayer>,
};

}  // namespace

FakeCuda::FakeCuda(Work work) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  EXPECT_FALSE(state.exists) << "there is another fake";
  state.exists = true;
  state.work = work;
  state.scatters = 0;
  state.fail_call = 0;
  state.fail_work = 0;
}

FakeCuda::~FakeCuda() {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  EXPECT_EQ(state.memory.bytes(FakeMemory::Kind::kDevice), 0);
  EXPECT_EQ(state.memory.bytes(FakeMemory::Kind::kPinned), 0);
  EXPECT_EQ(state.memory.registered_bytes(), 0);
  EXPECT_EQ(state.streams_and_events, 0);
  state.exists = false;
}

const HearthCudaTable& FakeCuda::table() { return kTable; }

void FakeCuda::FailCall(int64_t nth, int error) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  state.fail_call = nth;
  state.fail_with = error;
  state.failed = false;
}

void FakeCuda::FailWork(int64_t nth) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  state.fail_work = nth;
  state.failed = false;
}

bool FakeCuda::failed() const {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  return state.failed;
}

int64_t FakeCuda::scatters() const {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  return state.scatters;
}

int64_t FakeCuda::TakePeakDeviceBytes() {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  return std::exchange(state.peak_device_bytes,
                       state.memory.bytes(FakeMemory::Kind::kDevice));
}

int64_t FakeCuda::device_bytes() const {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  return state.memory.bytes(FakeMemory::Kind::kDevice);
}

int64_t FakeCuda::pinned_bytes() const {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  return state.memory.bytes(FakeMemory::Kind::kPinned);
}

int64_t FakeCuda::registered_bytes() const {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  return state.memory.registered_bytes();
}

}  // namespace hearth::cuda
