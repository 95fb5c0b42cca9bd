#include "engine/model/hetero_kind.h"

#include <vector>

namespace hearth::model {

HeteroKind::HeteroKind(const train::ModelShape& shape)
    : schema_(SchemaOf(shape)), label_width_(shape.label_width) {}

std::unique_ptr<Convolution> HeteroKind::NewLayer(
    const LayerPlace& place, Initializer initializer) const {
  return NewHeteroConvolution(schema_, place, [&](const RelationPlace& ends) {
    return NewRelation(ends, initializer);
  });
}

LayerMemory HeteroKind::Memory(const LayerPlace& place,
                               const BlockSize& block) const {
  LayerMemory parameters;
  const std::vector<size_t> live = schema_.LiveRelations(place.layer);
  for (const size_t number : live) {
    parameters.parameters += RelationParameterBytes(
        PlaceOf(schema_, schema_.relations[number], place));
  }
  const RelationRowCounts rows = CountRows(schema_, live, block);
  return parameters + RelationTensors(place, rows, block) +
         MoreMemory(place, rows, block);
}

LayerMemory HeteroKind::EndsMemory(uint64_t /*num_inputs*/,
                                   uint64_t num_seeds) const {
  return LinearMemory(hidden(), label_width_, num_seeds);
}

}  // namespace hearth::model
