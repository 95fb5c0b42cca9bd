#include "engine/io/joined_device.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hearth::io {
namespace {

class JoinedDevice final : public BlockDevice {
 public:
  explicit JoinedDevice(std::vector<std::unique_ptr<BlockDevice>> parts)
      : parts_(std::move(parts)),
        path_(parts_.front()->path()),
        direct_(parts_.front()->direct()) {
    assert(!parts_.empty());
    for (const auto& part : parts_) {
      alignment_ = std::max(alignment_, part->alignment());
      direct_ = direct_ && part->direct();
    }
    if (parts_.size() > 1) {
      absl::StrAppend(&path_, " and ", parts_.size() - 1, " other files");
    }
  }

  uint64_t size_bytes() const override {
    return JoinedPartOffset(parts_.size() - 1) + parts_.back()->size_bytes();
  }
  uint32_t alignment() const override { return alignment_; }
  bool direct() const override { return direct_; }
  DevicePart PartAt(uint64_t offset) override {
    const size_t part =
        std::min<uint64_t>(offset / JoinedPartOffset(1), parts_.size() - 1);
    return parts_[part]->PartAt(offset - JoinedPartOffset(part));
  }
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

 private:
  const std::vector<std::unique_ptr<BlockDevice>> parts_;
  std::string path_;
  uint32_t alignment_ = 1;
  bool direct_;
};

}  // namespace

std::unique_ptr<BlockDevice> NewJoinedDevice(
    std::vector<std::unique_ptr<BlockDevice>> parts) {
  return std::make_unique<JoinedDevice>(std::move(parts));
}

}  // namespace hearth::io
