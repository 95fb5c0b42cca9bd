#ifndef HEARTH_ENGINE_MODEL_LAYERS_RELATIONAL_H_
#define HEARTH_ENGINE_MODEL_LAYERS_RELATIONAL_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/model/cpu/relations.h"
#include "engine/model/layers/model_kind.h"
#include "engine/model/layers/step_memory.h"
#include "engine/model/operators/graph_functions.h"

/// Layers of PyG's HeteroConv: one convolution for each relation, over rows
/// gathered by type.

namespace hearth::model {

/// Rows that the relations of a layer read: sets of rows of one matrix, first
/// added, then each taken once. Where the matrix needs a gradient, the first
/// Take gathers all sets, so that the gradient is one matrix; otherwise, as in
/// the first layer, each set is gathered when it is taken, so that only one is
/// held at a time. Single-owner.
class RelationInputs {
 public:
  explicit RelationInputs(at::Tensor x) : x_(std::move(x)) {}

  /// Adds a set and returns its number. REQUIRES: no set was taken.
  size_t Add(RowSet set);

  /// Rows of set number `set`.
  at::Tensor Take(size_t set);

  /// [destinations of the relation, out]: mean over each destination's edges in
  /// `relation`, whose sources are set number `set`, multiplied by `weight`,
  /// [out, columns]. Takes the set, or sums its rows in place.
  at::Tensor TakeMean(size_t set, const RelationBlock& relation,
                      const at::Tensor& weight);

 private:
  at::Tensor x_;
  std::vector<RowSet> sets_;
  // All sets, from the first Take on, if x_ needs a gradient.
  std::vector<at::Tensor> gathered_;
};

/// Convolution of one relation in a layer of PyG's HeteroConv, with parameters
/// named as in its state_dict. Single-owner. Throws what LibTorch throws.
class RelationConvolution {
 public:
  virtual ~RelationConvolution() = default;

  /// Numbers of the relation's sets in RelationInputs.
  struct Sets {
    size_t sources = 0;
    /// Only if reads_destinations().
    size_t destinations = 0;
  };

  /// Rows of the relation's destinations, before the bias.
  virtual at::Tensor Forward(const RelationBlock& relation, const Sets& sets,
                             RelationInputs& inputs) const = 0;

  /// Whether Forward reads the rows of destinations.
  virtual bool reads_destinations() const { return false; }

  /// Bias, added to every node of the destination type, also without in-edges.
  virtual const at::Tensor& bias() const = 0;

  /// Parameters in the order in which they were drawn, the bias included.
  virtual std::vector<NamedTensor> parameters() const = 0;
};

/// Columns of a relation's ends and of its output, in a layer.
struct RelationPlace {
  int64_t source_columns = 0;
  int64_t destination_columns = 0;
  int64_t out = 0;
};

/// Columns of `relation` in the layer at `place`.
RelationPlace PlaceOf(const RelationSchema& schema, const Relation& relation,
                      const LayerPlace& place);

/// Makes the convolutions of a layer's live relations, in order.
using NewRelationConvolution =
    std::function<std::unique_ptr<RelationConvolution>(const RelationPlace&)>;

/// A layer of PyG's HeteroConv: sums over the relations that lead to a node.
/// Destinations of types without rows get zeros, which no later layer reads.
std::unique_ptr<Convolution> NewHeteroConvolution(
    const RelationSchema& schema, const LayerPlace& place,
    const NewRelationConvolution& new_convolution);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYERS_RELATIONAL_H_
