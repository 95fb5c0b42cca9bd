#ifndef HEARTH_ENGINE_MODEL_HETERO_KIND_H_
#define HEARTH_ENGINE_MODEL_HETERO_KIND_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/model/hetero_convolution.h"
#include "engine/model/model_kind.h"
#include "engine/model/relation_memory.h"
#include "engine/model/relation_schema.h"
#include "engine/train/model_options.h"

namespace hearth::model {

/// Base of rsage and rgat, the RGNN of MLPerf and IGBH: layers of PyG's
/// HeteroConv, LeakyReLU and dropout after each of them, and a linear layer.
class HeteroKind : public ModelKind {
 public:
  /// REQUIRES: `shape` is valid.
  explicit HeteroKind(const train::ModelShape& shape);

  Activation activation() const override { return Activation::kLeakyRelu; }
  bool has_output_layer() const override { return true; }
  bool drops_types() const override { return true; }

  std::unique_ptr<Convolution> NewLayer(const LayerPlace& place,
                                        Initializer initializer) const override;

  LayerMemory Memory(const LayerPlace& place,
                     const BlockSize& block) const override;

  LayerMemory EndsMemory(uint64_t num_inputs,
                         uint64_t num_seeds) const override;

 protected:
  /// Makes the convolution of a relation.
  virtual std::unique_ptr<RelationConvolution> NewRelation(
      const RelationPlace& place, Initializer& initializer) const = 0;

  /// Bytes of the convolution's parameters, exactly.
  virtual Bytes RelationParameterBytes(const RelationPlace& place) const = 0;

  /// Memory that a layer of so many relations takes beside RelationTensors.
  virtual LayerMemory MoreMemory(const LayerPlace& /*place*/,
                                 const RelationRowCounts& /*rows*/,
                                 const BlockSize& /*block*/,
                                 size_t /*num_relations*/) const {
    return {};
  }

 private:
  const RelationSchema schema_;
  const int64_t label_width_;
};

}  // namespace hearth::model

#endif  // HEARTH_ENGINE_MODEL_HETERO_KIND_H_
