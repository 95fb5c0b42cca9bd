#include "engine/ingest/generate/computed_file.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace hearth::ingest {
namespace {

class ComputedFile : public io::ReadableFile {
 public:
  ComputedFile(std::unique_ptr<const ComputedItems> items, std::string path)
      : items_(std::move(items)),
        path_(std::move(path)),
        item_bytes_(static_cast<uint64_t>(items_->item_bytes())),
        size_bytes_(static_cast<uint64_t>(items_->num_items()) * item_bytes_) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    if (offset > size_bytes_ || out.size() > size_bytes_ - offset) {
      return absl::DataLossError(absl::StrCat(path_, ": ends at byte ",
                                              size_bytes_, ", not ",
                                              offset + out.size()));
    }
    if (out.empty()) return absl::OkStatus();
    // The ends may be within items.
    const uint64_t skipped = offset % item_bytes_;
    if (skipped != 0) {
      const size_t count = std::min<size_t>(out.size(), item_bytes_ - skipped);
      CopyPart(offset / item_bytes_, skipped, out.first(count));
      offset += count;
      out.remove_prefix(count);
    }
    const size_t whole = out.size() - out.size() % item_bytes_;
    if (whole > 0) {
      items_->Compute(static_cast<int64_t>(offset / item_bytes_),
                      out.first(whole));
      offset += whole;
      out.remove_prefix(whole);
    }
    if (!out.empty()) CopyPart(offset / item_bytes_, 0, out);
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override {
    io::FileInfo info;
    info.size_bytes = size_bytes_;
    info.modified = absl::UnixEpoch();
    info.is_regular = true;
    return info;
  }

  const std::string& path() const override { return path_; }

 private:
  void CopyPart(uint64_t item, uint64_t skipped,
                absl::Span<std::byte> out) const {
    std::vector<std::byte> whole(item_bytes_);
    items_->Compute(static_cast<int64_t>(item), absl::MakeSpan(whole));
    std::memcpy(out.data(), whole.data() + skipped, out.size());
  }

  const std::unique_ptr<const ComputedItems> items_;
  const std::string path_;
  const uint64_t item_bytes_;
  const uint64_t size_bytes_;
};

}  // namespace

std::unique_ptr<io::ReadableFile> NewComputedFile(
    std::unique_ptr<const ComputedItems> items, std::string path) {
  return std::make_unique<ComputedFile>(std::move(items), std::move(path));
}

}  // namespace hearth::ingest
