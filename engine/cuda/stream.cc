#include "engine/cuda/stream.h"

#include "engine/base/status_macros.h"

namespace hearth::cuda {

absl::StatusOr<std::unique_ptr<Stream>> Stream::Create(const Device& device) {
  std::unique_ptr<Stream> made(new Stream(device));
  HEARTH_RETURN_IF_ERROR(ToStatus(
      device, device.table->stream_create(device.number, &made->stream_),
      "making a stream"));
  HEARTH_RETURN_IF_ERROR(
      ToStatus(device, device.table->event_create(device.number, &made->event_),
               "making an event"));
  return made;
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

absl::Status Stream::Scatter(const HearthCudaScatter& scatter) {
  return ToStatus(device_, device_.table->scatter_rows(&scatter, stream_),
                  "scattering rows");
}

absl::Status Stream::Wait() {
  HEARTH_RETURN_IF_ERROR(ToStatus(device_,
                                  device_.table->event_record(event_, stream_),
                                  "recording an event"));
  return ToStatus(device_, device_.table->event_synchronize(event_),
                  "waiting for a stream");
}

}  // namespace hearth::cuda
