#ifndef HEARTH_ENGINE_INGEST_FORMATS_EDGE_PIECES_H_
#define HEARTH_ENGINE_INGEST_FORMATS_EDGE_PIECES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/ingest/formats/edge_list_layout.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

/// Edge lists that are read in pieces, by many processes on any machines.
///
/// A plan cuts the texts into pieces of whole lines. A piece is a file with the
/// edges of these lines, in binary; its bytes are a function of the plan, the
/// texts and its number, so that it may be made anywhere and again. A folder
/// with a plan and all its pieces is opened like the texts themselves, one
/// behind the other, and gives the same dataset.

namespace hearth::ingest {

/// How edge lists are cut into pieces. Pieces are numbered from 0, through all
/// texts.
struct EdgePiecePlan {
  /// Name of a plan's file, sealed like a manifest.
  static constexpr char kFileName[] = "pieces.json";
  /// To be raised when plans or pieces are written differently.
  static constexpr int kVersion = 1;
  /// Most pieces of a plan.
  static constexpr int64_t kMaxPieces = 100'000;

  struct Text {
    /// Absolute path, the same wherever pieces are made.
    std::string path;
    /// Size and time of modification when the plan was made.
    uint64_t size_bytes = 0;
    int64_t modified_unix_nanos = 0;
    /// Offsets at which pieces begin, in ascending order, then the size. A
    /// compressed text is one piece.
    std::vector<int64_t> bounds;

    int64_t num_pieces() const {
      return static_cast<int64_t>(bounds.size()) - 1;
    }
  };

  /// Path of the plan's file.
  std::string path;
  /// Digest of the contents of the file, which its pieces name.
  std::string sha256;
  EdgeListOptions options;
  std::vector<Text> texts;
  /// What the texts are recognized by: see Format::recognize.
  std::string reason;
  /// What the layouts of the texts say: see SourceGraph.
  std::vector<std::string> transforms;
  std::vector<std::string> warnings;
  /// Of a Matrix Market file, its header and the number of its line of sizes.
  std::optional<MatrixMarketHeader> matrix;
  int64_t matrix_line = 0;

  int64_t num_pieces() const;
  /// Whether ids are any numbers, by which the nodes are numbered at the end.
  bool relabels() const { return options.relabel && !matrix.has_value(); }
};

/// Makes a plan for the edge lists at the absolute paths `texts`, in pieces of
/// about `piece_bytes` of text, and writes it to `folder`, which must exist.
/// Does nothing if the folder has the same plan; ALREADY_EXISTS if it has
/// another. With options.relabel, ids must be numbers, which a piece holds as
/// they are. INVALID_ARGUMENT for a Matrix Market file beside other texts, for
/// more than kMaxPieces; errors of RecognizeEdgeList and FindEdgeListLayout.
absl::StatusOr<EdgePiecePlan> PlanEdgePieces(
    ImportContext& context, const std::vector<std::string>& texts,
    const EdgeListOptions& options, uint64_t piece_bytes,
    const std::string& folder);

/// Reads the file of a plan. NOT_FOUND; DATA_LOSS if it is damaged;
/// INVALID_ARGUMENT if it is no plan of this version.
absl::StatusOr<EdgePiecePlan> ReadEdgePiecePlan(io::FileSystem& files,
                                                const std::string& path);

/// Name of the file of piece `index`: "piece-000012.edges".
std::string EdgePieceName(int64_t index);

/// Makes piece `index` in `folder`, and replaces an earlier one; it is there
/// whole or not at all. A process that is killed leaves a file whose name ends
/// with ".tmp", which nobody reads. INVALID_ARGUMENT if there is no such piece,
/// and naming the text for a line that holds no edge; FAILED_PRECONDITION if
/// the text was changed since the plan was made.
absl::Status MakeEdgePiece(ImportContext& context, const EdgePiecePlan& plan,
                           int64_t index, const std::string& folder);

/// A piece that is to be made, and why.
struct MissingPiece {
  int64_t index = 0;
  /// NOT_FOUND if it is not there; DATA_LOSS if it is damaged;
  /// FAILED_PRECONDITION if it belongs to another plan.
  absl::Status fault;
};

/// The pieces of the plan that `folder` does not have. With `read_all`, all
/// edges are read against their checksums, else only what each file says of
/// itself.
absl::StatusOr<std::vector<MissingPiece>> FindMissingPieces(
    ImportContext& context, const EdgePiecePlan& plan,
    const std::string& folder, bool read_all);

/// Reason why `source` looks like an edge list in pieces; empty if it is no
/// folder with a plan. Errors of ReadEdgePiecePlan.
absl::StatusOr<std::string> RecognizeEdgePieces(io::FileSystem& files,
                                                const std::string& source);

/// Opens the folder `source` of a plan with all its pieces. The graph is that
/// of OpenEdgeList of the plan's texts, one behind the other. `options` must be
/// the default: the plan has the options. Errors of MissingPiece for the first
/// piece that is not as it should be, here or when edges are read.
absl::StatusOr<SourceGraph> OpenEdgePieces(ImportContext& context,
                                           const std::string& source,
                                           const EdgeListOptions& options);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_EDGE_PIECES_H_
