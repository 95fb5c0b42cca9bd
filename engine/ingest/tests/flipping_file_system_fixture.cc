#include "engine/ingest/tests/flipping_file_system_fixture.h"

#include <cstddef>
#include <utility>

#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/testing/faults.h"

namespace hearth::ingest {
namespace {

class FlippingFile final : public io::ReadableFile {
 public:
  FlippingFile(std::unique_ptr<io::ReadableFile> base, uint64_t offset)
      : base_(std::move(base)), offset_(offset) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    HEARTH_RETURN_IF_ERROR(base_->Read(offset, out));
    if (offset <= offset_ && offset_ - offset < out.size()) {
      out[offset_ - offset] ^= std::byte{1} << offset_ % 8;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override { return base_->Info(); }
  const std::string& path() const override { return base_->path(); }

 private:
  const std::unique_ptr<io::ReadableFile> base_;
  const uint64_t offset_;
};

class FlippingDevice final : public io::InterceptingDevice {
 public:
  FlippingDevice(std::unique_ptr<io::BlockDevice> base, uint64_t offset)
      : InterceptingDevice(std::move(base)), offset_(offset) {}

  ssize_t ReadOnce(uint64_t offset, absl::Span<std::byte> out) override {
    const ssize_t count = base().ReadOnce(offset, out);
    if (offset <= offset_ && static_cast<ssize_t>(offset_ - offset) < count) {
      out[offset_ - offset] ^= std::byte{1} << offset_ % 8;
    }
    return count;
  }

 private:
  const uint64_t offset_;
};

}  // namespace

void FlippingFileSystem::Flip(const std::string& path, uint64_t offset) {
  path_ = path;
  offset_ = offset;
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>>
FlippingFileSystem::OpenForRead(const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          base().OpenForRead(path));
  if (path != path_) return file;
  return std::make_unique<FlippingFile>(std::move(file), offset_);
}

absl::StatusOr<std::unique_ptr<io::ReadableFile>>
FlippingFileSystem::OpenForScan(const std::string& path) {
  return OpenForRead(path);
}

absl::StatusOr<std::unique_ptr<io::BlockDevice>>
FlippingFileSystem::OpenBlockDevice(const std::string& path,
                                    const io::BlockDeviceOptions& options) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::BlockDevice> device,
                          base().OpenBlockDevice(path, options));
  if (path != path_) return device;
  return std::make_unique<FlippingDevice>(std::move(device), offset_);
}

}  // namespace hearth::ingest
