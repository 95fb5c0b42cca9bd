#include "engine/ingest/formats/edge_list.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/id_table.h"
#include "engine/ingest/formats/node_numbering.h"
#include "engine/ingest/formats/text_arrays.h"
#include "engine/ingest/import/edge_spool.h"
#include "engine/ingest/parse/delimited.h"
#include "engine/ingest/parse/gzip_file.h"
#include "engine/ingest/parse/text_lines.h"

namespace hearth::ingest {
namespace {

// Ids up to so many times the number of edges are taken for numbers of nodes.
constexpr int64_t kMaxNodesPerEdge = 16;
constexpr int64_t kMinNodesAllowed = 1 << 16;
// Comments before the first edge that are looked at to recognize a file.
constexpr int64_t kMaxHeadLines = 1000;
constexpr size_t kMaxHeadLineBytes = 4096;

/// Whether a line holds no edge.
bool IsComment(absl::string_view line) {
  const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
  return text.empty() || text[0] == '#' || text[0] == '%';
}

Separator SeparatorOf(absl::string_view line) {
  return line.find(',') == absl::string_view::npos ? Separator::kBlank
                                                   : Separator::kComma;
}

bool IsPrintable(absl::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return c >= 0x80 || absl::ascii_isgraph(c);
         });
}

/// Whether the first line that is no comment has two fields of text.
absl::StatusOr<bool> BeginsWithEdge(std::unique_ptr<io::ReadableFile> file) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TextLines> lines,
                          TextLines::Open(std::move(file), kMaxHeadLineBytes));
  for (int64_t i = 0; i < kMaxHeadLines; ++i) {
    HEARTH_ASSIGN_OR_RETURN(const bool more, lines->Next());
    if (!more) return false;
    const absl::string_view line = lines->line();
    if (IsComment(line)) continue;
    std::vector<absl::string_view> fields;
    SplitFields(line, SeparatorOf(line), fields);
    return fields.size() == 2 && IsPrintable(fields[0]) &&
           IsPrintable(fields[1]);
  }
  return false;
}

/// A guess at the bytes of the edges, for a full disk to show before the work:
/// a line of text has about as many as a spooled edge has, and gzip makes it
/// half of that or less.
absl::Status CheckSpace(ImportContext& context, const std::string& source) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          context.files().OpenForRead(source));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  HEARTH_ASSIGN_OR_RETURN(const bool is_gzip, IsGzip(*file));
  return context.CheckSpace(info.size_bytes * (is_gzip ? 2 : 1),
                            absl::StrCat("unpacking ", source));
}

/// Calls `visit` with every line that holds an edge.
absl::Status ForEachEdgeLine(
    ImportContext& context, const std::string& source,
    absl::FunctionRef<absl::Status(const TextLines&)> visit) {
  return ForEachLine(context, source, [&](const TextLines& line) {
    return IsComment(line.line()) ? absl::OkStatus() : visit(line);
  });
}

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
                                         const std::string& source) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSpool> spool,
                          EdgeSpool::Create(context));
  int64_t last = -1;
  HEARTH_RETURN_IF_ERROR(
      ForEachEdgeLine(context, source, [&](const TextLines& line) {
        std::array<int64_t, 2> edge = {};
        HEARTH_RETURN_IF_ERROR(
            ParseFields(line, SeparatorOf(line.line()), absl::MakeSpan(edge)));
        const auto [least, most] = std::minmax(edge[0], edge[1]);
        if (least < 0 || most == INT64_MAX) {
          return line.Error(absl::StrCat(
              "has id ", least < 0 ? least : most,
              ", which is no number of a node; such ids need --relabel"));
        }
        last = std::max(last, most);
        return spool->Add(edge[0], edge[1]);
      }));
  HEARTH_RETURN_IF_ERROR(CheckDensity(source, last + 1, spool->num_edges()));
  SourceGraph graph;
  graph.nodes.emplace_back().num_nodes = last + 1;
  HEARTH_ASSIGN_OR_RETURN(graph.edges.emplace_back().edges, spool->Finish());
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

/// An id that is written as numbers are, without needless signs and zeros.
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

/// Reads edges whose ids may be anything. `text_found`: where kNumbers is
/// tried, whether it ended at an id that is no number.
absl::StatusOr<NumberedEdges> NumberNodes(ImportContext& context,
                                          const std::string& source,
                                          NodeNumbering::IdKind kind,
                                          bool& text_found) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<NodeNumbering> numbering,
                          NodeNumbering::Create(context, kind, source));
  std::vector<absl::string_view> ids;
  HEARTH_RETURN_IF_ERROR(
      ForEachEdgeLine(context, source, [&](const TextLines& line) {
        SplitFields(line.line(), SeparatorOf(line.line()), ids);
        if (ids.size() != 2) {
          return line.Error(
              absl::StrCat("has ", ids.size(), " fields; 2 are needed"));
        }
        for (const absl::string_view id : ids) {
          HEARTH_RETURN_IF_ERROR(CheckId(line, id));
        }
        if (kind == NodeNumbering::IdKind::kText) {
          return numbering->Add(ids[0], ids[1]);
        }
        const std::optional<int64_t> from = ParseNumber(ids[0]);
        const std::optional<int64_t> to = ParseNumber(ids[1]);
        text_found = !from.has_value() || !to.has_value();
        if (text_found) return line.Error("has an id that is no number");
        return numbering->Add(*from, *to);
      }));
  return numbering->Finish();
}

absl::StatusOr<SourceGraph> OpenRelabeled(ImportContext& context,
                                          const std::string& source) {
  bool text_found = false;
  absl::StatusOr<NumberedEdges> numbered =
      NumberNodes(context, source, NodeNumbering::IdKind::kNumbers, text_found);
  const bool is_text = text_found;
  if (is_text) {
    numbered =
        NumberNodes(context, source, NodeNumbering::IdKind::kText, text_found);
  }
  HEARTH_RETURN_IF_ERROR(numbered.status());
  HEARTH_RETURN_IF_ERROR(
      CheckDensity(source, numbered->num_nodes, numbered->edges->num_edges()));
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

}  // namespace

absl::StatusOr<std::string> RecognizeEdgeList(io::FileSystem& files,
                                              const std::string& source) {
  const absl::StatusOr<io::FileInfo> info = files.Stat(source);
  if (absl::IsNotFound(info.status())) return "";
  HEARTH_RETURN_IF_ERROR(info.status());
  if (!info->is_regular) return "";
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(source));
  const absl::StatusOr<bool> found = BeginsWithEdge(std::move(file));
  // Bytes that are no text, or a damaged gzip file, are no edge list.
  if (absl::IsInvalidArgument(found.status()) ||
      absl::IsDataLoss(found.status())) {
    return "";
  }
  HEARTH_RETURN_IF_ERROR(found.status());
  return *found ? "it is text with two ids a line" : "";
}

absl::StatusOr<SourceGraph> OpenEdgeList(ImportContext& context,
                                         const std::string& source,
                                         const EdgeListOptions& options) {
  const absl::StatusOr<io::FileInfo> info = context.files().Stat(source);
  if (absl::IsNotFound(info.status())) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": is missing"));
  }
  HEARTH_RETURN_IF_ERROR(info.status());
  HEARTH_RETURN_IF_ERROR(CheckSpace(context, source));
  return options.relabel ? OpenRelabeled(context, source)
                         : OpenNumbered(context, source);
}

}  // namespace hearth::ingest
