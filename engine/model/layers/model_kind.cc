#include "engine/model/layers/model_kind.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/model/cpu/relations.h"
#include "engine/model/layers/homogeneous_kinds.h"
#include "engine/model/layers/relational_kinds.h"

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

namespace {

// Table of all kinds of model; a missing one does not compile.
struct NewKind {
  using Result = std::unique_ptr<ModelKind>;

  Result operator()(const train::SageOptions& sage) { return NewSage(sage); }
  Result operator()(const train::GcnOptions& gcn) { return NewGcn(gcn); }
  Result operator()(const train::GatOptions& gat) { return NewGat(gat); }
  Result operator()(const train::Gatv2Options& v2) { return NewGatv2(v2); }
  Result operator()(const train::GinOptions& gin) { return NewGin(gin); }
  Result operator()(const train::RgcnOptions& rgcn) {
    return NewRgcn(rgcn, shape);
  }
  Result operator()(const train::RsageOptions& rsage) {
    return NewRsage(rsage, shape);
  }
  Result operator()(const train::RgatOptions& rgat) {
    return NewRgat(rgat, shape);
  }
  Result operator()(const train::NoModelOptions&) { return nullptr; }

  const train::ModelShape& shape;
};

}  // namespace

std::unique_ptr<ModelKind> NewModelKind(const train::ModelOptions& options,
                                        const train::ModelShape& shape) {
  return std::visit(NewKind{shape}, options);
}

absl::Status CheckTypes(const train::ModelOptions& options,
                        const train::ModelShape& shape) {
  if (!train::TakesTypes(options) &&
      (shape.num_node_types() > 1 || shape.num_edge_types() > 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        train::Name(options),
        " trains on graphs of one node type and one edge type; ",
        train::RgcnOptions::kName, ", ", train::RsageOptions::kName, " and ",
        train::RgatOptions::kName, " take several"));
  }
  const auto kind = NewModelKind(options, shape);
  if (kind == nullptr) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(CheckKeysDiffer(shape));
  if (!kind->drops_types()) return absl::OkStatus();
  return CheckTargetIsLive(shape);
}

}  // namespace hearth::model
