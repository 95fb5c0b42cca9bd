#include "engine/model/model_kind.h"

namespace hearth::model {

std::vector<LayerPlace> LayerPlaces(const ModelKind& kind,
                                    const train::ModelShape& shape) {
  const bool projected = kind.projects_inputs();
  std::vector<LayerPlace> places;
  for (int64_t layer = 0; layer < shape.num_layers; ++layer) {
    const bool first = layer == 0 && !projected;
    const bool last = layer == shape.num_layers - 1;
    const bool output = last && !kind.has_output_layer();
    places.push_back({.layer = layer,
                      .in = first ? shape.feature_dim : kind.hidden(),
                      .out = output ? shape.label_width : kind.hidden(),
                      .first = first,
                      .last = last});
  }
  return places;
}

}  // namespace hearth::model
