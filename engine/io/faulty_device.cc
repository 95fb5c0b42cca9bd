#include "engine/io/faulty_device.h"

#include <algorithm>

namespace hearth::io {

void FaultyDevice::Inject(const DeviceFault& fault) {
  const absl::MutexLock lock(&mutex_);
  fault_ = fault;
  attempts_ = 0;
  hits_ = 0;
  released_ = false;
}

void FaultyDevice::Release() {
  const absl::MutexLock lock(&mutex_);
  released_ = true;
  changed_.SignalAll();
}

void FaultyDevice::WaitUntilHeld(int64_t count) {
  const absl::MutexLock lock(&mutex_);
  while (held_ < count) changed_.Wait(&mutex_);
}

int64_t FaultyDevice::attempts() const {
  const absl::MutexLock lock(&mutex_);
  return attempts_;
}

int64_t FaultyDevice::hits() const {
  const absl::MutexLock lock(&mutex_);
  return hits_;
}

std::optional<DeviceFault> FaultyDevice::Arrive() {
  const absl::MutexLock lock(&mutex_);
  ++attempts_;
  if (!fault_.has_value() || attempts_ < fault_->nth) return std::nullopt;
  if (attempts_ > fault_->nth && !fault_->for_good) return std::nullopt;
  ++hits_;
  return fault_;
}

void FaultyDevice::Hold() {
  const absl::MutexLock lock(&mutex_);
  ++held_;
  changed_.SignalAll();
  while (!released_) changed_.Wait(&mutex_);
  --held_;
}

ssize_t FaultyDevice::ReadOnce(uint64_t offset, absl::Span<std::byte> out) {
  const std::optional<DeviceFault> fault = Arrive();
  if (!fault.has_value()) return base_.ReadOnce(offset, out);
  switch (fault->effect) {
    case DeviceFault::Effect::kFail:
      return -fault->error;
    case DeviceFault::Effect::kHold:
      Hold();
      return base_.ReadOnce(offset, out);
    case DeviceFault::Effect::kShorten:
      break;
  }
  const ssize_t count = base_.ReadOnce(offset, out);
  return std::min(count, static_cast<ssize_t>(fault->bytes));
}

}  // namespace hearth::io
