#include "engine/ingest/export/unpacked_labels.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/store/labels.h"

namespace hearth::ingest {
namespace {

// Rows that are read at a time.
constexpr uint64_t kBlockBytes = 256 << 10;

class UnpackedLabels final : public io::ReadableFile {
 public:
  UnpackedLabels(std::unique_ptr<io::ReadableFile> bits, uint64_t offset,
                 int64_t num_rows, int64_t width, bool partial)
      : bits_(std::move(bits)),
        offset_(offset),
        num_rows_(static_cast<uint64_t>(num_rows)),
        width_(width),
        partial_(partial) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    const uint64_t size = num_rows_ * RowBytes();
    if (offset > size || out.size() > size - offset) {
      return absl::DataLossError(absl::StrCat(path(), ": ends at byte ", size));
    }
    const uint64_t block_rows = std::max<uint64_t>(1, kBlockBytes / BitBytes());
    std::vector<std::byte> bits;
    while (!out.empty()) {
      const uint64_t row = offset / RowBytes();
      const uint64_t skipped = offset % RowBytes();
      const uint64_t rows = std::min(
          block_rows, (skipped + out.size() + RowBytes() - 1) / RowBytes());
      bits.resize(rows * BitBytes());
      HEARTH_RETURN_IF_ERROR(
          bits_->Read(offset_ + row * BitBytes(), absl::MakeSpan(bits)));
      const auto part = out.first(
          std::min<uint64_t>(out.size(), rows * RowBytes() - skipped));
      Unpack(bits, skipped, part);
      offset += part.size();
      out.remove_prefix(part.size());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override {
    HEARTH_ASSIGN_OR_RETURN(io::FileInfo info, bits_->Info());
    info.size_bytes = num_rows_ * RowBytes();
    return info;
  }

  const std::string& path() const override { return bits_->path(); }

 private:
  uint64_t RowBytes() const {
    return static_cast<uint64_t>(width_) * sizeof(float);
  }
  uint64_t BitBytes() const {
    return static_cast<uint64_t>(store::MultiLabelRowBytes(width_, partial_));
  }

  /// The bytes of rows from byte `at` of the first of them on.
  void Unpack(const std::vector<std::byte>& bits, uint64_t at,
              absl::Span<std::byte> out) const {
    while (!out.empty()) {
      const auto* row = reinterpret_cast<const uint8_t*>(
          bits.data() + at / RowBytes() * BitBytes());
      const auto column = static_cast<int64_t>(at % RowBytes() / sizeof(float));
      float value = store::HasBit(row, column) ? 1 : 0;
      const uint8_t* known = row + store::MultiLabelRowBytes(width_);
      if (!store::HasBit(row, width_) ||
          (partial_ && !store::HasBit(known, column))) {
        value = std::numeric_limits<float>::quiet_NaN();
      }
      const size_t skipped = at % sizeof(float);
      const size_t count = std::min(out.size(), sizeof(float) - skipped);
      std::memcpy(out.data(), reinterpret_cast<const char*>(&value) + skipped,
                  count);
      at += count;
      out.remove_prefix(count);
    }
  }

  const std::unique_ptr<io::ReadableFile> bits_;
  const uint64_t offset_;
  const uint64_t num_rows_;
  const int64_t width_;
  const bool partial_;
};

}  // namespace

std::unique_ptr<io::ReadableFile> NewUnpackedLabels(
    std::unique_ptr<io::ReadableFile> bits, uint64_t offset, int64_t num_rows,
    int64_t width, bool partial) {
  return std::make_unique<UnpackedLabels>(std::move(bits), offset, num_rows,
                                          width, partial);
}

}  // namespace hearth::ingest
