#include "engine/cuda/stream.h"

#include "engine/base/status.h"

namespace hearth::cuda {

absl::StatusOr<std::unique_ptr<Event>> Event::Create(const Device& device) {
  std::unique_ptr<Event> made(new Event(device));
  HEARTH_RETURN_IF_ERROR(
      ToStatus(device, device.table->event_create(device.number, &made->event_),
               "making an event"));
  return made;
}

Event::~Event() {
  if (event_ != nullptr) (void)device_.table->event_destroy(event_);
}

absl::Status Event::Wait() {
  return ToStatus(device_, device_.table->event_synchronize(event_),
                  "waiting for an event");
}

absl::StatusOr<std::unique_ptr<Stream>> Stream::Create(const Device& device) {
  std::unique_ptr<Stream> made(new Stream(device));
  HEARTH_RETURN_IF_ERROR(ToStatus(
      device, device.table->stream_create(device.number, &made->stream_),
      "making a stream"));
  HEARTH_RETURN_IF_ERROR(made->MakeEvent());
  return made;
}

absl::StatusOr<std::unique_ptr<Stream>> Stream::Wrap(const Device& device,
                                                     void* native) {
  std::unique_ptr<Stream> made(new Stream(device));
  HEARTH_RETURN_IF_ERROR(ToStatus(
      device, device.table->stream_wrap(device.number, native, &made->stream_),
      "wrapping a stream"));
  HEARTH_RETURN_IF_ERROR(made->MakeEvent());
  return made;
}

absl::Status Stream::MakeEvent() {
  return ToStatus(device_, device_.table->event_create(device_.number, &event_),
                  "making an event");
}

Stream::~Stream() {
  // Errors are dropped here: a destructor has nobody to report them to.
  if (event_ != nullptr) {
    Wait().IgnoreError();
    (void)device_.table->event_destroy(event_);
  }
  if (stream_ != nullptr) (void)device_.table->stream_destroy(stream_);
}

absl::Status Stream::Copy(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return ToStatus(device_, device_.table->copy(to, from, bytes, stream_),
                  "copying");
}

absl::Status Stream::Gather(const HearthCudaGather& gather) {
  return ToStatus(device_, device_.table->gather_rows(&gather, stream_),
                  "gathering rows");
}

absl::Status Stream::Scatter(const HearthCudaScatter& scatter) {
  return ToStatus(device_, device_.table->scatter_rows(&scatter, stream_),
                  "scattering rows");
}

absl::Status Stream::SumEdges(const HearthCudaSum& sum) {
  return ToStatus(device_, device_.table->sum_edges(&sum, stream_),
                  "summing along edges");
}

absl::Status Stream::DotEdges(const HearthCudaDots& dots) {
  return ToStatus(device_, device_.table->dot_edges(&dots, stream_),
                  "multiplying along edges");
}

absl::Status Stream::ScoreEdges(const HearthCudaScores& scores) {
  return ToStatus(device_, device_.table->score_edges(&scores, stream_),
                  "scoring edges");
}

absl::Status Stream::SoftmaxEdges(const HearthCudaSoftmax& softmax) {
  return ToStatus(device_, device_.table->softmax_edges(&softmax, stream_),
                  "the softmax of edges");
}

absl::Status Stream::SoftmaxGradient(const HearthCudaSoftmax& softmax) {
  return ToStatus(device_, device_.table->softmax_gradient(&softmax, stream_),
                  "the gradient of a softmax");
}

absl::Status Stream::ScoreGradient(const HearthCudaScoreGradient& gradient) {
  return ToStatus(device_, device_.table->score_gradient(&gradient, stream_),
                  "the gradient of scores");
}

absl::Status Stream::Activate(const HearthCudaActivate& activate) {
  return ToStatus(device_, device_.table->activate(&activate, stream_),
                  "activating rows");
}

absl::Status Stream::ActivationGradient(const HearthCudaActivate& activate) {
  return ToStatus(device_,
                  device_.table->activation_gradient(&activate, stream_),
                  "the gradient of an activation");
}

absl::Status Stream::FillTable(const HearthCudaFillTable& fill) {
  return ToStatus(device_, device_.table->fill_table(&fill, stream_),
                  "filling a table of nodes");
}

absl::Status Stream::LookUpNodes(const HearthCudaLookUp& look_up) {
  return ToStatus(device_, device_.table->look_up_nodes(&look_up, stream_),
                  "looking up nodes");
}

absl::Status Stream::CountEdges(const HearthCudaCountEdges& count) {
  return ToStatus(device_, device_.table->count_edges(&count, stream_),
                  "counting edges");
}

absl::Status Stream::SampleLayer(const HearthCudaSampleLayer& layer) {
  return ToStatus(device_, device_.table->sample_layer(&layer, stream_),
                  "sampling a layer");
}

absl::Status Stream::Record(Event& event) {
  return ToStatus(device_, device_.table->event_record(event.event_, stream_),
                  "recording an event");
}

absl::Status Stream::WaitFor(const Event& event) {
  return ToStatus(device_,
                  device_.table->stream_wait_event(stream_, event.event_),
                  "having a stream wait");
}

absl::Status Stream::Wait() {
  HEARTH_RETURN_IF_ERROR(ToStatus(device_,
                                  device_.table->event_record(event_, stream_),
                                  "recording an event"));
  return ToStatus(device_, device_.table->event_synchronize(event_),
                  "waiting for a stream");
}

}  // namespace hearth::cuda
