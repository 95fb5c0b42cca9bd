#include "engine/ingest/parse/gzip_file.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/parse/inflater.h"
#include "engine/ingest/parse/named_status.h"

namespace hearth::ingest {
namespace {

class GzipStream final : public ByteStream {
 public:
  GzipStream(std::unique_ptr<io::ReadableFile> file, uint64_t size_bytes)
      : file_(std::move(file)),
        size_bytes_(size_bytes),
        inflater_(*file_, 0, size_bytes, Inflater::Format::kGzip) {}

  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override {
    size_t done = 0;
    while (status_.ok() && !over_ && done < out.size()) {
      const auto count = inflater_.Read(out.subspan(done));
      if (count.ok()) {
        done += *count;
        if (inflater_.ended()) status_ = NextMember();
      } else {
        status_ = count.status();
      }
      status_ = Named(status_, path());
    }
    HEARTH_RETURN_IF_ERROR(status_);
    return done;
  }

  const std::string& path() const override { return file_->path(); }

 private:
  absl::Status NextMember() {
    const uint64_t member_end = inflater_.input_offset();
    HEARTH_RETURN_IF_ERROR(inflater_.SkipZeros());
    const uint64_t next = inflater_.input_offset();
    over_ = next == size_bytes_;
    if (over_) return absl::OkStatus();
    if (next != member_end) {
      return absl::DataLossError(
          absl::StrCat("has something after its end, at byte ", next));
    }
    inflater_.StartStream();
    return absl::OkStatus();
  }

  const std::unique_ptr<io::ReadableFile> file_;
  const uint64_t size_bytes_;
  Inflater inflater_;
  bool over_ = false;
  absl::Status status_;
};

}  // namespace

absl::StatusOr<bool> IsGzip(io::ReadableFile& file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  std::array<std::byte, 2> magic;
  if (info.size_bytes < magic.size()) return false;
  HEARTH_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(magic)));
  return magic[0] == std::byte{0x1f} && magic[1] == std::byte{0x8b};
}

absl::StatusOr<std::unique_ptr<ByteStream>> NewGzipStream(
    std::unique_ptr<io::ReadableFile> file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  return std::make_unique<GzipStream>(std::move(file), info.size_bytes);
}

}  // namespace hearth::ingest
