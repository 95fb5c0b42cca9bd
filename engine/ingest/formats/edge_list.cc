#include "engine/ingest/formats/edge_list.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/edge_list_layout.h"
#include "engine/ingest/formats/node_numbering.h"
#include "engine/ingest/formats/text_arrays.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/ingest/parse/delimited_text.h"
#include "engine/ingest/source/scratch_array.h"

namespace hearth::ingest {
namespace {

// Ids up to this multiple of the number of edges are taken for node numbers.
constexpr int64_t kMaxNodesPerEdge = 16;
constexpr int64_t kMinNodesAllowed = 1 << 16;
// Most comments before the first edge that recognizing a file reads.
constexpr int64_t kMaxHeadLines = 1000;
constexpr size_t kMaxHeadLineBytes = 4096;

bool IsPrintable(absl::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return c >= 0x80 || absl::ascii_isgraph(c);
         });
}

/// Whether a field has no control characters.
bool IsText(absl::string_view field) {
  return std::none_of(field.begin(), field.end(), absl::ascii_iscntrl);
}

/// Checks early that the disk has space for the edges, by an estimate: a line
/// of text has about as many bytes as an edge in a scratch file, and
/// compression at least halves it.
absl::Status CheckSpace(ImportContext& context, const std::string& source) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          context.files().OpenForRead(source));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  HEARTH_ASSIGN_OR_RETURN(const bool is_compressed, IsCompressedText(*file));
  return context.CheckSpace(info.size_bytes * (is_compressed ? 2 : 1),
                            absl::StrCat("unpacking ", source));
}

/// A text whose layout is known.
struct EdgeList {
  std::string path;
  EdgeListLayout layout;
};

/// Calls `visit` with every line that holds an edge.
absl::Status ForEachEdgeLine(
    ImportContext& context, const EdgeList& list,
    absl::FunctionRef<absl::Status(const TextLines&)> visit) {
  return ForEachLine(context, list.path, [&](const TextLines& line) {
    return IsEdgeListComment(line.line()) ||
                   line.number() == list.layout.header_line
               ? absl::OkStatus()
               : visit(line);
  });
}

/// Splits lines of edges as their layout says.
class EdgeFields {
 public:
  explicit EdgeFields(const EdgeListLayout& layout) : layout_(layout) {}

  absl::Status Split(const TextLines& line) {
    SplitFields(line.line(), layout_.SeparatorOf(line.line()), fields_);
    if (fields_.size() == layout_.num_columns) return absl::OkStatus();
    return line.Error(absl::StrCat("has ", fields_.size(), " fields; ",
                                   layout_.num_columns, " are needed"));
  }

  /// Id of the source (0) or destination (1) of the line that was split.
  absl::string_view id(size_t end) const {
    return fields_[layout_.columns[end]];
  }

  /// Parses the ids of a line as integers.
  absl::Status Parse(const TextLines& line, std::array<int64_t, 2>& edge) {
    HEARTH_RETURN_IF_ERROR(Split(line));
    for (size_t end = 0; end < edge.size(); ++end) {
      HEARTH_RETURN_IF_ERROR(
          ParseField(line, fields_, layout_.columns[end], edge[end]));
    }
    return absl::OkStatus();
  }

  /// Error to report for a line whose ids could not be parsed.
  absl::Status Explain(const TextLines& line, absl::Status status) {
    if (!Split(line).ok() ||
        (LooksLikeNumber(id(0)) && LooksLikeNumber(id(1)))) {
      return status;
    }
    return absl::InvalidArgumentError(
        absl::StrCat(status.message(), "; ids that are text need --relabel"));
  }

 private:
  const EdgeListLayout& layout_;
  std::vector<absl::string_view> fields_;
};

absl::Status CheckDensity(const std::string& source, int64_t num_nodes,
                          int64_t num_edges) {
  if (num_edges == 0) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": has no edges"));
  }
  if (num_nodes / kMaxNodesPerEdge <= num_edges ||
      num_nodes <= kMinNodesAllowed) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      source, ": has ids up to ", num_nodes - 1, " in ", num_edges,
      " edges; ids that are not the numbers of the nodes need --relabel"));
}

absl::StatusOr<SourceGraph> OpenNumbered(ImportContext& context,
                                         const EdgeList& list) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSpool> spool,
                          EdgeSpool::Create(context));
  EdgeFields fields(list.layout);
  const bool is_plain = list.layout.IsPlain();
  int64_t last = -1;
  HEARTH_RETURN_IF_ERROR(
      ForEachEdgeLine(context, list, [&](const TextLines& line) {
        std::array<int64_t, 2> edge = {};
        const absl::Status status =
            is_plain ? ParseFields(line, list.layout.SeparatorOf(line.line()),
                                   absl::MakeSpan(edge))
                     : fields.Parse(line, edge);
        if (!status.ok()) return fields.Explain(line, status);
        const auto [least, most] = std::minmax(edge[0], edge[1]);
        if (least < 0 || most == INT64_MAX) {
          return line.Error(absl::StrCat(
              "has id ", least < 0 ? least : most,
              ", which is no number of a node; such ids need --relabel"));
        }
        last = std::max(last, most);
        return spool->Add(edge[0], edge[1]);
      }));
  HEARTH_RETURN_IF_ERROR(CheckDensity(list.path, last + 1, spool->num_edges()));
  SourceGraph graph;
  graph.nodes.emplace_back().num_nodes = last + 1;
  HEARTH_ASSIGN_OR_RETURN(graph.edges.emplace_back().edges, spool->Finish());
  return graph;
}

/// Takes the entries of a Matrix Market file one by one.
class MatrixEntries {
 public:
  MatrixEntries(const MatrixMarketHeader& matrix, EdgeSpool& spool)
      : matrix_(matrix), spool_(spool) {}

  absl::Status Add(const TextLines& line, std::array<int64_t, 2> entry) {
    for (int64_t& id : entry) {
      if (id < 1 || id > matrix_.num_nodes) {
        return line.Error(absl::StrCat("has id ", id, "; rows and columns are ",
                                       "1 .. ", matrix_.num_nodes));
      }
      --id;
    }
    if (num_entries_ == matrix_.num_entries) {
      return line.Error(absl::StrCat("is one more than the ",
                                     matrix_.num_entries,
                                     " entries of the line of sizes"));
    }
    ++num_entries_;
    HEARTH_RETURN_IF_ERROR(spool_.Add(entry[0], entry[1]));
    if (!matrix_.is_symmetric || entry[0] == entry[1]) return absl::OkStatus();
    const bool is_below = entry[0] > entry[1];
    if (!is_below_.has_value()) is_below_ = is_below;
    if (is_below != *is_below_) {
      return line.Error(
          "is on the other side of the diagonal than the entries before; of a "
          "symmetric matrix one side is given");
    }
    return spool_.Add(entry[1], entry[0]);
  }

  int64_t num_entries() const { return num_entries_; }

 private:
  const MatrixMarketHeader& matrix_;
  EdgeSpool& spool_;
  int64_t num_entries_ = 0;
  std::optional<bool> is_below_;
};

absl::StatusOr<SourceGraph> OpenMatrix(ImportContext& context,
                                       const EdgeList& list) {
  const MatrixMarketHeader& matrix = *list.layout.matrix;
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSpool> spool,
                          EdgeSpool::Create(context));
  EdgeFields fields(list.layout);
  MatrixEntries entries(matrix, *spool);
  HEARTH_RETURN_IF_ERROR(
      ForEachEdgeLine(context, list, [&](const TextLines& line) {
        std::array<int64_t, 2> entry = {};
        HEARTH_RETURN_IF_ERROR(fields.Parse(line, entry));
        return entries.Add(line, entry);
      }));
  if (entries.num_entries() != matrix.num_entries) {
    return absl::InvalidArgumentError(absl::StrCat(
        list.path, ": has ", entries.num_entries(), " entries; line ",
        list.layout.header_line, " says ", matrix.num_entries));
  }
  if (spool->num_edges() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(list.path, ": has no edges"));
  }
  SourceGraph graph;
  graph.nodes.emplace_back().num_nodes = matrix.num_nodes;
  HEARTH_ASSIGN_OR_RETURN(graph.edges.emplace_back().edges, spool->Finish());
  graph.transforms.push_back(absl::StrCat(
      "read as a Matrix Market file: row and column 1 are node 0",
      matrix.is_symmetric ? "; edges in both directions, it is symmetric"
                          : ""));
  return graph;
}

absl::Status CheckId(const TextLines& line, absl::string_view id) {
  if (id.size() > kMaxIdBytes) {
    return line.Error(absl::StrCat("has an id of ", id.size(),
                                   " bytes; at most ", kMaxIdBytes,
                                   " are allowed"));
  }
  if (IsPrintable(id)) return absl::OkStatus();
  return line.Error(
      "has an id that is empty or has blanks or control characters");
}

/// The number of an id that is written without needless signs and zeros;
/// nullopt for any other id.
std::optional<int64_t> ParseNumber(absl::string_view id) {
  int64_t number = 0;
  const char* const end = id.data() + id.size();
  const auto result = std::from_chars(id.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end ||
      absl::AlphaNum(number).Piece() != id) {
    return std::nullopt;
  }
  return number;
}

/// Facts that show only after more ids have been read.
enum class Finding {
  kNone,
  /// An id is no number, though ids were read as numbers.
  kTextIds,
  /// An id does not look like a number, so the first line is no header.
  kNoHeader,
};

/// Reads edges whose ids may be anything. If it fails and sets `finding`, the
/// source is to be read in another way.
absl::StatusOr<NumberedEdges> NumberNodes(ImportContext& context,
                                          const EdgeList& list,
                                          NodeNumbering::IdKind kind,
                                          Finding& finding) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<NodeNumbering> numbering,
                          NodeNumbering::Create(context, kind, list.path));
  EdgeFields fields(list.layout);
  finding = Finding::kNone;
  HEARTH_RETURN_IF_ERROR(
      ForEachEdgeLine(context, list, [&](const TextLines& line) {
        HEARTH_RETURN_IF_ERROR(fields.Split(line));
        const std::array<absl::string_view, 2> ids = {fields.id(0),
                                                      fields.id(1)};
        for (const absl::string_view id : ids) {
          HEARTH_RETURN_IF_ERROR(CheckId(line, id));
        }
        if (kind == NodeNumbering::IdKind::kNumbers) {
          const std::optional<int64_t> from = ParseNumber(ids[0]);
          const std::optional<int64_t> to = ParseNumber(ids[1]);
          if (from.has_value() && to.has_value()) {
            return numbering->Add(*from, *to);
          }
          finding = Finding::kTextIds;
          return line.Error("has an id that is no number");
        }
        if (list.layout.is_header_if_ids_are_numbers &&
            !(LooksLikeNumber(ids[0]) && LooksLikeNumber(ids[1]))) {
          finding = Finding::kNoHeader;
          return line.Error("has an id that is no number");
        }
        return numbering->Add(ids[0], ids[1]);
      }));
  return numbering->Finish();
}

absl::StatusOr<SourceGraph> OpenRelabeled(ImportContext& context,
                                          EdgeList& list) {
  Finding finding = Finding::kNone;
  absl::StatusOr<NumberedEdges> numbered =
      NumberNodes(context, list, NodeNumbering::IdKind::kNumbers, finding);
  const bool is_text = finding == Finding::kTextIds;
  while (finding != Finding::kNone) {
    if (finding == Finding::kNoHeader) {
      list.layout.header_line = 0;
      list.layout.names.clear();
      list.layout.is_header_if_ids_are_numbers = false;
    }
    numbered =
        NumberNodes(context, list, NodeNumbering::IdKind::kText, finding);
  }
  HEARTH_RETURN_IF_ERROR(numbered.status());
  HEARTH_RETURN_IF_ERROR(CheckDensity(list.path, numbered->num_nodes,
                                      numbered->edges->num_edges()));
  SourceGraph graph;
  SourceNodes& nodes = graph.nodes.emplace_back();
  nodes.num_nodes = numbered->num_nodes;
  (is_text ? nodes.id_text : nodes.ids) = std::move(numbered->ids);
  graph.edges.emplace_back().edges = std::move(numbered->edges);
  graph.transforms.push_back(
      absl::StrCat("ids numbered in ascending order: ", nodes.num_nodes,
                   nodes.num_nodes == 1 ? " node" : " nodes"));
  return graph;
}

absl::StatusOr<SourceGraph> OpenList(ImportContext& context, EdgeList& list,
                                     const EdgeListOptions& options) {
  if (list.layout.matrix.has_value()) {
    HEARTH_ASSIGN_OR_RETURN(SourceGraph graph, OpenMatrix(context, list));
    if (options.relabel) {
      graph.warnings.push_back(
          "relabeling has no effect on a Matrix Market file, whose rows number "
          "the nodes");
    }
    return graph;
  }
  return options.relabel ? OpenRelabeled(context, list)
                         : OpenNumbered(context, list);
}

}  // namespace

absl::StatusOr<std::string> RecognizeEdgeList(io::FileSystem& files,
                                              const std::string& source) {
  const absl::StatusOr<io::FileInfo> info = files.Stat(source);
  if (absl::IsNotFound(info.status())) return "";
  HEARTH_RETURN_IF_ERROR(info.status());
  if (!info->is_regular) return "";
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(source));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TextLines> lines,
                          TextLines::Open(std::move(file), kMaxHeadLineBytes));
  HEARTH_ASSIGN_OR_RETURN(const EdgeListHead head,
                          ReadEdgeListHead(*lines, kMaxHeadLines));
  if (!head.banner.empty()) return "it is a Matrix Market file";
  if (head.lines.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": has no edges",
        lines->number() == kMaxHeadLines
            ? absl::StrCat(" in its first ", kMaxHeadLines, " lines")
            : ""));
  }
  // Whether the first line fits the other lines depends on options.
  EdgeListOptions no_header;
  no_header.has_header = false;
  HEARTH_ASSIGN_OR_RETURN(const EdgeListLayout layout,
                          FindEdgeListLayout(head, no_header));
  std::vector<absl::string_view> fields;
  const EdgeListHead::Line& first = head.lines[0];
  SplitFields(first.text, layout.SeparatorOf(first.text), fields);
  if (!std::all_of(fields.begin(), fields.end(), IsText)) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, ": line ", first.number, ": has control characters"));
  }
  return layout.num_columns == 2
             ? "it is text with two ids a line"
             : absl::StrCat("it is text with ", layout.num_columns,
                            " fields a line");
}

absl::StatusOr<SourceGraph> OpenEdgeList(ImportContext& context,
                                         const std::string& source,
                                         const EdgeListOptions& options) {
  EdgeList list;
  list.path = source;
  EdgeListHead head;
  {
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TextLines> lines,
                            OpenTextLines(context, source));
    HEARTH_ASSIGN_OR_RETURN(
        head, ReadEdgeListHead(*lines, std::numeric_limits<int64_t>::max()));
  }
  HEARTH_ASSIGN_OR_RETURN(list.layout, FindEdgeListLayout(head, options));
  HEARTH_RETURN_IF_ERROR(CheckSpace(context, source));
  HEARTH_ASSIGN_OR_RETURN(SourceGraph graph, OpenList(context, list, options));
  if (head.has_mark) graph.transforms.push_back("byte order mark skipped");
  for (auto& [told, text] :
       {std::pair(&graph.transforms, list.layout.DescribeHeader()),
        std::pair(&graph.warnings, list.layout.DescribeUnusedColumns())}) {
    if (!text.empty()) told->push_back(text);
  }
  return graph;
}

}  // namespace hearth::ingest
