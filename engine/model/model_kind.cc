#include "engine/model/model_kind.h"

namespace hearth::model {

std::vector<LayerPlace> LayerPlaces(const ModelKind& kind,
                                    const train::ModelShape& shape) {
  std::vector<LayerPlace> places;
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
    const bool first = layer == 0;
    const bool last = layer == shape.num_layers - 1;
    places.push_back({.in = first ? shape.feature_dim : kind.hidden(),
                      .out = last ? shape.label_width : kind.hidden(),
                      .first = first,
                      .last = last});
  }
  return places;
}

}  // namespace hearth::model
