#include "engine/io/striped_device.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hearth::io {
namespace {

class StripedDevice final : public BlockDevice {
 public:
  StripedDevice(std::vector<std::unique_ptr<BlockDevice>> files,
                uint64_t stripe_bytes)
      : files_(std::move(files)),
        stripe_bytes_(stripe_bytes),
        path_(files_.front()->path()),
        direct_(files_.front()->direct()) {
    assert(stripe_bytes_ > 0);
    for (size_t file = 0; file < files_.size(); ++file) {
      alignment_ = std::max(alignment_, files_[file]->alignment());
      direct_ = direct_ && files_[file]->direct();
      size_bytes_ = std::max(size_bytes_, EndOf(file));
    }
    assert(stripe_bytes_ % alignment_ == 0);
    if (files_.size() > 1) {
      absl::StrAppend(&path_, " and ", files_.size() - 1, " other files");
    }
  }

  uint64_t size_bytes() const override { return size_bytes_; }
  uint32_t alignment() const override { return alignment_; }
  bool direct() const override { return direct_; }
  DevicePart PartAt(uint64_t offset) override {
    const uint64_t stripe = offset / pitch();
    return {files_[stripe % files_.size()].get(),
            stripe / files_.size() * stripe_bytes_ + offset % pitch()};
  }
  std::vector<BlockDevice*> Files() override {
    std::vector<BlockDevice*> files;
    for (const auto& file : files_) files.push_back(file.get());
    return files;
  }
  const std::string& path() const override { return path_; }
  int descriptor() const override { return -1; }
  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) override {
    const DevicePart part = PartAt(offset);
    return part.device->ReadOnce(part.offset, out);
  }

 private:
  uint64_t pitch() const { return stripe_bytes_ + kStripeGapBytes; }

  // Where the last byte of a file lies on the device, and one.
  uint64_t EndOf(size_t file) const {
    const uint64_t size = files_[file]->size_bytes();
    if (size == 0) return 0;
    const uint64_t last = (size - 1) / stripe_bytes_;
    return (last * files_.size() + file) * pitch() +
           (size - last * stripe_bytes_);
  }

  const std::vector<std::unique_ptr<BlockDevice>> files_;
  const uint64_t stripe_bytes_;
  std::string path_;
  uint32_t alignment_ = 1;
  bool direct_;
  uint64_t size_bytes_ = 0;
};

}  // namespace

std::unique_ptr<BlockDevice> NewStripedDevice(
    std::vector<std::unique_ptr<BlockDevice>> files, uint64_t stripe_bytes) {
  return std::make_unique<StripedDevice>(std::move(files), stripe_bytes);
}

}  // namespace hearth::io
