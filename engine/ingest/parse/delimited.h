#ifndef HEARTH_ENGINE_INGEST_PARSE_DELIMITED_H_
#define HEARTH_ENGINE_INGEST_PARSE_DELIMITED_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/parse/text_lines.h"

namespace hearth::ingest {

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

#endif  // HEARTH_ENGINE_INGEST_PARSE_DELIMITED_H_
