#include "engine/model/sage.h"

#include "engine/model/graph_functions.h"

namespace hearth::model {
namespace {

class SageConvolution final : public Convolution {
 public:
  SageConvolution(const LayerPlace& place, Initializer initializer)
      : neighbor_weight_(initializer.Linear({place.out, place.in}, place.in)),
        bias_(initializer.Linear({place.out}, place.in)),
        root_weight_(initializer.Linear({place.out, place.in}, place.in)) {}

  at::Tensor Forward(
      const at::Tensor& x, const sample::Block& block, const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    return PropagateLinear(x, neighbor_weight_, bias_, root_weight_,
                           NewEdges(MeanAdjacency(block), x.device()),
                           activation);
  }

  std::vector<NamedTensor> parameters() const override {
    return {{"lin_l.weight", neighbor_weight_},
            {"lin_l.bias", bias_},
            {"lin_r.weight", root_weight_}};
  }

 private:
  at::Tensor neighbor_weight_;
  at::Tensor bias_;
  at::Tensor root_weight_;
};

class SageKind final : public ModelKind {
 public:
  explicit SageKind(const train::SageOptions& options) : options_(options) {}

  std::string name() const override { return "sage"; }
  int64_t hidden() const override { return options_.hidden; }

  std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const override {
    return std::make_unique<SageConvolution>(place, initializer);
  }

  LayerMemory Memory(const LayerPlace& place,
                     const BlockSize& block) const override {
    return PropagationMemory(
        place, block,
        MatrixBytes(2 * static_cast<uint64_t>(place.in) + 1, place.out));
  }

 private:
  const train::SageOptions options_;
};

}  // namespace

std::unique_ptr<ModelKind> NewSage(const train::SageOptions& options) {
  return std::make_unique<SageKind>(options);
}

}  // namespace hearth::model
