#include "engine/model/hetero_kind.h"

#include <algorithm>
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
  Bytes largest = 0;
  const std::vector<size_t> live = schema_.LiveRelations(place.layer);
  for (const size_t number : live) {
    const Bytes bytes = RelationParameterBytes(
        PlaceOf(schema_, schema_.relations[number], place));
    parameters.parameters += bytes;
    largest = std::max(largest, bytes);
  }
  const RelationRowCounts rows = CountRows(schema_, live, block);
  return parameters + RelationTensors(place, rows, block, largest) +
         MoreMemory(place, rows, block, live.size());
}

LayerMemory HeteroKind::EndsMemory(uint64_t /*num_inputs*/,
                                   uint64_t num_seeds) const {
  return LinearMemory(hidden(), label_width_, num_seeds);
}

}  // namespace hearth::model
