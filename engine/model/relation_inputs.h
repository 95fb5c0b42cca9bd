#ifndef HEARTH_ENGINE_MODEL_RELATION_INPUTS_H_
#define HEARTH_ENGINE_MODEL_RELATION_INPUTS_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/model/relation_blocks.h"
#include "engine/model/row_functions.h"

namespace hearth::model {

/// The rows that the relations of a layer read: sets of rows of one matrix,
/// first added, then taken, each once. Where the matrix needs a gradient, all
/// are gathered with the first, so that the gradient is one matrix; where it
/// does not, as in the first layer, each when it is taken, so that one is held
/// at a time. Single-owner.
class RelationInputs {
 public:
  explicit RelationInputs(at::Tensor x) : x_(std::move(x)) {}

  /// Returns the set's number. REQUIRES: none was taken.
  size_t Add(RowSet set);

  /// The rows of set number `set`.
  at::Tensor Take(size_t set);

  /// The mean over each destination's edges in `relation`, whose sources are
  /// set number `set`, multiplied by `weight`, [out, columns]: [destinations of
  /// the relation, out]. Takes the set, or sums rows where they lie.
  at::Tensor TakeMean(size_t set, const RelationBlock& relation,
                      const at::Tensor& weight);

 private:
  at::Tensor x_;
  std::vector<RowSet> sets_;
  // Where x_ needs a gradient: all sets, from the first Take on.
  std::vector<at::Tensor> gathered_;
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_RELATION_INPUTS_H_
