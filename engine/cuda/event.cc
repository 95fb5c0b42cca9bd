#include "engine/cuda/event.h"

#include "engine/base/status_macros.h"

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

}  // namespace hearth::cuda
