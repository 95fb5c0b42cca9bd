#include "engine/ingest/formats/edge_list.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/edge_lines.h"
#include "engine/ingest/formats/edge_list_layout.h"
#include "engine/ingest/formats/node_numbering.h"
#include "engine/ingest/formats/text_arrays.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/ingest/parse/delimited_text.h"
#include "engine/ingest/source/scratch_array.h"

namespace hearth::ingest {
namespace {

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
                                          const EdgeListText& list,
                                          NodeNumbering::IdKind kind,
                                          Finding& finding) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<NodeNumbering> numbering,
                          NodeNumbering::Create(context, kind, list.path));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TextLines> lines,
                          OpenTextLines(context, list.path));
  EdgeFields fields(list.layout);
  finding = Finding::kNone;
  HEARTH_RETURN_IF_ERROR(
      ForEachEdgeLine(context, *lines, list.layout, [&](const TextLines& line) {
        HEARTH_RETURN_IF_ERROR(fields.Split(line));
        const std::array<absl::string_view, 2> ids = {fields.id(0),
                                                      fields.id(1)};
        for (const absl::string_view id : ids) {
          HEARTH_RETURN_IF_ERROR(CheckId(line, id));
        }
        if (kind == NodeNumbering::IdKind::kNumbers) {
          const std::optional<int64_t> from = ParseNumberId(ids[0]);
          const std::optional<int64_t> to = ParseNumberId(ids[1]);
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
                                          EdgeListText& list) {
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
  return GraphOfNumberedEdges(list.path, *std::move(numbered), is_text);
}

/// The graph of ids that are the numbers of nodes, or of a matrix.
absl::StatusOr<SourceGraph> OpenNumbered(ImportContext& context,
                                         const EdgeListText& list) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSpool> spool,
                          EdgeSpool::Create(context));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TextLines> lines,
                          OpenTextLines(context, list.path));
  EdgeLineFacts facts;
  HEARTH_RETURN_IF_ERROR(ReadEdgeLines(
      context, *lines, list.layout,
      [&](int64_t source, int64_t destination) {
        return spool->Add(source, destination);
      },
      facts));
  HEARTH_RETURN_IF_ERROR(CheckEdgeLines(list.path, list.layout, facts));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<EdgeSource> edges, spool->Finish());
  return GraphOfEdgeLines(list.layout, facts, std::move(edges));
}

absl::StatusOr<SourceGraph> OpenList(ImportContext& context, EdgeListText& list,
                                     const EdgeListOptions& options) {
  if (options.relabel && !list.layout.matrix.has_value()) {
    return OpenRelabeled(context, list);
  }
  HEARTH_ASSIGN_OR_RETURN(SourceGraph graph, OpenNumbered(context, list));
  if (options.relabel) {
    graph.warnings.emplace_back(kMatrixIsNotRelabeled);
  }
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
  HEARTH_ASSIGN_OR_RETURN(EdgeListText list,
                          ReadEdgeListText(context, source, options));
  HEARTH_RETURN_IF_ERROR(CheckSpace(context, source));
  HEARTH_ASSIGN_OR_RETURN(SourceGraph graph, OpenList(context, list, options));
  list.TellIn(graph.transforms, graph.warnings);
  return graph;
}

}  // namespace hearth::ingest
