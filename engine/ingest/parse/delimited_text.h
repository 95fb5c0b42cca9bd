#ifndef HEARTH_ENGINE_INGEST_PARSE_DELIMITED_TEXT_H_
#define HEARTH_ENGINE_INGEST_PARSE_DELIMITED_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/parse/byte_stream.h"
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

enum class Separator {
  /// One comma between fields; blanks and tabs around a field are ignored.
  kComma,
  /// One or more blanks or tabs between fields, any number around the line.
  kBlank,
  /// As kComma, with a semicolon.
  kSemicolon,
  /// One tab between fields; blanks around a field are ignored.
  kTab,
};

/// Splits a line into fields; no quotes, no escapes. Replaces `fields`, which
/// refer to `line`. A line of blanks, or an empty one, has none; fields that
/// are not separated by blanks may be empty.
void SplitFields(absl::string_view line, Separator separator,
                 std::vector<absl::string_view>& fields);

/// Parses the current line of `lines` into numbers, exactly as many fields as
/// `out` has elements. Integers are decimal with an optional "-"; floats are
/// as in C (with an optional "-", an exponent, "nan" and "inf" in any case).
/// Neither depends on a locale, and neither allows a "+". INVALID_ARGUMENT:
/// "PATH: line 12, field 2: ..." for anything else, numbers out of range
/// included; of floats, those too small to be told from zero are zero.
absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<int64_t> out);
absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<float> out);
absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<double> out);

/// Parses one field of that line, which SplitFields gave, as an integer.
/// INVALID_ARGUMENT as ParseFields. REQUIRES: index < fields.size().
absl::Status ParseField(const TextLines& lines,
                        absl::Span<const absl::string_view> fields,
                        size_t index, int64_t& out);

/// Whether a field is written as numbers are: as ParseFields reads floats, with
/// a digit or a point in front, and perhaps a sign before that.
bool LooksLikeNumber(absl::string_view field);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_DELIMITED_TEXT_H_
