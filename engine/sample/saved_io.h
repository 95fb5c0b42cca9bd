#ifndef HEARTH_ENGINE_SAMPLE_SAVED_IO_H_
#define HEARTH_ENGINE_SAMPLE_SAVED_IO_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

namespace hearth::sample {

/// The reads that caching a node would save in an epoch, counted in batches
/// that were sampled without a history: saved_I/O of OUTRE (sections 4.4 and
/// 5.3). Numbers are as exact as float32 is. Single-owner.
class SavedIo {
 public:
  struct Options {
    int64_t num_nodes = 0;
    /// Bytes of a neighbor in a list, and of a row of the features.
    int64_t index_bytes = 4;
    int64_t row_bytes = 0;
    /// Whether a node's list of neighbors is in memory while batches are
    /// sampled, so that drawing from it reads nothing.
    std::function<bool(store::NodeId)> list_is_cached;
  };

  explicit SavedIo(Options options);

  /// Counts a batch of two layers or more. REQUIRES: it has no top layer.
  void Add(const MiniBatch& batch);

  /// [num_nodes] batches that need the row of each node (saved_I/O_feat).
  const std::vector<float>& features() const { return features_; }

  /// [num_nodes] neighbors drawn from lists on disk in the trees below each
  /// node, wherever it is a source of the last block (saved_I/O^sample_hist).
  const std::vector<float>& sampled() const { return sampled_; }

  /// [num_nodes] nodes that came into their batches by these trees alone
  /// (saved_I/O^gather_hist).
  const std::vector<float>& gathered() const { return gathered_; }

  /// The weight of a drawn neighbor against that of a row (beta, equation 3),
  /// with 4 KiB pages to be read in place of seconds, which would differ from
  /// run to run; 1 if nothing was to be read.
  double beta() const;

  /// The `count` nodes whose histories save most (equation 4), the best first;
  /// of equal ones the lower id.
  std::vector<store::NodeId> BestHistories(int64_t count) const;

  /// Memory of all of it for a graph of `num_nodes`, BestHistories included.
  static uint64_t MemoryBytes(int64_t num_nodes);

 private:
  // Adds, for each source of the last block, the weight of the edges below it
  // that `counts(layer, row, edge)` picks to `totals`.
  template <typename Counts>
  void AddTrees(const MiniBatch& batch, const Counts& counts,
                std::vector<float>& totals);

  const Options options_;
  std::vector<float> features_;
  std::vector<float> sampled_;
  std::vector<float> gathered_;
  int64_t num_drawn_ = 0;
  int64_t pages_drawn_from_ = 0;
  int64_t num_rows_ = 0;
  // Scratch: the weights of the nodes above and below a block, and whether each
  // source has been introduced.
  std::vector<float> weights_;
  std::vector<float> below_;
  std::vector<bool> introduced_;
};

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_SAVED_IO_H_
