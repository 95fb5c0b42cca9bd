#ifndef HEARTH_ENGINE_SAMPLE_EPOCH_PROFILE_H_
#define HEARTH_ENGINE_SAMPLE_EPOCH_PROFILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// The reads of an epoch, sampled without a history, and those that caching a
/// node would save of them (OUTRE, sections 4.4 and 5.3). Made by SavedIo.
struct EpochProfile {
  int64_t num_seeds = 0;
  /// Rows that the batches need.
  int64_t num_rows = 0;
  /// Neighbors drawn from lists on disk, and the 4 KiB pages they are on.
  int64_t num_drawn = 0;
  int64_t drawn_pages = 0;
  /// 4 KiB pages of a row.
  int64_t row_pages = 1;
  /// Rows for each seed in batches of the same seeds in random order; 0 =
  /// unknown.
  double shuffled_redundancy = 0;
  /// [num_nodes] batches that need the row of each node (saved_I/O_feat).
  std::vector<float> features;
  /// [num_nodes] neighbors drawn from lists on disk in the trees below each
  /// node, wherever it is a source of the last block (saved_I/O^sample_hist).
  std::vector<float> sampled;
  /// [num_nodes] nodes that came into their batches by these trees alone
  /// (saved_I/O^gather_hist).
  std::vector<float> gathered;

  bool operator==(const EpochProfile&) const = default;

  int64_t num_nodes() const { return static_cast<int64_t>(features.size()); }

  /// Rows for each seed: the redundancy ratio (section 3.1).
  double redundancy() const;

  /// The weight of a drawn neighbor against that of a row (beta, equation 3),
  /// with pages to be read in place of seconds, which would differ from run to
  /// run; 1 if nothing was to be read.
  double beta() const;

  /// The reads that keeping the embedding of `node` saves, in rows (saved_I/O_
  /// hist, equation 4).
  double SavedByHistory(store::NodeId node, double beta) const {
    return beta * double{sampled[node]} + double{gathered[node]};
  }

  /// The `count` nodes whose histories save most, the best first; of equal ones
  /// the lower id. Takes 8 bytes a node.
  std::vector<store::NodeId> BestHistories(int64_t count, double beta) const;
};

/// Bytes of the profile of a graph of `num_nodes`, in memory and, with little
/// more, in its file.
uint64_t EpochProfileBytes(int64_t num_nodes);

/// Replaces the file `path` by the profile, durably.
absl::Status WriteEpochProfile(io::FileSystem& files, const std::string& path,
                               const EpochProfile& profile);

/// Reads what WriteEpochProfile wrote for a graph of `num_nodes`. NOT_FOUND if
/// it is not there; DATA_LOSS, naming the file, if it is damaged or of another
/// size; FAILED_PRECONDITION if another version of Hearth wrote it.
absl::StatusOr<EpochProfile> ReadEpochProfile(io::FileSystem& files,
                                              const std::string& path,
                                              int64_t num_nodes);

/// Profiles an epoch from its batches, sampled without a history. Its numbers
/// are as exact as float32 is. Single-owner.
class SavedIo {
 public:
  struct Options {
    int64_t num_nodes = 0;
    /// Bytes of a neighbor in a list, and of a row of the features.
    int64_t index_bytes = 4;
    int64_t row_bytes = 0;
  };

  explicit SavedIo(const Options& options);

  /// Counts a batch of two layers or more; `list_is_resident` tells whether a
  /// node's list of neighbors is in memory while it is sampled, so that drawing
  /// from it reads nothing. REQUIRES: the batch has no top layer.
  void Add(const MiniBatch& batch,
           absl::FunctionRef<bool(store::NodeId)> list_is_resident);

  const EpochProfile& profile() const { return profile_; }

  /// Counts of the epoch, to be kept. Nothing else may follow.
  EpochProfile TakeProfile() && { return std::move(profile_); }

 private:
  // Adds, for each source of the last block, the weight of the edges below it
  // that `counts(layer, row, edge)` picks to `totals`.
  template <typename Counts>
  void AddTrees(const MiniBatch& batch, const Counts& counts,
                std::vector<float>& totals);

  const int64_t index_bytes_;
  EpochProfile profile_;
  // Scratch: the weights of the nodes above and below a block, and whether each
  // source has been introduced.
  std::vector<float> weights_;
  std::vector<float> below_;
  std::vector<bool> introduced_;
};

/// The memory that rows and embeddings of earlier batches share.
struct SharedCache {
  uint64_t bytes = 0;
  /// Rows, and embeddings, for which so many bytes have room, tables included;
  /// neither falls when the bytes rise.
  absl::FunctionRef<int64_t(uint64_t bytes)> rows_within;
  absl::FunctionRef<int64_t(uint64_t bytes)> embeddings_within;
};

/// A share of the memory for each.
struct CacheSplit {
  /// The part of the memory that embeddings get, within 0 .. 1 (alpha).
  double share = 0;
  uint64_t embedding_bytes = 0;
  uint64_t row_bytes = 0;
  /// Embeddings, at most one a node.
  int64_t embeddings = 0;
  /// The reads of an epoch that both save, in rows (benefit, equation 5).
  double saved_rows = 0;

  bool operator==(const CacheSplit&) const = default;
};

/// Splits the memory so that most reads are saved (OUTRE, section 4.4): of the
/// shares 0, 0.01 .. 1 the one of most benefit, of equal ones the smallest; or
/// as `share` says. Takes 8 bytes a node.
CacheSplit SplitCache(const EpochProfile& profile, double beta,
                      const SharedCache& cache,
                      std::optional<double> share = std::nullopt);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_EPOCH_PROFILE_H_
