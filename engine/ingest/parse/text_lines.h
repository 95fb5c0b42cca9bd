#ifndef HEARTH_ENGINE_INGEST_PARSE_TEXT_LINES_H_
#define HEARTH_ENGINE_INGEST_PARSE_TEXT_LINES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/ingest/parse/zstd_file.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// The lines of a text, one after another, through a buffer of 256 KiB or, if
/// that is more, one line. A byte order mark before the first is skipped.
/// Single-owner.
class TextLines {
 public:
  /// Longest line that is read unless told otherwise: features of one node.
  static constexpr size_t kMaxLineBytes = size_t{1} << 20;

  /// `file` may be compressed by gzip or zstd: its first bytes tell. Of zstd a
  /// window of `max_window_bytes` may be used: see zstd_file.h.
  static absl::StatusOr<std::unique_ptr<TextLines>> Open(
      std::unique_ptr<io::ReadableFile> file,
      size_t max_line_bytes = kMaxLineBytes,
      uint64_t max_window_bytes = kMaxZstdWindowBytes);

  explicit TextLines(std::unique_ptr<ByteStream> stream,
                     size_t max_line_bytes = kMaxLineBytes);

  /// Goes to the next line; false at the end. A line ends with "\n" or "\r\n",
  /// which the last one may lack. INVALID_ARGUMENT naming the line if it is
  /// longer than allowed, or naming what a file is that is no text; errors of
  /// the stream. An error stays.
  absl::StatusOr<bool> Next();

  /// Without its end. Valid until the next call of Next.
  absl::string_view line() const { return line_; }

  /// Counts from 1.
  int64_t number() const { return number_; }

  /// Whether a byte order mark was skipped. Known after the first Next.
  bool has_mark() const { return has_mark_; }

  const std::string& path() const { return stream_->path(); }

  /// INVALID_ARGUMENT: "PATH: line 12: `problem`".
  absl::Status Error(absl::string_view problem) const;

 private:
  absl::Status Fill();
  absl::Status Begin();
  bool TakeLine(size_t end, size_t skipped);

  const std::unique_ptr<ByteStream> stream_;
  const size_t max_line_bytes_;
  std::vector<char> buffer_;
  /// The part of the buffer that was not given out yet begins here.
  size_t begin_ = 0;
  size_t end_ = 0;
  bool is_over_ = false;
  bool has_begun_ = false;
  bool has_mark_ = false;
  absl::Status status_;
  absl::string_view line_;
  int64_t number_ = 0;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_TEXT_LINES_H_
