#ifndef HEARTH_ENGINE_MODEL_HETERO_CONVOLUTION_H_
#define HEARTH_ENGINE_MODEL_HETERO_CONVOLUTION_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/model/convolution.h"
#include "engine/model/layer_memory.h"
#include "engine/model/relation_blocks.h"
#include "engine/model/relation_inputs.h"
#include "engine/model/relation_schema.h"

namespace hearth::model {

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

#endif  // HEARTH_ENGINE_MODEL_HETERO_CONVOLUTION_H_
