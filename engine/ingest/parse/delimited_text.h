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

/// Lines of text files, and the fields and numbers in them.

namespace hearth::ingest {

/// Reads the lines of a text, through a buffer of 256 KiB or one line,
/// whichever is more. Skips a byte order mark before the first line.
/// Single-owner.
class TextLines {
 public:
  /// Default for the longest line: the features of one node.
  static constexpr size_t kMaxLineBytes = size_t{1} << 20;

  /// `file` may be compressed by gzip or zstd, which its first bytes tell;
  /// `max_window_bytes` as of NewZstdStream.
  static absl::StatusOr<std::unique_ptr<TextLines>> Open(
      std::unique_ptr<io::ReadableFile> file,
      size_t max_line_bytes = kMaxLineBytes,
      uint64_t max_window_bytes = kMaxZstdWindowBytes);

  /// Which part of a text a stream has. The rest of a text may begin with
  /// anything: what the first bytes of a text must or may be is told of kBegin.
  enum class Part { kBegin, kRest };

  explicit TextLines(std::unique_ptr<ByteStream> stream,
                     size_t max_line_bytes = kMaxLineBytes,
                     Part part = Part::kBegin);

  /// Goes to the next line; false at the end of the text. Lines end with "\n"
  /// or "\r\n", except perhaps the last. INVALID_ARGUMENT, naming the line, if
  /// it is longer than allowed, or as CheckIsText; errors of the stream. After
  /// an error every later call returns that error.
  absl::StatusOr<bool> Next();

  /// The current line, without its end. Valid until the next call of Next.
  absl::string_view line() const { return line_; }

  /// Number of the current line in the stream, from 1.
  int64_t number() const { return number_; }

  /// Whether a byte order mark was skipped; known after the first call of Next.
  bool has_mark() const { return has_mark_; }

  const std::string& path() const { return stream_->path(); }

  /// INVALID_ARGUMENT with "PATH: line 12: `problem`".
  absl::Status Error(absl::string_view problem) const;

 private:
  absl::Status Fill();
  absl::Status Begin();
  bool TakeLine(size_t end, size_t skipped);

  const std::unique_ptr<ByteStream> stream_;
  const size_t max_line_bytes_;
  std::vector<char> buffer_;
  /// Offset in the buffer of the first byte after the current line.
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
  /// One semicolon between fields; blanks and tabs around a field are ignored.
  kSemicolon,
  /// One tab between fields; blanks around a field are ignored.
  kTab,
};

/// Splits a line into `fields`, which point into `line`; knows neither quotes
/// nor escapes. A line that is empty or all blanks has no fields. Fields may be
/// empty unless blanks separate them.
void SplitFields(absl::string_view line, Separator separator,
                 std::vector<absl::string_view>& fields);

/// Parses the current line of `lines` into exactly out.size() numbers. Integers
/// are decimal with an optional "-"; floats are as in C, with an optional "-",
/// an exponent, and "nan" and "inf" in any case. Neither depends on a locale or
/// allows a "+". A float too small for its type becomes 0. INVALID_ARGUMENT
/// with "PATH: line 12, field 2: ..." for anything else, numbers out of range
/// included.
absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<int64_t> out);
absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<float> out);
absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<double> out);

/// Parses one of the fields of the current line, which SplitFields returned, as
/// an integer. Errors of ParseFields. REQUIRES: index < fields.size().
absl::Status ParseField(const TextLines& lines,
                        absl::Span<const absl::string_view> fields,
                        size_t index, int64_t& out);

/// Whether a field is a number as ParseFields reads floats: an optional sign,
/// then a digit or a point. Words such as "nan" are none.
bool LooksLikeNumber(absl::string_view field);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_DELIMITED_TEXT_H_
