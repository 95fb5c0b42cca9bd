#ifndef HEARTH_ENGINE_MODEL_PRUNED_BATCH_H_
#define HEARTH_ENGINE_MODEL_PRUNED_BATCH_H_

#include <cstdint>
#include <vector>

#include "engine/model/synthetic_batch.h"
#include "engine/train/train_step.h"

namespace hearth::model {

/// A batch of two layers with a top layer, for tests, and the arrays that a
/// view of it refers to.
struct PrunedBatch {
  /// The view has `pushed` to write to.
  train::BatchView View();

  SyntheticBatch batch = {};
  int64_t width = 0;
  /// Embeddings of pulled nodes, and room for those of pushed ones.
  std::vector<float> pulled = {};
  std::vector<float> pushed = {};
};

/// `whole`, of whose top nodes those at `pulled` have their rows of
/// `embeddings`, [top nodes, width], and are not computed. All others are
/// pushed. REQUIRES: `whole` has two layers; `pulled` ascends.
PrunedBatch Prune(const SyntheticBatch& whole,
                  const std::vector<int32_t>& pulled,
                  const std::vector<float>& embeddings, int64_t width);

/// `whole` with a top layer of which all nodes are computed and pushed.
PrunedBatch WithTopLayer(const SyntheticBatch& whole, int64_t width);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_PRUNED_BATCH_H_
