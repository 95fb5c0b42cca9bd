#include "engine/io/memory_device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

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

}  // namespace

std::unique_ptr<BlockDevice> NewMemoryDevice(std::string contents,
                                             uint32_t alignment,
                                             std::string path) {
  return std::make_unique<MemoryDevice>(std::move(contents), alignment,
                                        std::move(path));
}

}  // namespace hearth::io
