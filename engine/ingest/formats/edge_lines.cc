#include "engine/ingest/formats/edge_lines.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/edge_list_layout.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/formats/node_numbering.h"
#include "engine/ingest/formats/text_arrays.h"
#include "engine/ingest/parse/delimited_text.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

namespace hearth::ingest {
namespace {

// Ids up to this multiple of the number of edges are taken for node numbers.
constexpr int64_t kMaxNodesPerEdge = 16;
constexpr int64_t kMinNodesAllowed = 1 << 16;

using TakeEdge =
    absl::FunctionRef<absl::Status(int64_t source, int64_t destination)>;

absl::Status ReadNumberedLines(ImportContext& context, TextLines& lines,
                               const EdgeListLayout& layout, TakeEdge take,
                               EdgeLineFacts& facts) {
  EdgeFields fields(layout);
  const bool is_plain = layout.IsPlain();
  return ForEachEdgeLine(context, lines, layout, [&](const TextLines& line) {
    std::array<int64_t, 2> edge = {};
    const absl::Status status =
        is_plain ? ParseFields(line, layout.SeparatorOf(line.line()),
                               absl::MakeSpan(edge))
                 : fields.Parse(line, edge);
    if (!status.ok()) return fields.Explain(line, status);
    const auto [least, most] = std::minmax(edge[0], edge[1]);
    if (least < 0 || most == INT64_MAX) {
      return line.Error(absl::StrCat(
          "has id ", least < 0 ? least : most,
          ", which is no number of a node; such ids need --relabel"));
    }
    facts.last_id = std::max(facts.last_id, most);
    ++facts.num_edges;
    return take(edge[0], edge[1]);
  });
}

/// Takes the entries of a Matrix Market file one by one.
class MatrixEntries {
 public:
  MatrixEntries(const MatrixMarketHeader& matrix, TakeEdge take,
                EdgeLineFacts& facts)
      : matrix_(matrix), take_(take), facts_(facts) {}

  absl::Status Add(const TextLines& line, std::array<int64_t, 2> entry) {
    for (int64_t& id : entry) {
      if (id < 1 || id > matrix_.num_nodes) {
        return line.Error(absl::StrCat("has id ", id, "; rows and columns are ",
                                       "1 .. ", matrix_.num_nodes));
      }
      --id;
    }
    if (facts_.num_entries == matrix_.num_entries) {
      return line.Error(absl::StrCat("is one more than the ",
                                     matrix_.num_entries,
                                     " entries of the line of sizes"));
    }
    ++facts_.num_entries;
    HEARTH_RETURN_IF_ERROR(Take(entry[0], entry[1]));
    if (!matrix_.is_symmetric || entry[0] == entry[1]) return absl::OkStatus();
    (entry[0] > entry[1] ? facts_.has_below : facts_.has_above) = true;
    if (facts_.has_below && facts_.has_above) {
      return line.Error(
          "is on the other side of the diagonal than the entries before; of a "
          "symmetric matrix one side is given");
    }
    return Take(entry[1], entry[0]);
  }

 private:
  absl::Status Take(int64_t source, int64_t destination) {
    ++facts_.num_edges;
    facts_.last_id = std::max({facts_.last_id, source, destination});
    return take_(source, destination);
  }

  const MatrixMarketHeader& matrix_;
  const TakeEdge take_;
  EdgeLineFacts& facts_;
};

}  // namespace

void EdgeListText::TellIn(std::vector<std::string>& transforms,
                          std::vector<std::string>& warnings) const {
  if (has_mark) transforms.push_back("byte order mark skipped");
  for (auto& [told, text] :
       {std::pair(&transforms, layout.DescribeHeader()),
        std::pair(&warnings, layout.DescribeUnusedColumns())}) {
    if (!text.empty()) told->push_back(text);
  }
}

absl::StatusOr<EdgeListText> ReadEdgeListText(ImportContext& context,
                                              const std::string& path,
                                              const EdgeListOptions& options) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TextLines> lines,
                          OpenTextLines(context, path));
  HEARTH_ASSIGN_OR_RETURN(
      const EdgeListHead head,
      ReadEdgeListHead(*lines, std::numeric_limits<int64_t>::max()));
  EdgeListText text;
  text.path = path;
  text.has_mark = head.has_mark;
  HEARTH_ASSIGN_OR_RETURN(text.layout, FindEdgeListLayout(head, options));
  return text;
}

absl::Status ForEachEdgeLine(
    ImportContext& context, TextLines& lines, const EdgeListLayout& layout,
    absl::FunctionRef<absl::Status(const TextLines& line)> visit) {
  return ForEachLine(context, lines, [&](const TextLines& line) {
    return IsEdgeListComment(line.line()) || line.number() == layout.header_line
               ? absl::OkStatus()
               : visit(line);
  });
}

absl::Status EdgeFields::Split(const TextLines& line) {
  SplitFields(line.line(), layout_.SeparatorOf(line.line()), fields_);
  if (fields_.size() == layout_.num_columns) return absl::OkStatus();
  return line.Error(absl::StrCat("has ", fields_.size(), " fields; ",
                                 layout_.num_columns, " are needed"));
}

absl::Status EdgeFields::Parse(const TextLines& line,
                               std::array<int64_t, 2>& edge) {
  HEARTH_RETURN_IF_ERROR(Split(line));
  for (size_t end = 0; end < edge.size(); ++end) {
    HEARTH_RETURN_IF_ERROR(
        ParseField(line, fields_, layout_.columns[end], edge[end]));
  }
  return absl::OkStatus();
}

absl::Status EdgeFields::Explain(const TextLines& line,
                                 const absl::Status& status) {
  if (!Split(line).ok() || (LooksLikeNumber(id(0)) && LooksLikeNumber(id(1)))) {
    return status;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(status.message(), "; ids that are text need --relabel"));
}

void EdgeLineFacts::Add(const EdgeLineFacts& part) {
  num_edges += part.num_edges;
  last_id = std::max(last_id, part.last_id);
  num_entries += part.num_entries;
  has_below = has_below || part.has_below;
  has_above = has_above || part.has_above;
}

absl::Status ReadEdgeLines(ImportContext& context, TextLines& lines,
                           const EdgeListLayout& layout, TakeEdge take,
                           EdgeLineFacts& facts) {
  if (!layout.matrix.has_value()) {
    return ReadNumberedLines(context, lines, layout, take, facts);
  }
  EdgeFields fields(layout);
  MatrixEntries entries(*layout.matrix, take, facts);
  return ForEachEdgeLine(context, lines, layout, [&](const TextLines& line) {
    std::array<int64_t, 2> entry = {};
    HEARTH_RETURN_IF_ERROR(fields.Parse(line, entry));
    return entries.Add(line, entry);
  });
}

std::optional<int64_t> ParseNumberId(absl::string_view id) {
  int64_t number = 0;
  const char* const end = id.data() + id.size();
  const auto result = std::from_chars(id.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end ||
      absl::AlphaNum(number).Piece() != id) {
    return std::nullopt;
  }
  return number;
}

absl::Status ReadNumberIdLines(ImportContext& context, TextLines& lines,
                               const EdgeListLayout& layout, TakeEdge take,
                               EdgeLineFacts& facts) {
  EdgeFields fields(layout);
  return ForEachEdgeLine(context, lines, layout, [&](const TextLines& line) {
    HEARTH_RETURN_IF_ERROR(fields.Split(line));
    const std::optional<int64_t> source = ParseNumberId(fields.id(0));
    const std::optional<int64_t> destination = ParseNumberId(fields.id(1));
    if (!source.has_value() || !destination.has_value()) {
      return line.Error("has an id that is no number");
    }
    ++facts.num_edges;
    return take(*source, *destination);
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

absl::Status CheckEdgeLines(const std::string& source,
                            const EdgeListLayout& layout,
                            const EdgeLineFacts& facts) {
  if (!layout.matrix.has_value()) {
    return CheckDensity(source, facts.last_id + 1, facts.num_edges);
  }
  if (facts.num_entries != layout.matrix->num_entries) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": has ", facts.num_entries, " entries; line ",
                     layout.header_line, " says ", layout.matrix->num_entries));
  }
  if (facts.has_below && facts.has_above) {
    return absl::InvalidArgumentError(absl::StrCat(
        source,
        ": has entries on both sides of the diagonal; of a symmetric matrix "
        "one side is given"));
  }
  if (facts.num_edges > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(source, ": has no edges"));
}

absl::StatusOr<SourceGraph> GraphOfNumberedEdges(const std::string& source,
                                                 NumberedEdges numbered,
                                                 bool ids_are_text) {
  HEARTH_RETURN_IF_ERROR(
      CheckDensity(source, numbered.num_nodes, numbered.edges->num_edges()));
  SourceGraph graph;
  SourceNodes& nodes = graph.nodes.emplace_back();
  nodes.num_nodes = numbered.num_nodes;
  (ids_are_text ? nodes.id_text : nodes.ids) = std::move(numbered.ids);
  graph.edges.emplace_back().edges = std::move(numbered.edges);
  graph.transforms.push_back(
      absl::StrCat("ids numbered in ascending order: ", nodes.num_nodes,
                   nodes.num_nodes == 1 ? " node" : " nodes"));
  return graph;
}

SourceGraph GraphOfEdgeLines(const EdgeListLayout& layout,
                             const EdgeLineFacts& facts,
                             std::unique_ptr<EdgeSource> edges) {
  SourceGraph graph;
  graph.nodes.emplace_back().num_nodes = facts.last_id + 1;
  graph.edges.emplace_back().edges = std::move(edges);
  if (!layout.matrix.has_value()) return graph;
  graph.nodes[0].num_nodes = layout.matrix->num_nodes;
  graph.transforms.push_back(
      absl::StrCat("read as a Matrix Market file: row and column 1 are node 0",
                   layout.matrix->is_symmetric
                       ? "; edges in both directions, it is symmetric"
                       : ""));
  return graph;
}

}  // namespace hearth::ingest
