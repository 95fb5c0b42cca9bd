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

/// Layout of the lines of an edge list: what the first lines tell about the
/// others.

namespace hearth::ingest {

/// First lines of a text.
struct EdgeListHead {
  struct Line {
    int64_t number = 0;
    std::string text;
  };

  std::string path;
  bool has_mark = false;
  /// The first line if it is a Matrix Market banner, otherwise empty.
  std::string banner;
  /// First lines that are no comments.
  std::vector<Line> lines;
};

/// Whether a line has neither an edge nor a header: it is empty, or begins with
/// '#' or '%'.
inline bool IsEdgeListComment(absl::string_view line) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
  return text.empty() || text[0] == '#' || text[0] == '%';
}

/// Reads as many lines of a text as are needed to tell its layout, at most
/// `max_lines`. Errors of `lines`.
absl::StatusOr<EdgeListHead> ReadEdgeListHead(TextLines& lines,
                                              int64_t max_lines);

/// Contents of a Matrix Market file's banner and line of sizes.
struct MatrixMarketHeader {
  /// Number of rows and of columns, and so of nodes.
  int64_t num_nodes = 0;
  /// Number of lines with entries; a value follows the two ids if `has_values`.
  int64_t num_entries = 0;
  bool has_values = false;
  /// Whether all entries lie on one side of the diagonal and stand for edges in
  /// both directions.
  bool is_symmetric = false;
};

struct EdgeListLayout {
  /// Separator of fields; nullopt: a comma in lines that have one, otherwise
  /// blanks.
  std::optional<Separator> separator;
  /// Indices of the fields that have the source's and the destination's id.
  std::array<size_t, 2> columns = {0, 1};
  /// Number of fields in each line.
  size_t num_columns = 2;
  /// Number of the line that names the columns, or of a Matrix Market file's
  /// line of sizes; 0 = none.
  int64_t header_line = 0;
  /// Whether the first line counts as a header only if all ids of the file are
  /// numbers, as the ids in the first lines are.
  bool is_header_if_ids_are_numbers = false;
  /// Names in the header, without quotes.
  std::vector<std::string> names;
  std::optional<MatrixMarketHeader> matrix;

  Separator SeparatorOf(absl::string_view line) const {
    if (separator.has_value()) return *separator;
    return line.find(',') == absl::string_view::npos ? Separator::kBlank
                                                     : Separator::kComma;
  }

  /// Whether a line consists of the two ids, source first.
  bool IsPlain() const {
    return num_columns == 2 && columns == std::array<size_t, 2>{0, 1} &&
           !separator.has_value();
  }

  /// A description of the header for the log: its line and names.
  std::string DescribeHeader() const;

  /// A sentence about the columns that hold no ids; empty if there are none.
  std::string DescribeUnusedColumns() const;
};

/// Finds the layout of the text that begins with `head`. INVALID_ARGUMENT,
/// naming file and line, for a Matrix Market file that is no graph, for options
/// that do not fit the text, and for a line of fewer than two fields.
///
/// Without options to the contrary, the first line is a header if it has no
/// number and one of these holds: two of its fields are usual names of such
/// columns ("source", "target"); a column without ids has numbers in all later
/// lines; both columns of ids have; or one of them has, in several lines at
/// least.
absl::StatusOr<EdgeListLayout> FindEdgeListLayout(
    const EdgeListHead& head, const EdgeListOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_EDGE_LIST_LAYOUT_H_
