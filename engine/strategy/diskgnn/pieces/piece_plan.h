#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PIECES_PIECE_PLAN_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PIECES_PIECE_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/packing/pack_batches.h"
#include "engine/strategy/pass.h"

/// The work of a plan, cut into pieces that are made anywhere (README.md): the
/// files that say how (PiecePlan).

namespace hearth::strategy {

/// What all pieces of a plan have in common.
struct PieceOrigin {
  /// The plan's name in the plan store, and its number (PlanKey).
  std::string plan;
  uint64_t plan_id = 0;
  /// Name, folder, fingerprint and target type of the dataset.
  std::string dataset;
  std::string dataset_path;
  std::string fingerprint;
  std::string target;
  /// Nodes of all types, each of which has a row.
  int64_t num_nodes = 0;
};

/// Memory of the samples of a shard, as the maker of the plan has measured.
struct SampleMemory {
  uint64_t sample_bytes = 0;
  /// What a sampler keeps beside them.
  uint64_t sampler_bytes = 0;
};

/// A pass that pieces sample. The shards of all passes are numbered one behind
/// the other.
struct PassOfPieces {
  /// Without an order: pieces read its seeds from the folder.
  Pass pass;
  /// DigestOfPass, by which the seeds are checked.
  std::string digest;
  int64_t num_seeds = 0;
  int64_t first_shard = 0;
  int64_t num_shards = 0;
};

/// How the work of a round is cut into pieces, numbered from 0. Round 1 samples
/// the batches; round 2 packs them, once it is known from all samples which
/// rows lie where.
struct PiecePlan {
  enum class Round { kSamples, kPacks };

  /// To be raised when plans of pieces, or pieces, are written differently.
  static constexpr int kVersion = 1;
  static constexpr int64_t kMaxPieces = 512;
  /// Names of the files, sealed like manifests.
  static constexpr char kSamplesFile[] = "samples.json";
  static constexpr char kPacksFile[] = "packs.json";

  Round round = Round::kSamples;
  /// Path of the file, and digest of its contents, which its pieces name.
  std::string path;
  std::string sha256;
  PieceOrigin origin;
  /// Piece i has the batches bounds[i] .. bounds[i + 1] - 1: of several
  /// trainers, these are shards.
  std::vector<int64_t> bounds;

  /// Of round 1.
  std::vector<PassOfPieces> passes;
  SampleMemory memory;

  /// Of round 2: digest of the plan of round 1, and of the files with the nodes
  /// in memory and with the layout.
  std::string samples_sha256;
  std::string levels_sha256;
  std::string layout_sha256;
  Segmentation segmentation;
  /// Rows in the disk cache before each piece, and behind the last one.
  std::vector<int64_t> disk_rows;
  /// For people: why the layout was chosen.
  std::string reason;

  int64_t num_pieces() const { return std::ssize(bounds) - 1; }
  int64_t num_batches() const { return bounds.back(); }
  int64_t first_batch(int64_t piece) const { return bounds[piece]; }
  int64_t num_batches_of(int64_t piece) const {
    return bounds[piece + 1] - bounds[piece];
  }
};

/// Name of the folder of piece `index`: "samples-000012".
std::string PieceName(PiecePlan::Round round, int64_t index);

/// Plans round 1 in `folder`, which is made if need be: the shards of `passes`,
/// from their first batches on, in about `num_pieces` pieces of equal length. A
/// plan of the same origin that is there stays, with its pieces.
/// FAILED_PRECONDITION, with both fingerprints or names, if the folder has a
/// plan of another origin or version; INVALID_ARGUMENT for a history.
absl::StatusOr<PiecePlan> PlanSamplePieces(io::FileSystem& files,
                                           const PieceOrigin& origin,
                                           absl::Span<const Pass> passes,
                                           int64_t num_pieces,
                                           const std::string& folder);

/// What round 2 needs to know of all batches.
struct PackDecision {
  const MemoryLevels& levels;
  const Segmentation& segmentation;
  /// MeasureLayout of these.
  const PackedLayout& layout;
};

/// Plans round 2 beside round 1: segments in about `num_pieces` pieces.
/// Replaces an earlier plan of round 2.
absl::StatusOr<PiecePlan> PlanPackPieces(io::FileSystem& files,
                                         const PiecePlan& samples,
                                         const PackDecision& decision,
                                         const std::string& reason,
                                         int64_t num_pieces);

/// Reads the file of a plan of either round. NOT_FOUND; DATA_LOSS if it is
/// damaged; FAILED_PRECONDITION if another version made it; INVALID_ARGUMENT if
/// it is no such plan.
absl::StatusOr<PiecePlan> ReadPiecePlan(io::FileSystem& files,
                                        const std::string& path);

/// Whether the file at `path` looks like one of PiecePlan, whatever its state.
absl::StatusOr<bool> IsPiecePlan(io::FileSystem& files,
                                 const std::string& path);

/// The plan of round 2 that belongs to `samples`; absent if it is to be made.
absl::StatusOr<std::optional<PiecePlan>> FindPackPlan(io::FileSystem& files,
                                                      const PiecePlan& samples);

/// The seeds of pass `index`. DATA_LOSS if they are not those of the plan.
absl::StatusOr<std::vector<store::NodeId>> ReadSeeds(io::FileSystem& files,
                                                     const PiecePlan& plan,
                                                     size_t index);

/// The nodes in memory and the layout of round 2. DATA_LOSS if they are not
/// those of the plan.
absl::StatusOr<MemoryLevels> ReadLevels(io::FileSystem& files,
                                        const PiecePlan& plan);
absl::StatusOr<PackedLayout> ReadLayout(io::FileSystem& files,
                                        const PiecePlan& plan);

/// What piece `index` of round 2 packs, out of `layout`.
PackPart PartOf(const PiecePlan& plan, const PackedLayout& layout,
                int64_t index);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PIECES_PIECE_PLAN_H_
