#include "engine/store/layout/edge_list_layout.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/store/import/edge_spool.h"
#include "engine/store/layout/text_arrays.h"
#include "engine/store/parse/delimited.h"
#include "engine/store/parse/gzip_file.h"
#include "engine/store/parse/text_lines.h"

namespace hearth::store {
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
  // What is no text, or a damaged gzip file, is no edge list.
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
  if (options.relabel) {
    return absl::UnimplementedError(
        absl::StrCat(source, ": ids cannot be relabeled yet"));
  }
  return OpenNumbered(context, source);
}

}  // namespace hearth::store
