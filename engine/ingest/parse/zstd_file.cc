#include "engine/ingest/parse/zstd_file.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/parse/named_status.h"

namespace hearth::ingest {
namespace {

constexpr size_t kInputBytes = 64 << 10;
// Windows that zstd can be told to allow, as powers of two.
constexpr int kMinWindowLog = 10;
constexpr int kMaxWindowLog = 31;

class ZstdStream final : public ByteStream {
 public:
  ZstdStream(std::unique_ptr<io::ReadableFile> file, uint64_t size_bytes,
             int window_log)
      : file_(std::move(file)),
        size_bytes_(size_bytes),
        window_log_(window_log),
        decoder_(ZSTD_createDStream()) {
    if (decoder_ == nullptr ||
        ZSTD_isError(ZSTD_DCtx_setParameter(decoder_, ZSTD_d_windowLogMax,
                                            window_log)) != 0) {
      status_ = OutOfMemory();
    }
  }

  ~ZstdStream() override { ZSTD_freeDStream(decoder_); }

  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override {
    ZSTD_outBuffer output = {out.data(), out.size(), 0};
    while (status_.ok() && output.pos < output.size) {
      status_ = Fetch();
      if (!status_.ok() || (input_.pos == input_.size && frame_ended_)) break;
      status_ = Step(output);
    }
    status_ = Named(status_, path());
    HEARTH_RETURN_IF_ERROR(status_);
    return output.pos;
  }

  const std::string& path() const override { return file_->path(); }

 private:
  static absl::Status OutOfMemory() {
    return absl::ResourceExhaustedError("no memory to decompress with");
  }

  /// Reads more of the file once all that was read is decompressed.
  absl::Status Fetch() {
    if (input_.pos < input_.size || fetched_ == size_bytes_) {
      return absl::OkStatus();
    }
    buffer_.resize(std::min<uint64_t>(kInputBytes, size_bytes_ - fetched_));
    HEARTH_RETURN_IF_ERROR(file_->Read(fetched_, absl::MakeSpan(buffer_)));
    fetched_ += buffer_.size();
    input_ = {buffer_.data(), buffer_.size(), 0};
    return absl::OkStatus();
  }

  absl::Status Step(ZSTD_outBuffer& output) {
    const bool input_is_over = input_.pos == input_.size;
    const size_t written = output.pos;
    const bool follows_frame = frame_ended_;
    const size_t hint = ZSTD_decompressStream(decoder_, &output, &input_);
    if (ZSTD_isError(hint) != 0) return ErrorOf(hint, follows_frame);
    frame_ended_ = hint == 0;
    if (frame_ended_) frame_end_ = input_offset();
    // Without input, what the decoder still holds may come out.
    if (input_is_over && !frame_ended_ && output.pos == written) {
      return Damaged("is truncated");
    }
    return absl::OkStatus();
  }

  absl::Status ErrorOf(size_t result, bool follows_frame) const {
    switch (ZSTD_getErrorCode(result)) {
      case ZSTD_error_memory_allocation:
        return OutOfMemory();
      case ZSTD_error_frameParameter_windowTooLarge:
        return absl::ResourceExhaustedError(absl::StrCat(
            "was compressed with a window of more than ",
            FormatByteSize(uint64_t{1} << window_log_),
            ", which is what may be used to decompress it: a higher memory "
            "limit, or compression without --long and --ultra, makes it fit"));
      case ZSTD_error_prefix_unknown:
        if (!follows_frame) break;
        return absl::DataLossError(
            absl::StrCat("has something after its end, at byte ", frame_end_));
      default:
        break;
    }
    return Damaged(absl::StrCat("is damaged: ", ZSTD_getErrorName(result)));
  }

  absl::Status Damaged(absl::string_view problem) const {
    return absl::DataLossError(absl::StrCat(
        problem, ", at byte ", input_offset(), " of the compressed data"));
  }

  uint64_t input_offset() const { return fetched_ - input_.size + input_.pos; }

  const std::unique_ptr<io::ReadableFile> file_;
  const uint64_t size_bytes_;
  const int window_log_;
  ZSTD_DStream* const decoder_;
  std::vector<std::byte> buffer_;
  ZSTD_inBuffer input_ = {nullptr, 0, 0};
  /// Offset in the file up to which input was read.
  uint64_t fetched_ = 0;
  /// Whether the last frame is complete, and the offset where it ended.
  bool frame_ended_ = false;
  uint64_t frame_end_ = 0;
  absl::Status status_;
};

}  // namespace

bool IsZstd(absl::string_view head) {
  if (head.size() < 4) return false;
  // A frame, or one that is skipped, as pzstd begins its files.
  return absl::StartsWith(head, "\x28\xb5\x2f\xfd") ||
         ((head[0] & 0xf0) == 0x50 && head.substr(1, 3) == "\x2a\x4d\x18");
}

absl::StatusOr<std::unique_ptr<ByteStream>> NewZstdStream(
    std::unique_ptr<io::ReadableFile> file, uint64_t max_window_bytes) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  const int window_log =
      std::clamp(static_cast<int>(absl::bit_width(max_window_bytes)) - 1,
                 kMinWindowLog, kMaxWindowLog);
  return std::make_unique<ZstdStream>(std::move(file), info.size_bytes,
                                      window_log);
}

}  // namespace hearth::ingest
