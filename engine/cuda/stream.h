#ifndef HEARTH_ENGINE_CUDA_STREAM_H_
#define HEARTH_ENGINE_CUDA_STREAM_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cuda/device.h"
#include "kernels/cuda/hearth_cuda.h"

namespace hearth::cuda {

/// A point in the work of a stream, set by Stream::Record, which replaces an
/// earlier point. Streams (Stream::WaitFor) and the host can wait for it. An
/// event that was never recorded has passed. Used by one thread at a time.
class Event {
 public:
  static absl::StatusOr<std::unique_ptr<Event>> Create(const Device& device);

  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  /// Does not wait.
  ~Event();

  /// Blocks until the event has passed. INTERNAL if the device fails.
  absl::Status Wait();

 private:
  friend class Stream;

  explicit Event(const Device& device) : device_(device) {}

  const Device device_;
  HearthCudaEvent* event_ = nullptr;
};

/// Work for a device, done in order, at the same time as the work of other
/// streams. Memory that queued work refers to stays unchanged until Wait
/// returns. All functions return INTERNAL if the device fails, perhaps in
/// earlier work. Used by one thread at a time.
class Stream {
 public:
  static absl::StatusOr<std::unique_ptr<Stream>> Create(const Device& device);

  /// Wraps `native`, a stream that somebody else made with the CUDA runtime and
  /// that outlives this.
  static absl::StatusOr<std::unique_ptr<Stream>> Wrap(const Device& device,
                                                      void* native);

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Waits for the queued work.
  ~Stream();

  /// Queues a copy from host or device to host or device.
  absl::Status Copy(void* to, const void* from, uint64_t bytes);

  /// Queues a gather.
  absl::Status Gather(const HearthCudaGather& gather);

  /// Queues a scatter.
  absl::Status Scatter(const HearthCudaScatter& scatter);

  /// Queue the operations of models on a GPU, as the functions of the table
  /// with the same names.
  absl::Status SumEdges(const HearthCudaSum& sum);
  absl::Status DotEdges(const HearthCudaDots& dots);
  absl::Status ScoreEdges(const HearthCudaScores& scores);
  absl::Status SoftmaxEdges(const HearthCudaSoftmax& softmax);
  absl::Status SoftmaxGradient(const HearthCudaSoftmax& softmax);
  absl::Status ScoreGradient(const HearthCudaScoreGradient& gradient);
  absl::Status Activate(const HearthCudaActivate& activate);
  absl::Status ActivationGradient(const HearthCudaActivate& activate);

  /// Queue the steps of sampling a batch, as the functions of the table with
  /// the same names.
  absl::Status FillTable(const HearthCudaFillTable& fill);
  absl::Status LookUpNodes(const HearthCudaLookUp& look_up);
  absl::Status CountEdges(const HearthCudaCountEdges& count);
  absl::Status SampleLayer(const HearthCudaSampleLayer& layer);

  /// Makes `event` pass once all work queued so far is done.
  absl::Status Record(Event& event);

  /// Queues a wait until `event`, as recorded now, has passed.
  absl::Status WaitFor(const Event& event);

  /// Blocks until all queued work is done.
  absl::Status Wait();

 private:
  explicit Stream(const Device& device) : device_(device) {}

  absl::Status MakeEvent();

  const Device device_;
  HearthCudaStream* stream_ = nullptr;
  HearthCudaEvent* event_ = nullptr;
};

}  // namespace hearth::cuda

#endif  // HEARTH_ENGINE_CUDA_STREAM_H_
