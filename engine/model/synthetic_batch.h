#ifndef HEARTH_ENGINE_MODEL_SYNTHETIC_BATCH_H_
#define HEARTH_ENGINE_MODEL_SYNTHETIC_BATCH_H_

#include <stdlib.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/sample/mini_batch.h"
#include "engine/store/label_kind.h"
#include "engine/store/labels.h"
#include "engine/train/train_step.h"

namespace hearth::model {

/// Sizes of a batch to make.
struct SyntheticShape {
  /// Nodes after 0, 1, 2 ... hops, ascending: seeds first, input nodes last.
  std::vector<int64_t> nodes;
  /// A destination has 0 to this many sampled neighbors.
  int64_t max_neighbors = 3;
  int64_t feature_dim = 0;
  store::LabelKind label_kind = store::LabelKind::kClasses;
  int64_t label_width = 0;
  uint64_t seed = 0;
};

/// A random batch for tests and benchmarks, and the arrays that a view of it
/// refers to. In-degrees are at least the numbers of sampled neighbors.
struct SyntheticBatch {
  sample::MiniBatch sample;
  std::unique_ptr<float[], decltype(&free)> inputs{nullptr, &free};
  int64_t feature_dim = 0;
  store::Labels labels;

  train::BatchView View() const;
};

SyntheticBatch MakeBatch(const SyntheticShape& shape);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_SYNTHETIC_BATCH_H_
