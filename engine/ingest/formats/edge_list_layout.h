#ifndef HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_LAYOUT_H_
#define HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_LAYOUT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/parse/delimited_text.h"

/// How the lines of an edge list are to be read, told from its first ones.

namespace hearth::ingest {

/// The beginning of a text.
struct EdgeListHead {
  struct Line {
    int64_t number = 0;
    std::string text;
  };

  std::string path;
  bool has_mark = false;
  /// The first line if it is the banner of a Matrix Market file, else empty.
  std::string banner;
  /// Some of the first lines that are no comments.
  std::vector<Line> lines;
};

/// Whether a line holds neither an edge nor a header: it is empty, or begins
/// with '#' or '%'.
inline bool IsEdgeListComment(absl::string_view line) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
  return text.empty() || text[0] == '#' || text[0] == '%';
}

/// Reads as many lines of a text as are needed to tell its layout, `max_lines`
/// at most. Errors of `lines`.
absl::StatusOr<EdgeListHead> ReadEdgeListHead(TextLines& lines,
                                              int64_t max_lines);

/// What a Matrix Market file declares.
struct MatrixMarketHeader {
  /// Rows and columns, and so nodes.
  int64_t num_nodes = 0;
  /// Lines of entries; each has a value after the two ids if `has_values`.
  int64_t num_entries = 0;
  bool has_values = false;
  /// Entries lie on one side of the diagonal and stand for both directions.
  bool is_symmetric = false;
};

struct EdgeListLayout {
  /// nullopt: a comma in lines that have one, else blanks.
  std::optional<Separator> separator;
  /// Places of the source's and the destination's id among a line's fields.
  std::array<size_t, 2> columns = {0, 1};
  /// Fields of each line.
  size_t num_columns = 2;
  /// The number of the line that names the columns, or of a Matrix Market
  /// file's line of sizes; 0 = none.
  int64_t header_line = 0;
  /// What it is taken for on the ground that all ids of the file are numbers,
  /// as those in its first lines are.
  bool is_header_if_ids_are_numbers = false;
  /// The names in the header, without quotes.
  std::vector<std::string> names;
  std::optional<MatrixMarketHeader> matrix;

  Separator SeparatorOf(absl::string_view line) const {
    if (separator.has_value()) return *separator;
    return line.find(',') == absl::string_view::npos ? Separator::kBlank
                                                     : Separator::kComma;
  }

  /// Whether lines are nothing but the two ids, source first.
  bool IsPlain() const {
    return num_columns == 2 && columns == std::array<size_t, 2>{0, 1} &&
           !separator.has_value();
  }

  /// The header's line and the names in it, in words.
  std::string DescribeHeader() const;

  /// A sentence about the columns that hold no ids; empty if there are none.
  std::string DescribeUnusedColumns() const;
};

/// The layout of the text that begins with `head`. INVALID_ARGUMENT, naming
/// file and line, for a Matrix Market file of a kind that is no graph, for
/// options that do not fit the text, and for a line of less than two fields.
///
/// Without options to the contrary the first line is a header if it holds no
/// number and, besides, two of its fields are what such columns are called
/// ("source", "target"), or another column than those of the ids holds numbers
/// in all lines after it, or the columns of the ids do, or one of these in
/// several lines at least.
absl::StatusOr<EdgeListLayout> FindEdgeListLayout(
    const EdgeListHead& head, const EdgeListOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_LAYOUT_H_
