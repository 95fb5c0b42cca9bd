#include "engine/model/gin.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>

#include "engine/model/graph_functions.h"

namespace hearth::model {
namespace {

class GinConvolution final : public Convolution {
 public:
  GinConvolution(const LayerPlace& place, Initializer initializer)
      : inner_weight_(initializer.Linear({place.out, place.in}, place.in)),
        inner_bias_(initializer.Linear({place.out}, place.in)),
        outer_weight_(initializer.Linear({place.out, place.out}, place.out)),
        outer_bias_(initializer.Linear({place.out}, place.out)) {}

  at::Tensor Forward(
      const at::Tensor& x, const sample::Block& block, const LayerNodes& nodes,
      const std::optional<ReluActivation>& activation) const override {
    const at::Tensor inner = PropagateLinear(
        x, inner_weight_, inner_bias_, /*root_weight=*/std::nullopt,
        NewEdges(SumAdjacency(block), x.device()), ReluActivation());
    return Linear(inner, outer_weight_, outer_bias_, activation);
  }

  std::vector<NamedTensor> parameters() const override {
    return {{"nn.lins.0.weight", inner_weight_},
            {"nn.lins.0.bias", inner_bias_},
            {"nn.lins.1.weight", outer_weight_},
            {"nn.lins.1.bias", outer_bias_}};
  }

  std::vector<NamedTensor> constants() const override {
    return {{"eps", at::zeros({1}, at::kFloat)}};
  }

 private:
  at::Tensor inner_weight_;
  at::Tensor inner_bias_;
  at::Tensor outer_weight_;
  at::Tensor outer_bias_;
};

class GinKind final : public ModelKind {
 public:
  explicit GinKind(const train::GinOptions& options) : options_(options) {}

  std::string name() const override { return "gin"; }
  int64_t hidden() const override { return options_.hidden; }

  std::unique_ptr<Convolution> NewLayer(
      const LayerPlace& place, Initializer initializer) const override {
    return std::make_unique<GinConvolution>(place, initializer);
  }

  LayerMemory Memory(const LayerPlace& place,
                     const BlockSize& block) const override {
    const Bytes rows = MatrixBytes(block.destinations, place.out);
    const Bytes outer = LinearBytes(place.out, place.out);
    LayerMemory memory =
        PropagationMemory(place, block, LinearBytes(place.in, place.out));
    memory.parameters += outer;
    // The second product's output.
    memory.saved += rows;
    // The gradients by that, by it before its activation, and by its input, of
    // which the last is the first product's.
    memory.forward = std::max(memory.forward, ProductBytes(outer));
    memory.backward = std::max(
        memory.backward, 3 * rows + GradientBytes(outer, block.destinations));
    return memory;
  }

 private:
  const train::GinOptions options_;
};

}  // namespace

std::unique_ptr<ModelKind> NewGin(const train::GinOptions& options) {
  return std::make_unique<GinKind>(options);
}

}  // namespace hearth::model
