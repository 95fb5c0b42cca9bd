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

/// The convolution of one relation in a layer of PyG's HeteroConv, with its
/// parameters, named as in its state_dict. Single-owner. Throws what LibTorch
/// throws.
class RelationConvolution {
 public:
  virtual ~RelationConvolution() = default;

  /// Where the relation's rows are: numbers of sets in RelationInputs.
  struct Sets {
    size_t sources = 0;
    /// Where reads_destinations.
    size_t destinations = 0;
  };

  /// Rows of the relation's destinations, without the bias.
  virtual at::Tensor Forward(const RelationBlock& relation, const Sets& sets,
                             RelationInputs& inputs) const = 0;

  /// Whether it looks at the rows of destinations.
  virtual bool reads_destinations() const { return false; }

  /// Which every node of the destination's type gets, with edges or without.
  virtual const at::Tensor& bias() const = 0;

  /// In the order in which they were drawn, the bias among them.
  virtual std::vector<NamedTensor> parameters() const = 0;
};

/// The columns that a relation's ends have in a layer, and those it gives.
struct RelationPlace {
  int64_t source_columns = 0;
  int64_t destination_columns = 0;
  int64_t out = 0;
};

/// That of `relation` in the layer at `place`.
RelationPlace PlaceOf(const RelationSchema& schema, const Relation& relation,
                      const LayerPlace& place);

/// Makes the convolutions of a layer's live relations, in their order.
using NewRelationConvolution =
    std::function<std::unique_ptr<RelationConvolution>(const RelationPlace&)>;

/// A layer of PyG's HeteroConv, which sums over the relations that lead to a
/// node. Destinations of types that are not live get zeros, which no later
/// layer reads.
std::unique_ptr<Convolution> NewHeteroConvolution(
    const RelationSchema& schema, const LayerPlace& place,
    const NewRelationConvolution& new_convolution);

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_LAYERS_RELATIONAL_H_
