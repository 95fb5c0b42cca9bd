#include "engine/model/gcn.h"

#include <optional>

#include "engine/model/graph_functions.h"

namespace hearth::model {
namespace {

class GcnConvolution final : public Convolution {
 public:
  GcnConvolution(const LayerPlace& place, Initializer initializer)
      : weight_(initializer.Glorot({place.out, place.in})),
        bias_(initializer.Zeros(place.out)) {}

  at::Tensor Forward(
      const at::Tensor& x, const sample::Block& block, const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    return PropagateLinear(
        x, weight_, bias_, /*root_weight=*/std::nullopt,
        NewEdges(SymmetricAdjacency(block, nodes.degrees), x.device()),
        activation);
  }

  std::vector<NamedTensor> parameters() const override {
    return {{"lin.weight", weight_}, {"bias", bias_}};
  }

 private:
  at::Tensor weight_;
  at::Tensor bias_;
};

class GcnKind final : public ModelKind {
 public:
  explicit GcnKind(const train::GcnOptions& options) : options_(options) {}

  std::string name() const override { return "gcn"; }
  int64_t hidden() const override { return options_.hidden; }

  std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const override {
    return std::make_unique<GcnConvolution>(place, initializer);
  }

  LayerMemory Memory(const LayerPlace& place,
                     const BlockSize& block) const override {
    return PropagationMemory(place, block, LinearBytes(place.in, place.out));
  }

 private:
  const train::GcnOptions options_;
};

}  // namespace

std::unique_ptr<ModelKind> NewGcn(const train::GcnOptions& options) {
  return std::make_unique<GcnKind>(options);
}

}  // namespace hearth::model
