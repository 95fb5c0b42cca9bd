#ifndef HEARTH_ENGINE_IO_COMPOSITE_DEVICE_H_
#define HEARTH_ENGINE_IO_COMPOSITE_DEVICE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/io/block_device.h"

namespace hearth::io {

/// A device that is made of others. Subclasses tell which of them an offset
/// lies in (PartAt), and how large all are together.
class CompositeDevice : public BlockDevice {
 public:
  /// The largest alignment of the parts.
  uint32_t alignment() const override { return alignment_; }
  /// Whether all parts are.
  bool direct() const override { return direct_; }
  std::vector<BlockDevice*> Files() override {
    std::vector<BlockDevice*> files;
    for (const auto& part : parts_) {
      const std::vector<BlockDevice*> own = part->Files();
      files.insert(files.end(), own.begin(), own.end());
    }
    return files;
  }
  const std::string& path() const override { return path_; }
  int descriptor() const override { return -1; }
  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) override {
    const DevicePart part = PartAt(offset);
    return part.device->ReadOnce(part.offset, out);
  }

 protected:
  /// REQUIRES: there is a part.
  explicit CompositeDevice(std::vector<std::unique_ptr<BlockDevice>> parts)
      : parts_(std::move(parts)), path_(parts_.front()->path()) {
    for (const auto& part : parts_) {
      alignment_ = std::max(alignment_, part->alignment());
      direct_ = direct_ && part->direct();
    }
    if (parts_.size() > 1) {
      absl::StrAppend(&path_, " and ", parts_.size() - 1, " other files");
    }
  }

  const std::vector<std::unique_ptr<BlockDevice>>& parts() const {
    return parts_;
  }

 private:
  const std::vector<std::unique_ptr<BlockDevice>> parts_;
  std::string path_;
  uint32_t alignment_ = 1;
  bool direct_ = true;
};

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_COMPOSITE_DEVICE_H_
