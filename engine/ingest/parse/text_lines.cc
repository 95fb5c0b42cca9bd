#include "engine/ingest/parse/text_lines.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/parse/named_status.h"
#include "engine/ingest/parse/text_stream.h"

namespace hearth::ingest {
namespace {

constexpr size_t kBufferBytes = 256 << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<TextLines>> TextLines::Open(
    std::unique_ptr<io::ReadableFile> file, size_t max_line_bytes,
    uint64_t max_window_bytes) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ByteStream> stream,
                          NewTextStream(std::move(file), max_window_bytes));
  return std::make_unique<TextLines>(std::move(stream), max_line_bytes);
}

TextLines::TextLines(std::unique_ptr<ByteStream> stream, size_t max_line_bytes)
    : stream_(std::move(stream)),
      max_line_bytes_(max_line_bytes),
      buffer_(std::min(kBufferBytes, max_line_bytes + 2)) {}

bool TextLines::TakeLine(size_t end, size_t skipped) {
  const char* const start = buffer_.data() + begin_;
  size_t size = end - begin_;
  if (skipped > 0 && size > 0 && start[size - 1] == '\r') --size;
  line_ = absl::string_view(start, size);
  begin_ = end + skipped;
  ++number_;
  return line_.size() <= max_line_bytes_;
}

absl::StatusOr<bool> TextLines::Next() {
  HEARTH_RETURN_IF_ERROR(status_);
  size_t searched = begin_;
  while (true) {
    const void* const found =
        std::memchr(buffer_.data() + searched, '\n', end_ - searched);
    const bool is_last = found == nullptr && is_over_;
    if (is_last && begin_ == end_) return false;
    if (found != nullptr || is_last) {
      const size_t end =
          is_last ? end_
                  : static_cast<size_t>(static_cast<const char*>(found) -
                                        buffer_.data());
      if (TakeLine(end, is_last ? 0 : 1)) return true;
      break;
    }
    // A line's end may be two bytes beyond its limit.
    const size_t unfinished = end_ - begin_;
    if (unfinished > max_line_bytes_ + 1) {
      ++number_;
      break;
    }
    status_ = Fill();
    HEARTH_RETURN_IF_ERROR(status_);
    searched = begin_ + unfinished;
    if (has_begun_) continue;
    has_begun_ = true;
    status_ = Begin();
    HEARTH_RETURN_IF_ERROR(status_);
    searched = begin_;
  }
  status_ = Error(absl::StrCat("is longer than ", max_line_bytes_, " bytes"));
  return status_;
}

absl::Status TextLines::Fill() {
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
            buffer_.begin() + static_cast<std::ptrdiff_t>(end_),
            buffer_.begin());
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) {
    buffer_.resize(std::min(2 * buffer_.size(), max_line_bytes_ + 2));
  }
  const auto space = absl::MakeSpan(buffer_).subspan(end_);
  HEARTH_ASSIGN_OR_RETURN(
      const size_t count,
      stream_->Read(absl::MakeSpan(reinterpret_cast<std::byte*>(space.data()),
                                   space.size())));
  is_over_ = count < space.size();
  end_ += count;
  return absl::OkStatus();
}

absl::Status TextLines::Begin() {
  const absl::string_view head(buffer_.data(), end_);
  HEARTH_RETURN_IF_ERROR(Named(CheckIsText(head), path()));
  has_mark_ = absl::StartsWith(head, kByteOrderMark);
  if (has_mark_) begin_ = kByteOrderMark.size();
  return absl::OkStatus();
}

absl::Status TextLines::Error(absl::string_view problem) const {
  return absl::InvalidArgumentError(
      absl::StrCat(path(), ": line ", number_, ": ", problem));
}

}  // namespace hearth::ingest
