#include "engine/io/block_device.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace hearth::io {

namespace {

class MemoryDevice final : public BlockDevice {
 public:
  MemoryDevice(std::string contents, uint32_t alignment, std::string path)
      : contents_(std::move(contents)),
        alignment_(alignment),
        path_(std::move(path)) {}

  uint64_t size_bytes() const override { return contents_.size(); }
  uint32_t alignment() const override { return alignment_; }
  bool direct() const override { return alignment_ > 1; }
  const std::string& path() const override { return path_; }
  int descriptor() const override { return -1; }

  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) override {
    const auto address = reinterpret_cast<uintptr_t>(out.data());
    if ((offset | out.size() | address) % alignment_ != 0) return -EINVAL;
    if (offset >= contents_.size()) return 0;
    const size_t count = std::min(out.size(), contents_.size() - offset);
    std::memcpy(out.data(), contents_.data() + offset, count);
    return static_cast<ssize_t>(count);
  }

 private:
  const std::string contents_;
  const uint32_t alignment_;
  const std::string path_;
};

/// A device that is made of others, its parts. Subclasses define which part an
/// offset lies in (PartAt), and the size of the whole.
class CompositeDevice : public BlockDevice {
 public:
  /// The largest alignment of the parts.
  uint32_t alignment() const override { return alignment_; }
  /// Whether all parts are direct.
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

  // Offset on the device behind the last byte of a file.
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

std::unique_ptr<BlockDevice> NewMemoryDevice(std::string contents,
                                             uint32_t alignment,
                                             std::string path) {
  return std::make_unique<MemoryDevice>(std::move(contents), alignment,
                                        std::move(path));
}

std::unique_ptr<BlockDevice> NewJoinedDevice(
    std::vector<std::unique_ptr<BlockDevice>> parts) {
  return std::make_unique<JoinedDevice>(std::move(parts));
}

std::unique_ptr<BlockDevice> NewStripedDevice(
    std::vector<std::unique_ptr<BlockDevice>> files, uint64_t stripe_bytes) {
  return std::make_unique<StripedDevice>(std::move(files), stripe_bytes);
}

}  // namespace hearth::io
