#include "engine/ingest/formats/edge_list_layout.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/status.h"

namespace hearth::ingest {
namespace {

// Limits of a head: lines and bytes, but at least two lines.
constexpr size_t kMaxLines = 100;
constexpr size_t kMaxBytes = 64 << 10;
// Lines after the first that are needed before a single column of numbers makes
// the first line a header: in fewer lines, ids may be numbers and words by
// chance.
constexpr size_t kMinLinesForMixedIds = 5;
constexpr size_t kMaxNamesTold = 8;
constexpr size_t kMaxNameBytesTold = 64;
constexpr absl::string_view kBanner = "%%matrixmarket";

/// Usual names of the columns of sources and destinations, in small letters and
/// reduced to letters and digits.
constexpr std::array<std::array<absl::string_view, 2>, 17> kKnownNames = {{
    {"src", "dst"},
    {"srcid", "dstid"},
    {"srcnode", "dstnode"},
    {"source", "target"},
    {"sourceid", "targetid"},
    {"sourcenode", "targetnode"},
    {"source", "destination"},
    {"source", "dest"},
    {"sourceid", "destinationid"},
    {"from", "to"},
    {"fromid", "toid"},
    {"fromnode", "tonode"},
    {"fromnodeid", "tonodeid"},
    {"startid", "endid"},
    {"node1", "node2"},
    {"nodeid1", "nodeid2"},
    {"id1", "id2"},
}};

using Fields = std::vector<absl::string_view>;

absl::string_view WithoutQuotes(absl::string_view field) {
  const bool is_quoted = field.size() >= 2 && field.front() == field.back() &&
                         (field.front() == '"' || field.front() == '\'');
  return is_quoted ? field.substr(1, field.size() - 2) : field;
}

std::string Normalized(absl::string_view name) {
  std::string normalized;
  for (const char c : name) {
    if (absl::ascii_isalnum(c)) normalized.push_back(absl::ascii_tolower(c));
  }
  return normalized;
}

/// `column 3 "weight"`.
std::string Describe(size_t column, const std::vector<std::string>& names) {
  const std::string name =
      column < names.size()
          ? absl::Utf8SafeCEscape(names[column].substr(0, kMaxNameBytesTold))
          : "";
  return absl::StrCat(column + 1, name.empty() ? "" : " \"", name,
                      name.empty() ? "" : "\"");
}

absl::Status LineError(const EdgeListHead& head, int64_t number,
                       absl::string_view problem) {
  return absl::InvalidArgumentError(
      absl::StrCat(head.path, ": line ", number, ": ", problem));
}

/// The separator in a line: see EdgeListLayout::separator.
std::optional<Separator> FindSeparator(absl::string_view line) {
  Fields fields;
  const auto has_inner_blank = [](absl::string_view field) {
    return field.find_first_of(" \t") != absl::string_view::npos;
  };
  SplitFields(line, Separator::kSemicolon, fields);
  if (fields.size() >= 2) {
    const bool has_numbers =
        LooksLikeNumber(fields[0]) && LooksLikeNumber(fields[1]);
    if (has_numbers ||
        (line.find(',') == absl::string_view::npos &&
         std::none_of(fields.begin(), fields.end(), has_inner_blank))) {
      return Separator::kSemicolon;
    }
  }
  if (line.find(',') != absl::string_view::npos) return std::nullopt;
  // Fields that contain blanks, such as times, are not split.
  SplitFields(line, Separator::kTab, fields);
  if (fields.size() > 2) return Separator::kTab;
  return std::nullopt;
}

auto CountSemicolons(absl::string_view line) {
  return std::count(line.begin(), line.end(), ';');
}

absl::StatusOr<MatrixMarketHeader> ParseBanner(const EdgeListHead& head) {
  const std::vector<std::string> words =
      absl::StrSplit(absl::AsciiStrToLower(head.banner),
                     absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  const auto is = [&](size_t word, absl::string_view text) {
    return word < words.size() && words[word] == text;
  };
  constexpr int64_t kLine = 1;
  if (!is(1, "matrix") || words.size() != 5) {
    return LineError(head, kLine,
                     "is no banner of a Matrix Market file: \"%%MatrixMarket "
                     "matrix coordinate pattern general\" is one");
  }
  if (is(2, "array")) {
    return LineError(head, kLine,
                     "is of a dense matrix (array); a graph is read from a "
                     "sparse one (coordinate)");
  }
  if (is(3, "complex")) {
    return LineError(head, kLine,
                     "is of a matrix of complex numbers; pattern, real and "
                     "integer are read");
  }
  if (is(4, "skew-symmetric") || is(4, "hermitian")) {
    return LineError(head, kLine,
                     "is of a skew-symmetric or Hermitian matrix; general and "
                     "symmetric ones are read");
  }
  MatrixMarketHeader matrix;
  matrix.has_values = !is(3, "pattern");
  matrix.is_symmetric = is(4, "symmetric");
  if (!is(2, "coordinate") ||
      (matrix.has_values && !is(3, "real") && !is(3, "double") &&
       !is(3, "integer")) ||
      (!matrix.is_symmetric && !is(4, "general"))) {
    return LineError(head, kLine,
                     "is of a kind of matrix that is not known: coordinate; "
                     "pattern, real or integer; general or symmetric are read");
  }
  return matrix;
}

absl::StatusOr<EdgeListLayout> FindMatrixLayout(
    const EdgeListHead& head, const EdgeListOptions& options) {
  if (options.has_header.has_value() || !options.source_column.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        head.path,
        ": is a Matrix Market file, whose format says where its ids are: "
        "--header and --columns do not apply"));
  }
  EdgeListLayout layout;
  HEARTH_ASSIGN_OR_RETURN(layout.matrix, ParseBanner(head));
  if (head.lines.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(head.path, ": has no line of sizes"));
  }
  layout.header_line = head.lines[0].number;
  layout.separator = Separator::kBlank;
  layout.num_columns = layout.matrix->has_values ? 3 : 2;
  Fields fields;
  SplitFields(head.lines[0].text, Separator::kBlank, fields);
  std::array<int64_t, 3> sizes = {};
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (fields.size() != sizes.size() ||
        !absl::SimpleAtoi(fields[i], &sizes[i]) || sizes[i] < 0) {
      return LineError(head, layout.header_line,
                       "is no line of sizes: numbers of rows, columns and "
                       "entries");
    }
  }
  if (sizes[0] != sizes[1] || sizes[0] == 0) {
    return LineError(
        head, layout.header_line,
        absl::StrCat("has ", sizes[0], " rows and ", sizes[1],
                     " columns; the matrix of a graph has as many rows as "
                     "columns, one for each node"));
  }
  layout.matrix->num_nodes = sizes[0];
  layout.matrix->num_entries = sizes[2];
  return layout;
}

/// Finds the layout of a text that is no Matrix Market file.
class LayoutFinder {
 public:
  LayoutFinder(const EdgeListHead& head, const EdgeListOptions& options)
      : head_(head), options_(options) {}

  absl::StatusOr<EdgeListLayout> Find() {
    if (head_.lines.empty()) return layout_;
    // The second line, if there is one, is certainly no header.
    const EdgeListHead::Line& sample =
        head_.lines[std::min<size_t>(1, head_.lines.size() - 1)];
    layout_.separator = FindSeparator(sample.text);
    // Numbers may contain commas, names do not.
    if (!layout_.separator.has_value() &&
        FindSeparator(head_.lines[0].text) == Separator::kSemicolon &&
        CountSemicolons(head_.lines[0].text) == CountSemicolons(sample.text)) {
      layout_.separator = Separator::kSemicolon;
    }
    for (const EdgeListHead::Line& line : head_.lines) {
      Fields& fields = fields_.emplace_back();
      SplitFields(line.text, layout_.SeparatorOf(line.text), fields);
    }
    FindHeader();
    HEARTH_RETURN_IF_ERROR(CountColumns());
    HEARTH_RETURN_IF_ERROR(ChooseColumns());
    return std::move(layout_);
  }

 private:
  /// Whether all lines after the first have a number in the column; false if
  /// there are no such lines.
  bool IsOfNumbers(size_t column) const {
    return fields_.size() > 1 &&
           std::all_of(fields_.begin() + 1, fields_.end(),
                       [&](const Fields& fields) {
                         return column < fields.size() &&
                                LooksLikeNumber(fields[column]);
                       });
  }

  /// Columns that the first line gives usual names.
  std::optional<std::array<size_t, 2>> KnownColumns() const {
    std::vector<std::string> names;
    for (const absl::string_view field : fields_[0]) {
      names.push_back(Normalized(field));
    }
    for (const auto& known : kKnownNames) {
      std::array<size_t, 2> found = {};
      for (size_t i = 0; i < found.size(); ++i) {
        const auto at = std::find(names.begin(), names.end(), known[i]);
        found[i] = static_cast<size_t>(at - names.begin());
      }
      if (std::max(found[0], found[1]) < names.size()) return found;
    }
    return std::nullopt;
  }

  bool NamesAreGiven() const {
    return !options_.source_column.empty() &&
           (!IsNumber(options_.source_column) ||
            !IsNumber(options_.destination_column));
  }

  static bool IsNumber(const std::string& column) {
    return std::all_of(column.begin(), column.end(), absl::ascii_isdigit);
  }

  /// Whether the first line, which has no numbers, is followed by lines with
  /// numbers where it has words.
  bool NumbersFollow() {
    for (size_t column = 2; column < fields_[0].size(); ++column) {
      if (IsOfNumbers(column)) return true;
    }
    const bool sources = IsOfNumbers(0);
    const bool destinations = IsOfNumbers(1);
    // Text in other columns tells nothing about the columns of ids.
    layout_.is_header_if_ids_are_numbers =
        sources && destinations && options_.source_column.empty();
    return (sources && destinations) ||
           (fields_.size() > kMinLinesForMixedIds && (sources || destinations));
  }

  /// The first edge sets the number of columns; a header must have as many for
  /// its names to apply.
  absl::Status CountColumns() {
    const size_t line = layout_.header_line != 0 && fields_.size() > 1 ? 1 : 0;
    layout_.num_columns = fields_[line].size();
    if (layout_.num_columns < 2) {
      return LineError(
          head_, head_.lines[line].number,
          absl::StrCat("has ", layout_.num_columns, " fields; 2 are needed"));
    }
    if (layout_.num_columns == fields_[0].size() ||
        (!options_.source_column.empty() && !NamesAreGiven())) {
      return absl::OkStatus();
    }
    return LineError(
        head_, head_.lines[0].number,
        absl::StrCat("is a header of ", fields_[0].size(), " names; line ",
                     head_.lines[line].number, " has ", layout_.num_columns,
                     " fields: say which are the ids by their numbers, from 1 "
                     "(--columns)"));
  }

  void FindHeader() {
    const Fields& first = fields_[0];
    bool is_header = options_.has_header.value_or(NamesAreGiven());
    if (!options_.has_header.has_value() && !is_header) {
      is_header = std::none_of(first.begin(), first.end(), LooksLikeNumber) &&
                  (KnownColumns().has_value() || NumbersFollow());
    }
    if (!is_header) return;
    layout_.header_line = head_.lines[0].number;
    for (const absl::string_view name : first) {
      layout_.names.emplace_back(WithoutQuotes(name));
    }
  }

  absl::Status ChooseColumns() {
    if (options_.source_column.empty()) {
      if (layout_.header_line != 0) {
        layout_.columns = KnownColumns().value_or(layout_.columns);
      }
    } else {
      HEARTH_ASSIGN_OR_RETURN(layout_.columns[0],
                              FindColumn(options_.source_column));
      HEARTH_ASSIGN_OR_RETURN(layout_.columns[1],
                              FindColumn(options_.destination_column));
    }
    if (layout_.columns[0] == layout_.columns[1]) {
      return absl::InvalidArgumentError(
          absl::StrCat(head_.path, ": source and destination are both column ",
                       layout_.columns[0] + 1, "; --columns names two"));
    }
    return absl::OkStatus();
  }

  // The message does not quote the header: the file may have been named by
  // mistake.
  absl::StatusOr<size_t> FindColumn(const std::string& column) const {
    if (IsNumber(column)) {
      size_t number = 0;
      if (absl::SimpleAtoi(column, &number) && number >= 1 &&
          number <= layout_.num_columns) {
        return number - 1;
      }
      return absl::InvalidArgumentError(
          absl::StrCat(head_.path, ": has columns 1 .. ", layout_.num_columns,
                       ", no column ", column));
    }
    const auto count =
        std::count(layout_.names.begin(), layout_.names.end(), column);
    if (count != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          head_.path, ": ",
          layout_.header_line == 0
              ? "has no header (--header no)"
              : absl::StrCat("line ", layout_.header_line, ", the header, has ",
                             count == 0 ? "no" : "more than one"),
          " column \"", absl::Utf8SafeCEscape(column), "\""));
    }
    return static_cast<size_t>(
        std::find(layout_.names.begin(), layout_.names.end(), column) -
        layout_.names.begin());
  }

  const EdgeListHead& head_;
  const EdgeListOptions& options_;
  EdgeListLayout layout_;
  /// Fields of each line of the head.
  std::vector<Fields> fields_;
};

}  // namespace

absl::StatusOr<EdgeListHead> ReadEdgeListHead(TextLines& lines,
                                              int64_t max_lines) {
  EdgeListHead head;
  head.path = lines.path();
  size_t bytes = 0;
  while (lines.number() < max_lines) {
    HEARTH_ASSIGN_OR_RETURN(const bool more, lines.Next());
    if (!more) break;
    const absl::string_view line = lines.line();
    if (lines.number() == 1 && absl::StartsWithIgnoreCase(line, kBanner)) {
      head.banner = std::string(line);
    }
    if (IsEdgeListComment(line)) continue;
    head.lines.push_back({lines.number(), std::string(line)});
    bytes += line.size();
    if (head.lines.size() == kMaxLines ||
        (head.lines.size() >= 2 && bytes >= kMaxBytes)) {
      break;
    }
  }
  head.has_mark = lines.has_mark();
  return head;
}

std::string EdgeListLayout::DescribeHeader() const {
  if (header_line == 0 || matrix.has_value()) return "";
  std::vector<std::string> told;
  for (size_t i = 0; i < std::min(names.size(), kMaxNamesTold); ++i) {
    told.push_back(
        absl::Utf8SafeCEscape(names[i].substr(0, kMaxNameBytesTold)));
  }
  return absl::StrCat("line ", header_line,
                      " skipped as a header: ", absl::StrJoin(told, ", "),
                      names.size() > told.size() ? ", ..." : "",
                      " (--header no reads it as an edge)");
}

std::string EdgeListLayout::DescribeUnusedColumns() const {
  if (matrix.has_value()) {
    return matrix->has_values
               ? "the values of the matrix are left out: edges have no weights"
               : "";
  }
  std::vector<std::string> unused;
  for (size_t column = 0; column < num_columns; ++column) {
    if (column == columns[0] || column == columns[1]) continue;
    if (unused.size() == kMaxNamesTold) {
      unused.push_back("...");
      break;
    }
    unused.push_back(Describe(column, names));
  }
  if (unused.empty()) return "";
  return absl::StrCat(
      "column", unused.size() == 1 ? " " : "s ", absl::StrJoin(unused, ", "),
      " of the edge list ", unused.size() == 1 ? "is" : "are",
      " left out: edges lead from column ", Describe(columns[0], names),
      " to column ", Describe(columns[1], names));
}

absl::StatusOr<EdgeListLayout> FindEdgeListLayout(
    const EdgeListHead& head, const EdgeListOptions& options) {
  if (!head.banner.empty()) return FindMatrixLayout(head, options);
  return LayoutFinder(head, options).Find();
}

}  // namespace hearth::ingest
