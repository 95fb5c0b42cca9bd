#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PIECES_PLAN_PIECES_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PIECES_PLAN_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/plan/access_trace.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/pieces/piece_plan.h"
#include "engine/strategy/packing/sample_spool.h"
#include "engine/strategy/pass.h"

/// Pieces of a plan: making one, finding those that are missing, the samples of
/// round 1 as a trace, and the join.

namespace hearth::strategy {

/// How a piece is made, which changes no byte of it.
struct PieceMaking {
  io::FileSystem& files;
  /// Folder of the dataset; empty: the plan's.
  std::string dataset_path = {};
  /// Memory of the whole piece at most, without pages that the kernel may drop.
  uint64_t memory_bytes = uint64_t{1} << 30;
  int threads = 1;
  std::stop_token stop = {};
};

/// Makes piece `index` in `folder`, and replaces an earlier one; it is there
/// whole or not at all. Pieces of round 2 are made from those of round 1, which
/// are beside the plan. A process that is killed leaves a folder whose name
/// ends with ".tmp", which nobody reads. INVALID_ARGUMENT if there is no such
/// piece; FAILED_PRECONDITION, with both fingerprints, for another dataset;
/// RESOURCE_EXHAUSTED, with the numbers, if the memory does not suffice;
/// NOT_FOUND and DATA_LOSS, with the command that makes it, if a piece of round
/// 1 is missing or damaged.
absl::Status MakePlanPiece(const PieceMaking& making, const PiecePlan& plan,
                           int64_t index, const std::string& folder);

/// A piece that is to be made, and why.
struct MissingPlanPiece {
  int64_t index = 0;
  /// NOT_FOUND if it is not there; DATA_LOSS if it is damaged;
  /// FAILED_PRECONDITION if it belongs to another plan. With the command that
  /// makes it.
  absl::Status fault;
};

/// The pieces of the plan that `folder` does not have. With `read_all`, all of
/// their bytes are compared with their checksums, else only what they say of
/// themselves. CANCELLED when `stop` is requested.
absl::StatusOr<std::vector<MissingPlanPiece>> FindMissingPlanPieces(
    io::FileSystem& files, const PiecePlan& plan, const std::string& folder,
    bool read_all, const std::stop_token& stop);

/// A run of the samples of round 1, out of their pieces: batch i of the trace
/// is batch first + i of the plan. Single-owner, except Read.
class SamplePieces final : public plan::AccessTrace, public EncodedSamples {
 public:
  /// Opens the pieces of batches [first, first + count). Errors of
  /// MissingPlanPiece for one that is not as it should be, here and when it is
  /// read.
  static absl::StatusOr<std::unique_ptr<SamplePieces>> Open(
      io::FileSystem& files, const PiecePlan& plan, const std::string& folder,
      int64_t first, int64_t count);

  int64_t num_batches() const override { return std::ssize(sizes_); }
  absl::StatusOr<absl::Span<const store::NodeId>> Load(int64_t batch) override;
  absl::Span<const uint64_t> sizes() const override { return sizes_; }
  absl::Status Read(int64_t batch, absl::Span<std::byte> out) override;

 private:
  struct Piece {
    int64_t index = 0;
    // The batch of the trace with which it begins, which may be below 0.
    int64_t begin = 0;
    std::unique_ptr<SampleSpool> spool;
  };

  explicit SamplePieces(const PiecePlan& plan) : plan_(plan) {}
  Piece& PieceOf(int64_t batch);
  absl::Status Told(const absl::Status& status, const Piece& piece) const;

  const PiecePlan plan_;
  std::vector<Piece> pieces_;
  std::vector<uint64_t> sizes_;
};

/// Joins all pieces of round 2, in `from`, into the plan's files in `folder`:
/// the bytes that PackBatches writes. DATA_LOSS, with the command that makes
/// the piece, if one is damaged; otherwise errors as PackBatches.
struct PieceJoin {
  io::FileSystem& files;
  std::string from;
  std::string folder;
  int threads = 1;
  std::function<void(uint64_t done, uint64_t total)> progress = nullptr;
  std::stop_token stop = {};
};
absl::StatusOr<PackedLayout> JoinPackPieces(const PieceJoin& join,
                                            const PiecePlan& plan);

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PIECES_PLAN_PIECES_H_
