#ifndef HEARTH_ENGINE_SAMPLE_SAVED_IO_H_
#define HEARTH_ENGINE_SAMPLE_SAVED_IO_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/sample/epoch_profile.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

namespace hearth::sample {

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

}  // namespace hearth::sample

#endif  // HEARTH_ENGINE_SAMPLE_SAVED_IO_H_
