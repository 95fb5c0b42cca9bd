#include "engine/io/striped_device.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "engine/io/composite_device.h"

namespace hearth::io {
namespace {

class StripedDevice final : public CompositeDevice {
 public:
  StripedDevice(std::vector<std::unique_ptr<BlockDevice>> files,
                uint64_t stripe_bytes)
      : CompositeDevice(std::move(files)), stripe_bytes_(stripe_bytes) {
    assert(stripe_bytes_ > 0);
    assert(stripe_bytes_ % alignment() == 0);
    for (size_t file = 0; file < parts().size(); ++file) {
      size_bytes_ = std::max(size_bytes_, EndOf(file));
    }
  }

  uint64_t size_bytes() const override { return size_bytes_; }
  DevicePart PartAt(uint64_t offset) override {
    const uint64_t stripe = offset / pitch();
    return {parts()[stripe % parts().size()].get(),
            stripe / parts().size() * stripe_bytes_ + offset % pitch()};
  }

 private:
  uint64_t pitch() const { return stripe_bytes_ + kStripeGapBytes; }

  // Where the last byte of a file lies on the device, and one.
  uint64_t EndOf(size_t file) const {
    const uint64_t size = parts()[file]->size_bytes();
    if (size == 0) return 0;
    const uint64_t last = (size - 1) / stripe_bytes_;
    return (last * parts().size() + file) * pitch() +
           (size - last * stripe_bytes_);
  }

  const uint64_t stripe_bytes_;
  uint64_t size_bytes_ = 0;
};

}  // namespace

std::unique_ptr<BlockDevice> NewStripedDevice(
    std::vector<std::unique_ptr<BlockDevice>> files, uint64_t stripe_bytes) {
  return std::make_unique<StripedDevice>(std::move(files), stripe_bytes);
}

}  // namespace hearth::io
