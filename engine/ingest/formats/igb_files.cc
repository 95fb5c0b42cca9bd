#include "engine/ingest/formats/igb_files.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

absl::Status CheckRange(const io::ReadableFile& file, uint64_t size,
                        uint64_t offset, size_t count) {
  if (offset <= size && count <= size - offset) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(file.path(), ": ends at byte ", size));
}

class IdFile final : public io::ReadableFile {
 public:
  IdFile(std::string name, int64_t first, int64_t count,
         std::optional<IdPermutation> order)
      : name_(std::move(name)),
        first_(first),
        size_(static_cast<uint64_t>(count) * sizeof(int64_t)),
        order_(order) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    HEARTH_RETURN_IF_ERROR(CheckRange(*this, size_, offset, out.size()));
    while (!out.empty()) {
      const int64_t position =
          first_ + static_cast<int64_t>(offset / sizeof(int64_t));
      const int64_t id = order_.has_value() ? (*order_)[position] : position;
      const size_t skipped = offset % sizeof(int64_t);
      const size_t count = std::min(out.size(), sizeof(int64_t) - skipped);
      std::memcpy(out.data(), reinterpret_cast<const std::byte*>(&id) + skipped,
                  count);
      out.remove_prefix(count);
      offset += count;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override {
    io::FileInfo info;
    info.size_bytes = size_;
    info.is_regular = true;
    return info;
  }

  const std::string& path() const override { return name_; }

 private:
  const std::string name_;
  const int64_t first_;
  const uint64_t size_;
  const std::optional<IdPermutation> order_;
};

class PaddedFile final : public io::ReadableFile {
 public:
  PaddedFile(std::unique_ptr<io::ReadableFile> file, uint64_t kept_bytes,
             uint64_t size_bytes)
      : file_(std::move(file)), kept_(kept_bytes), size_(size_bytes) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    HEARTH_RETURN_IF_ERROR(CheckRange(*this, size_, offset, out.size()));
    const uint64_t kept = kept_ - std::min(offset, kept_);
    const auto count =
        static_cast<size_t>(std::min<uint64_t>(kept, out.size()));
    if (count > 0) {
      HEARTH_RETURN_IF_ERROR(file_->Read(offset, out.first(count)));
    }
    std::fill(out.begin() + count, out.end(), std::byte{0xFF});
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override {
    HEARTH_ASSIGN_OR_RETURN(io::FileInfo info, file_->Info());
    info.size_bytes = size_;
    return info;
  }

  const std::string& path() const override { return file_->path(); }

 private:
  const std::unique_ptr<io::ReadableFile> file_;
  const uint64_t kept_;
  const uint64_t size_;
};

}  // namespace

std::unique_ptr<io::ReadableFile> NewIdFile(
    std::string name, int64_t first, int64_t count,
    std::optional<IdPermutation> order) {
  return std::make_unique<IdFile>(std::move(name), first, count, order);
}

std::unique_ptr<io::ReadableFile> NewPaddedFile(
    std::unique_ptr<io::ReadableFile> file, uint64_t kept_bytes,
    uint64_t size_bytes) {
  return std::make_unique<PaddedFile>(std::move(file), kept_bytes, size_bytes);
}

}  // namespace hearth::ingest
