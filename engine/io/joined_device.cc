#include "engine/io/joined_device.h"

#include <algorithm>
#include <utility>

#include "engine/io/composite_device.h"

namespace hearth::io {
namespace {

class JoinedDevice final : public CompositeDevice {
 public:
  explicit JoinedDevice(std::vector<std::unique_ptr<BlockDevice>> parts)
      : CompositeDevice(std::move(parts)) {}

  uint64_t size_bytes() const override {
    return JoinedPartOffset(parts().size() - 1) + parts().back()->size_bytes();
  }
  DevicePart PartAt(uint64_t offset) override {
    const size_t part =
        std::min<uint64_t>(offset / JoinedPartOffset(1), parts().size() - 1);
    return parts()[part]->PartAt(offset - JoinedPartOffset(part));
  }
};

}  // namespace

std::unique_ptr<BlockDevice> NewJoinedDevice(
    std::vector<std::unique_ptr<BlockDevice>> parts) {
  return std::make_unique<JoinedDevice>(std::move(parts));
}

}  // namespace hearth::io
