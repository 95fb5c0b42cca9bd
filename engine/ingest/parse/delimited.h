#ifndef HEARTH_ENGINE_INGEST_PARSE_DELIMITED_H_
#define HEARTH_ENGINE_INGEST_PARSE_DELIMITED_H_

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
};

/// Splits a line into fields; no quotes, no escapes. Replaces `fields`, which
/// refer to `line`. A line of blanks, or an empty one, has none; of a line with
/// commas, fields may be empty.
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

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_DELIMITED_H_
