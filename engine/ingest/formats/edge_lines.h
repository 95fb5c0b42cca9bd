#ifndef HEARTH_ENGINE_INGEST_FORMATS_EDGE_LINES_H_
#define HEARTH_ENGINE_INGEST_FORMATS_EDGE_LINES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/formats/edge_list_layout.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/formats/node_numbering.h"
#include "engine/ingest/parse/delimited_text.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"

/// The edges in the lines of an edge list whose layout is known, of the whole
/// text or of a part of it, and the graph of all parts.

namespace hearth::ingest {

/// A text whose layout is known.
struct EdgeListText {
  std::string path;
  EdgeListLayout layout;
  /// Whether the text begins with a byte order mark.
  bool has_mark = false;

  /// Adds what the layout says to the transforms and warnings of a graph: see
  /// SourceGraph.
  void TellIn(std::vector<std::string>& transforms,
              std::vector<std::string>& warnings) const;
};

/// Reads the first lines of the text at `path`. Errors of OpenTextLines and
/// FindEdgeListLayout.
absl::StatusOr<EdgeListText> ReadEdgeListText(ImportContext& context,
                                              const std::string& path,
                                              const EdgeListOptions& options);

/// Calls `visit` with every line left of `lines` that holds an edge, in the
/// phase "reading".
absl::Status ForEachEdgeLine(
    ImportContext& context, TextLines& lines, const EdgeListLayout& layout,
    absl::FunctionRef<absl::Status(const TextLines& line)> visit);

/// Splits lines of edges as their layout says. Single-owner.
class EdgeFields {
 public:
  /// `layout` must outlive this.
  explicit EdgeFields(const EdgeListLayout& layout) : layout_(layout) {}

  /// INVALID_ARGUMENT, naming the line, if it has not as many fields as the
  /// layout says.
  absl::Status Split(const TextLines& line);

  /// Id of the source (0) or destination (1) of the line that was split.
  absl::string_view id(size_t end) const {
    return fields_[layout_.columns[end]];
  }

  /// Parses the ids of a line as integers; errors of Split and ParseField.
  absl::Status Parse(const TextLines& line, std::array<int64_t, 2>& edge);

  /// Error to report for a line whose ids could not be parsed.
  absl::Status Explain(const TextLines& line, const absl::Status& status);

 private:
  const EdgeListLayout& layout_;
  std::vector<absl::string_view> fields_;
};

/// What the lines of a text tell besides their edges. That of a whole text is
/// the sum of its parts.
struct EdgeLineFacts {
  int64_t num_edges = 0;
  /// Largest id of a node; -1 without edges.
  int64_t last_id = -1;
  /// Of a Matrix Market file: entries, and whether there are some below and
  /// above the diagonal of a symmetric matrix.
  int64_t num_entries = 0;
  bool has_below = false;
  bool has_above = false;

  void Add(const EdgeLineFacts& part);
};

/// Reads all lines that are left of `lines`, passes their edges to `take`, and
/// adds what they tell to `facts`. Ids are the numbers of nodes; those of a
/// Matrix Market file are brought to 0, and the entries of a symmetric one
/// become edges in both directions. INVALID_ARGUMENT naming the first line that
/// is wrong; errors of `take`.
absl::Status ReadEdgeLines(
    ImportContext& context, TextLines& lines, const EdgeListLayout& layout,
    absl::FunctionRef<absl::Status(int64_t source, int64_t destination)> take,
    EdgeLineFacts& facts);

/// The number of an id that is written without needless signs and zeros;
/// nullopt for any other id.
std::optional<int64_t> ParseNumberId(absl::string_view id);

/// The same for ids that are numbers, but not those of nodes (ParseNumberId):
/// they pass as they are, and facts.last_id stays. INVALID_ARGUMENT, naming the
/// line, for any other id. REQUIRES: the layout is of no matrix.
absl::Status ReadNumberIdLines(
    ImportContext& context, TextLines& lines, const EdgeListLayout& layout,
    absl::FunctionRef<absl::Status(int64_t source, int64_t destination)> take,
    EdgeLineFacts& facts);

/// Warning of a matrix that was to be relabeled.
inline constexpr char kMatrixIsNotRelabeled[] =
    "relabeling has no effect on a Matrix Market file, whose rows number the "
    "nodes";

/// INVALID_ARGUMENT if a graph of `num_nodes` nodes has no edges, or so few
/// that the ids are probably no numbers of nodes. `source` names the text.
absl::Status CheckDensity(const std::string& source, int64_t num_nodes,
                          int64_t num_edges);

/// CheckDensity of a whole text; of a Matrix Market file, INVALID_ARGUMENT
/// unless it has the entries that its header says, on one side of the diagonal
/// if it is symmetric.
absl::Status CheckEdgeLines(const std::string& source,
                            const EdgeListLayout& layout,
                            const EdgeLineFacts& facts);

/// The graph of a whole text whose nodes were numbered, with their ids as text
/// or numbers. Errors of CheckDensity.
absl::StatusOr<SourceGraph> GraphOfNumberedEdges(const std::string& source,
                                                 NumberedEdges numbered,
                                                 bool ids_are_text);

/// The graph of the edges of a whole text. REQUIRES: CheckEdgeLines.
SourceGraph GraphOfEdgeLines(const EdgeListLayout& layout,
                             const EdgeLineFacts& facts,
                             std::unique_ptr<EdgeSource> edges);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_EDGE_LINES_H_
