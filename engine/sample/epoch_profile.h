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

/// Reads that caching a node's row or embedding would save in an epoch (OUTRE,
/// sections 4.4 and 5.3): counted from batches, kept in a file, and used to
/// split a cache.

namespace hearth::sample {

/// Reads of an epoch that is sampled without a history, and the reads that
/// caching each node would save (OUTRE, sections 4.4 and 5.3). Made by
/// EpochProfiler.
struct EpochProfile {
  int64_t num_seeds = 0;
  /// Rows that the batches need.
  int64_t num_rows = 0;
  /// Neighbors drawn from lists on disk, and the 4 KiB pages that hold them.
  int64_t num_drawn = 0;
  int64_t drawn_pages = 0;
  /// 4 KiB pages of one row.
  int64_t row_pages = 1;
  /// Rows per seed in batches of the same seeds in random order; 0: unknown.
  double shuffled_redundancy = 0;
  /// [num_nodes] number of batches that need each node's row (saved_I/O_feat).
  std::vector<float> features;
  /// [num_nodes] neighbors drawn from lists on disk in the trees below each
  /// node, wherever it is a source of the last block (saved_I/O^sample_hist).
  std::vector<float> sampled;
  /// [num_nodes] nodes that enter their batches through these trees alone
  /// (saved_I/O^gather_hist).
  std::vector<float> gathered;

  bool operator==(const EpochProfile&) const = default;

  int64_t num_nodes() const { return static_cast<int64_t>(features.size()); }

  /// Rows per seed: the redundancy ratio (section 3.1).
  double redundancy() const;

  /// Weight of a drawn neighbor relative to a row (beta, equation 3), counted
  /// in pages to read instead of seconds, which would differ from run to run; 1
  /// if nothing is read.
  double beta() const;

  /// Reads that keeping the embedding of `node` saves, in rows (saved_I/O_hist,
  /// equation 4).
  double SavedByHistory(store::NodeId node, double beta) const {
    return beta * double{sampled[node]} + double{gathered[node]};
  }

  /// The `count` nodes whose embeddings save most reads, the best first, ties
  /// by lower id. Takes 8 bytes a node.
  std::vector<store::NodeId> BestHistories(int64_t count, double beta) const;
};

/// Bytes of a profile of `num_nodes` nodes, in memory and (a few more) on disk.
uint64_t EpochProfileBytes(int64_t num_nodes);

/// Replaces the file `path` by the profile, durably.
absl::Status WriteEpochProfile(io::FileSystem& files, const std::string& path,
                               const EpochProfile& profile);

/// Reads a profile that WriteEpochProfile wrote for a graph of `num_nodes`.
/// NOT_FOUND if there is no file; DATA_LOSS, naming the file, if it is damaged
/// or of another size; FAILED_PRECONDITION if another version of Hearth wrote
/// it.
absl::StatusOr<EpochProfile> ReadEpochProfile(io::FileSystem& files,
                                              const std::string& path,
                                              int64_t num_nodes);

/// Makes the profile of an epoch from its batches, sampled without a history.
/// Sums are as exact as float32 is. Single-owner.
class EpochProfiler {
 public:
  struct Options {
    int64_t num_nodes = 0;
    /// Bytes of one neighbor in a list, and of one row of the features.
    int64_t index_bytes = 4;
    int64_t row_bytes = 0;
  };

  explicit EpochProfiler(const Options& options);

  /// Counts a batch of two layers or more. `list_is_resident` tells whether a
  /// node's neighbor list is in memory while it is sampled, so that drawing
  /// from it reads nothing. REQUIRES: the batch has no top layer.
  void Add(const MiniBatch& batch,
           absl::FunctionRef<bool(store::NodeId)> list_is_resident);

  const EpochProfile& profile() const { return profile_; }

  /// Moves the profile out; the profiler is unusable afterwards.
  EpochProfile TakeProfile() && { return std::move(profile_); }

 private:
  // Adds, for each source of the last block, the weight of the edges below it
  // that `counts(layer, row, edge)` picks to `totals`.
  template <typename Counts>
  void AddTrees(const MiniBatch& batch, const Counts& counts,
                std::vector<float>& totals);

  const int64_t index_bytes_;
  EpochProfile profile_;
  // Scratch: weights of the nodes above and below a block, and whether each
  // source has been counted as new.
  std::vector<float> weights_;
  std::vector<float> below_;
  std::vector<bool> introduced_;
};

/// Memory that rows and embeddings of earlier batches share.
struct SharedCache {
  uint64_t bytes = 0;
  /// Rows, or embeddings, that fit into `bytes`, tables included. Neither falls
  /// when `bytes` rises.
  absl::FunctionRef<int64_t(uint64_t bytes)> rows_within;
  absl::FunctionRef<int64_t(uint64_t bytes)> embeddings_within;
};

/// Shares of a SharedCache for rows and embeddings.
struct CacheSplit {
  /// Fraction of the memory for embeddings, 0 .. 1 (alpha).
  double share = 0;
  uint64_t embedding_bytes = 0;
  uint64_t row_bytes = 0;
  /// Embeddings, at most one per node.
  int64_t embeddings = 0;
  /// Reads of an epoch that both save, in rows (benefit, equation 5).
  double saved_rows = 0;

  bool operator==(const CacheSplit&) const = default;
};

/// Splits the memory so that most reads are saved (OUTRE, section 4.4): of the
/// shares 0, 0.01 .. 1 the one with the highest benefit, the smallest of
/// equals; or as `share` says. Takes 8 bytes a node.
CacheSplit SplitCache(const EpochProfile& profile, double beta,
                      const SharedCache& cache,
                      std::optional<double> share = std::nullopt);

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_EPOCH_PROFILE_H_
